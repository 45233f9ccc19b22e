"""One row of the table of semantics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Corner:
    """What operators do in a corner that a definition for ordinary numbers leaves open.

    Attributes:
        operators: the operators, in words of the source frameworks.
        corner: the operands or sizes in question.
        pytorch: what PyTorch does, "" if it has no such operator or corner.
        onnx: what ONNX's text says, or ONNX Runtime does where the text is silent.
        relay: what Relay's definition says.
        ours: what a program does, for each source where they differ.
        tests: test functions that show it, ``path::function``.
    """

    operators: str
    corner: str
    ours: str
    tests: tuple[str, ...]
    pytorch: str = ""
    onnx: str = ""
    relay: str = ""
