"""Options: defaults, environment, cache key, refusals."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from tvm_disc import options as options_module
from tvm_disc.errors import BadOption, DiscError
from tvm_disc.options import ENVIRONMENT, Options, threads_of_pool


def test_defaults_need_no_environment() -> None:
    assert Options.from_env(environ={}) == Options()
    assert Options().threads is None and Options().dump_dir is None and Options().fuse


def test_every_variable_fills_its_field() -> None:
    environ = {
        "DISC_CACHE": "kept",
        "DISC_DEBUG": "3",
        "DISC_DUMP": "some/dir",
        "DISC_THREADS": "4",
        "DISC_RECORDS": "r",
    }
    assert set(environ) == set(ENVIRONMENT)
    found = Options.from_env(environ=environ)
    paths = {"cache": Path("kept"), "dump_dir": Path("some/dir"), "records": Path("r")}
    assert found == Options(debug=3, threads=4, **paths)


def test_a_word_switches_the_cache_off() -> None:
    assert Options.from_env(environ={"DISC_CACHE": "off"}).cache is False


def test_the_program_wins_over_the_environment() -> None:
    environ = {"DISC_THREADS": "4", "DISC_DEBUG": "1"}
    found = Options.from_env(Options(threads=2, fuse=False), environ)
    assert found == Options(threads=2, fuse=False, debug=1)


def test_an_empty_variable_is_unset() -> None:
    assert Options.from_env(environ=dict.fromkeys(ENVIRONMENT, "")) == Options()


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISC_THREADS", "3")
    assert Options.from_env().threads == 3


def test_the_table_in_the_docstring_is_the_table() -> None:
    text = options_module.__doc__ or ""
    for variable, (field, _) in ENVIRONMENT.items():
        assert any(f"``{variable}``" in row and f"``{field}``" in row for row in text.split("\n"))


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DISC_THREADS": "two"}, "DISC_THREADS: expected an integer, found 'two'"),
        ({"DISC_THREADS": "0"}, "DISC_THREADS: threads: expected at least 1, found 0"),
        ({"DISC_DEBUG": "6"}, r"DISC_DEBUG: debug: expected 0 .. 5, found 6"),
        ({"DISC_DEBUG": "-1"}, r"DISC_DEBUG: debug: expected 0 .. 5, found -1"),
    ],
)
def test_refuses_a_bad_variable(environ: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        Options.from_env(environ=environ)


def test_refuses_a_bad_field() -> None:
    with pytest.raises(DiscError, match="threads: expected at least 1, found -2"):
        Options(threads=-2)


@pytest.mark.parametrize("value", [1, 3, -2, 6])
def test_refuses_a_tile_that_there_is_no_filter_for(value: int) -> None:
    with pytest.raises(BadOption, match=f"winograd: expected 0, 2 or 4, found {value}"):
        Options(winograd=value)


def test_cache_key_holds_exactly_what_changes_code() -> None:
    key = Options().cache_key()
    assert key == (
        ("threads", None),
        ("fuse", True),
        ("versions", True),
        ("records", None),
        ("dispatch", None),
        ("templates", ()),
        ("winograd", 2),
        ("copy_bytes", 1 << 20),
        ("state", ()),
        ("state_dtype", None),
        ("state_window", 0),
        ("donate", ()),
        ("weights", None),
        ("weight_group", 32),
        ("int8_activations", False),
        ("cuda_graphs", 0),
        ("tf32", False),
        ("check_indices", None),
    )
    assert Options(debug=5, dump_dir="x", verify=True).cache_key() == key
    assert Options(fuse=False).cache_key() != key
    assert Options(threads=1).cache_key() != key
    assert len({key, Options(fuse=False).cache_key()}) == 2, "hashable"


def test_options_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Options().fuse = False  # type: ignore[misc]


def test_every_field_is_documented() -> None:
    text = inspect.getdoc(Options) or ""  # since Python 3.13 the compiler takes indentation away
    assert [f.name for f in fields(Options) if f"\n    {f.name}: " not in text] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "TVM_NUM_THREADS: expected an integer, found 'x'"),
        ("1.5", "TVM_NUM_THREADS: expected an integer, found '1.5'"),
        ("-1", "TVM_NUM_THREADS: expected at least 1, found -1"),
        ("0", "TVM_NUM_THREADS: expected at least 1, found 0"),
        ("9" * 20, "TVM_NUM_THREADS: expected at most 65536"),
    ],
)
def test_threads_of_tvm_s_pool(text: str, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        threads_of_pool({"TVM_NUM_THREADS": text})
    assert threads_of_pool({"TVM_NUM_THREADS": " 3 "}) == 3
    assert threads_of_pool({}) is None and threads_of_pool({"TVM_NUM_THREADS": ""}) is None


@pytest.mark.parametrize("name", ["dump_dir", "records", "dispatch", "cache"])
@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_paths_that_no_system_names(name: str, path: str) -> None:
    with pytest.raises(BadOption, match=f"{name}: expected a valid path"):
        Options(**{name: path})
