"""Arrays in temporary files."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tvm_disc.support import spilled as module
from tvm_disc.support.literals import ALIGNMENT, as_literal, literal_value
from tvm_disc.support.spilled import LEAST_BYTES, release_pages, spilled

RNG = np.random.default_rng(0)


def numbers(size: int, dtype: str = "int8") -> np.ndarray:
    return RNG.integers(-8, 8, size).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32"])
@pytest.mark.parametrize("size", [LEAST_BYTES, LEAST_BYTES + 1, 3 * LEAST_BYTES + 77])
def test_elements_are_kept(dtype: str, size: int) -> None:
    array = numbers(size, dtype)
    found = spilled(array)
    for _ in range(2):
        np.testing.assert_array_equal(found, array)
        release_pages()
    assert found.ctypes.data % ALIGNMENT == 0 and found.flags.c_contiguous


def test_transposed_arrays_become_row_major() -> None:
    array = numbers(4 << 20).reshape(2048, 32, 64).transpose(1, 2, 0)
    found = spilled(array)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, array)


def test_a_literal_shares_the_memory() -> None:
    array = spilled(numbers(2 << 20))
    literal = as_literal(array, "int8")
    assert np.shares_memory(literal_value(literal), array)


def test_arrays_in_one_file_do_not_overlap() -> None:
    arrays = [numbers(LEAST_BYTES + k * 1001) for k in range(9)]
    found = [spilled(a) for a in arrays]
    for a, b in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(a, b)
        b[:] = 7
    release_pages()
    assert all((b == 7).all() for b in found)


def test_a_file_exists_as_long_as_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_last", [])
    monkeypatch.setattr(module, "CHUNK_BYTES", 4 << 20)
    gc.collect()
    before = len(module._chunks)
    found = [spilled(numbers(3 << 20)) for _ in range(3)]
    large = spilled(numbers(9 << 20))
    assert len(module._chunks) == before + 4
    view = found[1][100:200]
    del found, large
    gc.collect()
    assert len(module._chunks) == before + 1 and view.shape == (100,)


def test_small_arrays_stay_in_memory() -> None:
    before = len(module._chunks)
    found = spilled(numbers(LEAST_BYTES - 1))
    assert len(module._chunks) == before and found.flags.writeable


@pytest.mark.parametrize("what", ["no space", "no folder", "no function"])
def test_without_a_file_arrays_stay_in_memory(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_last", [])

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    if what == "no function":
        monkeypatch.delattr(os, "posix_fallocate")
    else:
        where = (os, "posix_fallocate") if what == "no space" else (tempfile, "TemporaryFile")
        monkeypatch.setattr(*where, refuse)
    array, before = numbers(2 << 20), len(module._chunks)
    np.testing.assert_array_equal(spilled(array), array)
    assert len(module._chunks) == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size")
def test_pages_are_released() -> None:
    """200 MiB of arrays leave the process with less than 60 MiB more at most."""
    code = """
import resource, numpy as np
from tvm_disc.support.spilled import spilled
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
array = np.full(10 << 20, 3, np.int8)
kept = [spilled(array)]
before = most()
kept += [spilled(array) for _ in range(20)]
assert all(int(k[::4096].sum()) == 3 * len(k[::4096]) for k in kept[:3])
print(most() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60 << 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_writes_to_another_file() -> None:
    """A subprocess, because this process has threads."""
    code = """
import os, numpy as np
from tvm_disc.support.spilled import LEAST_BYTES, spilled
kept = spilled(np.full(LEAST_BYTES, 1, "int8"))
child = os.fork()
found = spilled(np.full(LEAST_BYTES, 2 if child else 3, "int8"))
if not child:
    os._exit(int(not ((found == 3).all() and (kept == 1).all())))
assert os.waitpid(child, 0)[1] == 0 and (found == 2).all() and (kept == 1).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_write_to_different_bytes() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda k: spilled(np.full(LEAST_BYTES, k, "int8")), range(64)))
    finally:
        sys.setswitchinterval(before)
    for k, array in enumerate(found):
        assert (array == k).all()
