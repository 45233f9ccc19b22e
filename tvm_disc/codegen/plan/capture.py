"""Check whether a CUDA graph can represent the launches of a call: they must depend on dims
only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm_disc.codegen.plan.program import (
    Conditional,
    Copy,
    Instruction,
    Launch,
    Loop,
    Program,
    ReadDims,
    Region,
)
from tvm_disc.errors import WhyNot

SUBJECT = "CUDA graphs"
IN_LOOP = ", in each step"


def keep_graphs(program: Program, most: int) -> None:
    """Let a program keep up to ``most`` CUDA graphs, or record why it cannot have any."""
    steps = program.region.instructions
    for k, step in enumerate(steps):
        if reason := _reason(step, steps[k:]):
            program.no_graphs = WhyNot(SUBJECT, reason)
            return
    program.graphs = most


def _reason(step: Instruction, later: Sequence[Instruction]) -> str:
    match step:
        case ReadDims():
            return f"{_names(step)} depends on data: read back from the device"
        case Conditional():
            return "a branch depends on data: its condition is read back from the device"
        case Loop():
            return "a loop depends on data: its condition is read back from the device"
        case Copy() if any(isinstance(s, Launch) for s in later):
            return "a tensor is copied between kernels"
    return ""


def waits(program: Program) -> list[str]:
    """Return a text for each point where a call waits for the GPU, in order. Each wait copies a few
    bytes to the host.
    """
    return list(_waits(program.region, ""))


def _waits(region: Region, where: str) -> Iterator[str]:
    for step in region.instructions:
        match step:
            case ReadDims(source=source):
                yield f"waits for {source.name}: reads {_names(step)}{where}"
            case Conditional(cond=cond):
                yield f"waits for {cond.name}: reads the condition of a branch{where}"
                for side in (step.then_region, step.else_region):
                    yield from _waits(side, where)
            case Loop(cond=cond):
                yield from _waits(step.header, IN_LOOP)
                yield f"waits for {cond.name}: reads the condition of a loop{IN_LOOP}"
                yield from _waits(step.body, IN_LOOP)
                yield from _waits(step.exit, where)


def _names(step: ReadDims) -> str:
    names = ", ".join(str(v) for v in step.vars)
    return f"the size{'s' if len(step.vars) > 1 else ''} {names}"


__all__ = ["keep_graphs", "waits"]
