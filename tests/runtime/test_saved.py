"""Programs saved over loaded ones, and programs as bytes: pickled, copied."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.codegen import export
from tvm_disc.errors import ArtifactError

ZEROS = np.zeros(3, "float32")


def adds(number: float) -> Any:
    """A program that adds a number."""
    x = rows("n")
    return tvm_disc.build(function(x, relay.add(x, relay.const(np.float32(number)))))


def test_a_program_saved_over_a_loaded_one_is_what_is_loaded_next(tmp_path: Path) -> None:
    path, loaded = tmp_path / "model.so", []
    for number in (1, 2, 3):
        adds(number).save(path)
        loaded.append(tvm_disc.load(path))
        loaded[-1](ZEROS)
    # The older ones go on as they were.
    assert [float(exe(ZEROS)[0]) for exe in loaded] == [1, 2, 3]


def test_a_file_written_over_in_place_is_what_is_loaded_next(tmp_path: Path) -> None:
    path, other = tmp_path / "model.so", tmp_path / "other.so"
    adds(1).save(path)
    adds(2).save(other)
    tvm_disc.load(path)
    path.write_bytes(other.read_bytes())
    assert tvm_disc.load(path)(ZEROS)[0] == 2


def test_the_ending_of_the_name_is_free(tmp_path: Path) -> None:
    for name in ("noending", "model.tar", "model.o"):
        adds(4).save(tmp_path / name)
        assert tvm_disc.load(tmp_path / name)(ZEROS)[0] == 4


def test_pickle_and_copies() -> None:
    exe = adds(5)
    for made in (
        pickle.loads(pickle.dumps(exe)),
        copy.deepcopy(exe),
        copy.copy(exe),
        copy.deepcopy(copy.deepcopy(exe)),
    ):
        assert made(ZEROS)[0] == 5
        assert made.signature == exe.signature and made.timings == exe.timings


def test_a_copy_has_threads_of_its_own() -> None:
    exe = tvm_disc.build(function(x := rows("n"), relay.exp(x)))
    exe.threads = 1
    made = copy.deepcopy(exe)
    made.threads = 2
    assert (exe.threads, made.threads) == (1, 2)


def test_another_process_takes_a_pickled_program() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(adds(6), (ZEROS,))[0] == 6


def test_a_loaded_program_is_pickled_as_its_file(tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    adds(7).save(path)
    exe = tvm_disc.load(path)
    assert pickle.loads(pickle.dumps(exe))(ZEROS)[0] == 7
    adds(8).save(path)
    with pytest.raises(ArtifactError, match="the file was replaced since"):
        pickle.dumps(exe)
    path.unlink()
    with pytest.raises(ArtifactError, match="no such file"):
        copy.deepcopy(exe)


def test_nothing_to_pickle_with(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = adds(9)
    monkeypatch.setattr(export, "COMPILERS", ("no-such-compiler",))
    with pytest.raises(ArtifactError, match="needs a C compiler"):
        pickle.dumps(exe)


def test_bytes_that_are_no_program() -> None:
    made = adds(1).__reduce__()
    restore, (data, *rest) = made
    with pytest.raises(ArtifactError, match="truncated"):
        restore(data[:-1], *rest)
