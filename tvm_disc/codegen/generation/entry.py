"""The packed function that runs the loop of ``loop.c`` on a plan (``abi/generation.py``)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tvm.tirx import op as O

from tvm_disc.abi.entries import GENERATE
from tvm_disc.abi.language import is_step
from tvm_disc.codegen.host.overlap import failed
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.plan.program import Program
from tvm_disc.relay_passes.module_facts import STATE
from tvm_disc.tir.builder import Block, i64
from tvm_disc.tir.imports import provide
from tvm_disc.typing import Expr, PrimFunc

provide(Path(__file__).with_name("loop.ll").read_text(encoding="utf-8"))


def generates(program: Program) -> bool:
    """Return whether a program is the step of a language model, so that the loop can run it.

    The loop extends every cache by one row. It supports neither caches that drop rows, whose
    address changes, nor caches of a fixed size.
    """
    state = program.attrs.get(STATE)
    if isinstance(state, Iterable) and any(
        not length or not isinstance(kept, str) for _, length, *_, kept in state
    ):
        return False
    inputs = [(name, len(shape), dtype) for name, shape, dtype in program.signature.inputs]
    return is_step(inputs, [(len(value.shape), value.dtype) for value in program.outputs])


def generate_entry() -> PrimFunc:
    """Return the packed function ``(step, address of a plan) -> DONE or NOT_A_NUMBER``; it returns
    the error if a step fails.
    """

    def emit(block: Block, args: Arguments) -> Expr:
        step, plan = (block.bind(n, args.integer(k)) for k, n in enumerate(("step", "plan")))
        status = block.bind("status", O.call_extern("int64", "disc.generate", step, plan))
        with block.when(status < i64(0)):
            block.eval(failed(args.handle))
        return status

    return packed(GENERATE, emit)


__all__ = ["generate_entry", "generates"]
