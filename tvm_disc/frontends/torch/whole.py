"""Detection of programs that need no decomposition: all operators have converters, none writes.

``ExportedProgram.run_decompositions`` runs the model twice under symbolic shapes, which dominates
the import time: half a minute for a MobileNet. It is required only for operators without a
converter and for operators that write into their operands. Most writes go to a tensor that nothing
else reads, such as the result of a convolution; these are read as the corresponding functional
operator.
"""

from __future__ import annotations

from typing import Any

from tvm_disc.frontends.torch.table import ROWS, row_name
from tvm_disc.typing import ExportedProgram, FxNode

# Operators whose results are always new memory. Others may return their operand, as dropout does.
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
    if name.partition(".")[0] in ("batch_norm", "instance_norm"):  # these write while training
        return name == "batch_norm.default" and len(node.args) > 5 and node.args[5] is False
    return not writes(node.target) or _unseen(node)


def writes(target: object) -> bool:
    """Return whether an operator writes into an operand."""
    return bool(getattr(getattr(target, "_schema", None), "is_mutable", False))


def _unseen(node: FxNode) -> bool:
    """Return whether an operator writes only into its first operand, which nothing else reads."""
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
    """Return whether the node owns its storage, or aliases a mutated operand that does."""
    if source.op != "call_function" or not hasattr(source.target, "_schema"):
        return False
    if writes(source.target):
        return _unseen(source)
    return row_name(source.target) in _MAKES


__all__ = ["functional_name", "is_whole", "writes"]
