"""CUDA C where TVM's CUDA runtime is loaded, as on a machine with a GPU: TVM compiles nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.cuda import emulator
from tests.models import mlp
from tvm_disc import build
from tvm_disc.codegen.cuda import source

CREATE, COMPILE = "ffi.Module.create.cuda", "tvm_callback_cuda_compile"


@pytest.fixture
def compiled() -> Iterator[list[Any]]:
    """The texts that TVM compiles, by a runtime like the one for CUDA."""
    texts: list[Any] = []

    def create(code: bytes, fmt: str, functions: Any, sources: Any) -> Any:
        tvm_ffi.get_global_func(COMPILE)(code.decode())
        return tvm.get_global_func("runtime.SourceModuleCreate")("", fmt)

    def compile_text(code: str) -> bytes:
        texts.append(code)
        raise RuntimeError("no headers")

    before = tvm_ffi.get_global_func(COMPILE)
    tvm_ffi.register_global_func(COMPILE, compile_text, override=True)
    tvm_ffi.register_global_func(CREATE, create, override=True)
    yield texts
    tvm_ffi.registry.remove_global_func(CREATE)
    tvm_ffi.register_global_func(COMPILE, before, override=True)


def test_tvm_does_not_compile_our_text(compiled: list[Any]) -> None:
    with emulator.emulated():
        program = build(mlp(), target="cuda")
        assert program(np.ones((3, 16), "float32")).shape == (3, 10)
    assert compiled == []


def test_other_threads_still_compile(compiled: list[Any]) -> None:
    with source._uncompiled() as own:
        assert bytes(tvm_ffi.get_global_func(COMPILE)("mine")) == b""
        failed: list[str] = []

        def other() -> None:
            try:
                tvm_ffi.get_global_func(COMPILE)("theirs")
            except RuntimeError as error:
                failed.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert own == ["mine"] and compiled == ["theirs"]
    assert failed and "no headers" in failed[0]
    with pytest.raises(RuntimeError, match="no headers"):
        tvm_ffi.get_global_func(COMPILE)("after")
