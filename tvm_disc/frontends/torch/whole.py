"""Detection of exported programs that can be converted without PyTorch's decompositions.

``ExportedProgram.run_decompositions`` traces the model twice with symbolic shapes, which takes most
of the import time: half a minute for a MobileNet. It is required only for operators without a
converter and for operators that write into their operands. Most operators of the second kind write
to a tensor that no other node reads, such as the result of a convolution. They are converted as the
corresponding functional operator.
"""

from __future__ import annotations

from typing import Any

from tvm_disc.frontends.torch.table import ROWS, row_name
from tvm_disc.typing import ExportedProgram, FxNode

# Operators whose result never aliases an operand. Dropout, for example, may return its operand.
_MAKES = frozenset(
    f"{name}.default"
    for name in (
        "addmm", "batch_norm", "bmm", "cat", "conv1d", "conv2d", "conv3d", "group_norm",
        "layer_norm", "lift_fresh_copy", "linear", "matmul", "mm", "stack",
    )
) | {"add.Tensor", "conv_transpose2d.input", "mul.Tensor", "sub.Tensor"}  # fmt: skip


def is_whole(program: ExportedProgram) -> bool:
    """Return whether every node of an exported program can be converted without decomposition."""
    return all(_reads(node) for node in program.graph.nodes if node.op == "call_function")


def functional_name(node: FxNode) -> str:
    """Return the table name of a node's operator, or of its functional form if it is in-place."""
    name = row_name(node.target)
    if not writes(node.target):
        return name
    base, _, overload = name.partition(".")
    return f"{base.removesuffix('_')}.{overload}"


def _reads(node: FxNode) -> bool:
    if type(node.target).__name__ == "builtin_function_or_method":
        return True
    if not hasattr(node.target, "_schema"):
        return str(getattr(node.target, "__name__", "")).startswith("sym_")
    name = functional_name(node)
    if str(node.target).startswith("aten.sym_size"):
        return True
    if name not in ROWS:
        return False
    if name.partition(".")[0] in ("batch_norm", "instance_norm"):  # they write in training mode
        return name == "batch_norm.default" and len(node.args) > 5 and node.args[5] is False
    return not writes(node.target) or _unseen(node)


def writes(target: object) -> bool:
    """Return whether an operator writes into an operand."""
    return bool(getattr(getattr(target, "_schema", None), "is_mutable", False))


def _unseen(node: FxNode) -> bool:
    """Return whether a node writes only into its first operand, which no other node reads."""
    arguments = node.target._schema.arguments
    written = [k for k, a in enumerate(arguments) if a.alias_info and a.alias_info.is_write]
    return (
        written == [0]
        and not node.kwargs
        and _is_own(node.args[0])
        and list(node.args[0].users) == [node]
        and len({_dtype(x) for x in (node, *node.all_input_nodes)}) == 1
    )


def _dtype(node: FxNode) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)


def _is_own(source: FxNode) -> bool:
    """Return whether ``source`` returns new memory, or writes in place to unseen new memory."""
    if source.op != "call_function" or not hasattr(source.target, "_schema"):
        return False
    if writes(source.target):
        return _unseen(source)
    return row_name(source.target) in _MAKES


__all__ = ["functional_name", "is_whole", "writes"]
