"""One row of docs/semantics.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Corner:
    """The results of operators for an edge case.

    Attributes:
        operators: names of the operators in the source frameworks.
        corner: the operands or sizes of the case.
        pytorch: PyTorch's result; "" if the case does not exist there.
        onnx: the result by ONNX's specification, or by ONNX Runtime where that is silent.
        relay: the result by Relay's definition.
        ours: the result of a program, for each source if they differ.
        tests: tests of the case, as ``path::function``.
    """

    operators: str
    corner: str
    ours: str
    tests: tuple[str, ...]
    pytorch: str = ""
    onnx: str = ""
    relay: str = ""
