"""Programs of files that were built before: found whole, and never for another build."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tests.models import TREES, mlp, mlp_reference
from tvm_disc import Options, compile, relay
from tvm_disc.compile import compile_counter
from tvm_disc.errors import BadInput, ParseError
from tvm_disc.support.store import Store

SHAPES = [(0, 16), (1, 16), (7, 16), (64, 16)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A perceptron as a file."""
    path = tmp_path / "mlp.json"
    path.write_text(relay.save_json(mlp()))
    return path


def compilations(work: Callable[[], Any]) -> int:
    with compile_counter() as count:
        work()
    return count[0]


def test_a_file_is_compiled_once(source: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    options = Options(cache=tmp_path / "kept")
    first = tvm_disc.build(source, options=options)
    with compile_counter() as count:
        second = tvm_disc.build(str(source), options=options)
    assert count == [0] and "kernels" not in second.timings and "find" in second.timings
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype("float32")
        assert np.array_equal(first(x), second(x))
        np.testing.assert_allclose(second(x), mlp_reference(x), rtol=1e-5, atol=1e-6)
    assert second.explain() == first.explain() and second.signature == first.signature
    second.save(tmp_path / "saved.so")
    x = rng.standard_normal((5, 16)).astype("float32")
    assert np.array_equal(tvm_disc.load(tmp_path / "saved.so")(x), first(x))


def test_the_code_of_a_kept_program_can_be_read(source: Path, tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "kept")
    first, kept = (tvm_disc.build(source, options=options) for _ in range(2))
    # LLVM's names of memory are addresses of the compiler's.
    plain = [re.sub("0x[0-9a-f]+", "", exe.source("ll")) for exe in (first, kept)]
    assert plain[0] == plain[1]
    again = tvm_disc.build(source, options=options)
    source.write_text(relay.save_json(mlp(hidden=8)))
    with pytest.raises(BadInput, match="file or a setting of the build has changed"):
        again.source("ll")


def test_without_a_linker_a_kept_program_is_compiled(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    options = Options(cache=tmp_path / "kept")
    x = rng.standard_normal((3, 16)).astype("float32")
    want = tvm_disc.build(source, options=options)(x)
    monkeypatch.setattr("tvm_disc.codegen.machine_code._linker", lambda: None)
    kept = tvm_disc.build(source, options=options)
    np.testing.assert_allclose(kept(x), want, rtol=1e-6)


def test_what_changes_a_program_changes_its_name(source: Path, tmp_path: Path) -> None:
    """Each of these is another build: none takes what was kept of those before."""
    kept = {"cache": tmp_path / "kept"}
    build = tvm_disc.build
    trees = tmp_path / "trees.json"
    trees.write_text("{}")

    def changed() -> Any:
        source.write_text(relay.save_json(mlp(hidden=8)))
        return build(source, options=Options(**kept))

    ways: list[Callable[[], Any]] = [
        lambda: build(source, options=Options(**kept)),
        lambda: build(source, options=Options(**kept, threads=1)),
        lambda: build(source, options=Options(**kept, fuse=False)),
        lambda: build(source, options=Options(**kept, dispatch=trees)),
        lambda: build(source, options=Options(**kept), target="llvm -mcpu=x86-64-v2"),
        lambda: build(source, options=Options(**kept), target=["x86-64-v2", "x86-64-v3"]),
        lambda: build(source, options=Options(**kept), constraints=["x.0 <= 100"]),
        changed,
    ]
    assert [compilations(way) for way in ways] == [1] * len(ways)
    assert [compilations(way) for way in ways[1:]] == [1, 1, 1, 1, 1, 1, 0], "the file has changed"


def test_a_parameter_file_counts(tmp_path: Path, rng: np.random.Generator) -> None:
    source, params = tmp_path / "dense.json", tmp_path / "dense.params"
    x, w = relay.var("x", shape=(relay.Any(), 4)), relay.var("w", shape=(3, 4))
    module = relay.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    source.write_text(relay.save_json(module))
    a = rng.standard_normal((2, 4)).astype("float32")
    for expected in (1, 0):
        for scale in (1.0, 2.0):
            weight = np.full((3, 4), scale, "float32")
            params.write_bytes(relay.save_param_dict({"w": weight}))
            options = Options(cache=tmp_path / "kept")
            with compile_counter() as count:
                exe = tvm_disc.build(source, params=params, options=options)
            assert count == [expected]
            np.testing.assert_allclose(exe(a), a @ weight.T, rtol=1e-5)


@tvm.transform.module_pass(opt_level=0)
def nothing(mod: Any, _: Any) -> Any:
    return mod


@tvm.instrument.pass_instrument
class Watching:
    """Is told of every pass."""


BUILDS_EACH_TIME: list[dict[str, Any]] = [
    {"passes": {"after simplify": nothing}},
    {"params": {}},
    {"options": {"verify": True}},
    {"options": {"dump_dir": "dumps"}},
    {"options": {"cache": False}},
]


@pytest.mark.parametrize("told", BUILDS_EACH_TIME, ids=str)
def test_what_has_no_name_is_built(told: dict[str, Any], source: Path, tmp_path: Path) -> None:
    own = {"cache": tmp_path / "kept", **told.get("options", {})}
    if "dump_dir" in own:
        own["dump_dir"] = tmp_path / own["dump_dir"]
    rest = {name: value for name, value in told.items() if name != "options"}
    work = lambda: tvm_disc.build(source, options=Options(**own), **rest)  # noqa: E731
    assert [compilations(work) for _ in range(2)] == [1, 1]


def test_a_pass_context_counts(source: Path, tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "kept")
    plain = contextlib.nullcontext()
    level = tvm.transform.PassContext(opt_level=1)
    watched = tvm.transform.PassContext(instruments=[Watching()])
    counts = []
    for context in (plain, level, plain, level, watched, watched):
        with context:
            counts.append(compilations(lambda: tvm_disc.build(source, options=options)))
    assert counts == [1, 1, 0, 0, 1, 1], "what a user's instrument is to see happens"


def test_a_damaged_program_is_built_again(source: Path, tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "kept")
    build = lambda: tvm_disc.build(source, options=options)  # noqa: E731
    assert compilations(build) == 1
    for entry in Store(tmp_path / "kept").entries():
        entry.path.write_bytes(entry.path.read_bytes()[:-1])
    assert [compilations(build), compilations(build)] == [1, 0]


def test_data_types_are_kept(tmp_path: Path) -> None:
    """What a program tells of its data types goes through JSON."""
    path = tmp_path / "trees.relay"
    path.write_text(TREES)
    options = Options(cache=tmp_path / "kept")
    first = tvm_disc.build(path, options=options)
    with compile_counter() as count:
        second = tvm_disc.build(path, options=options)
    assert count == [0] and second.inputs == first.inputs
    assert second.explain() == first.explain() and repr(second) == repr(first)


def test_errors_of_a_file_are_those_of_reading_it(tmp_path: Path) -> None:
    options = Options(cache=tmp_path / "kept")
    for name in ("none.relay", "none.onnx"):
        with pytest.raises(BadInput, match=name):
            tvm_disc.build(tmp_path / name, options=options)
    broken = tmp_path / "broken.relay"
    broken.write_text("def @main(")
    for _ in range(2):
        with pytest.raises(ParseError, match=r"broken\.relay"):
            tvm_disc.build(broken, options=options)
    assert compile.PASSES and not list(Store(tmp_path / "kept").entries())
