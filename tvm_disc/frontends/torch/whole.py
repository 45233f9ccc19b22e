"""Programs that PyTorch need not trace anew: every operator has a row, and none writes.

``ExportedProgram.run_decompositions`` runs the model twice under symbolic shapes, which takes
longer than all else that reading a model does; of a MobileNet it takes half a minute. What it is
for are operators without a row, and those that write into their operands. Most that write do so
into what nobody else reads, the result of a convolution: those are read as what they compute.
"""

from __future__ import annotations

from typing import Any

from tvm_disc.frontends.torch.table import ROWS, row_name

# Whose results are always new memory. Others may give their operand itself, as dropout does.
_MAKES = frozenset(
    f"{name}.default"
    for name in (
        "addmm", "batch_norm", "bmm", "cat", "conv1d", "conv2d", "conv3d", "group_norm",
        "layer_norm", "lift_fresh_copy", "linear", "matmul", "mm", "stack",
    )
) | {"add.Tensor", "conv_transpose2d.input", "mul.Tensor", "sub.Tensor"}  # fmt: skip


def is_whole(program: Any) -> bool:
    """Whether every node of an exported program may be read as it stands."""
    return all(_reads(node) for node in program.graph.nodes if node.op == "call_function")


def functional_name(node: Any) -> str:
    """The row of a node; of an operator that writes where nobody looks, that of its result."""
    name = row_name(node.target)
    if not writes(node.target):
        return name
    base, _, overload = name.partition(".")
    return f"{base.removesuffix('_')}.{overload}"


def _reads(node: Any) -> bool:
    if type(node.target).__name__ == "builtin_function_or_method":
        return True
    if not hasattr(node.target, "_schema"):
        return str(getattr(node.target, "__name__", "")).startswith("sym_")
    name = functional_name(node)
    if str(node.target).startswith("aten.sym_size"):
        return True
    if name not in ROWS:
        return False
    if name.partition(".")[0] in ("batch_norm", "instance_norm"):  # which write when they train
        return name == "batch_norm.default" and len(node.args) > 5 and node.args[5] is False
    return not writes(node.target) or _unseen(node)


def writes(target: Any) -> bool:
    """Return whether an operator writes into an operand."""
    return bool(getattr(getattr(target, "_schema", None), "is_mutable", False))


def _unseen(node: Any) -> bool:
    """Whether an operator writes into its first operand alone, which nothing else reads."""
    arguments = node.target._schema.arguments
    written = [k for k, a in enumerate(arguments) if a.alias_info and a.alias_info.is_write]
    return (
        written == [0]
        and not node.kwargs
        and _is_own(node.args[0])
        and list(node.args[0].users) == [node]
        and len({_dtype(x) for x in (node, *node.all_input_nodes)}) == 1
    )


def _dtype(node: Any) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)


def _is_own(source: Any) -> bool:
    """Whether a node's memory is its own, or that of what it wrote into unseen."""
    if source.op != "call_function" or not hasattr(source.target, "_schema"):
        return False
    if writes(source.target):
        return _unseen(source)
    return row_name(source.target) in _MAKES


__all__ = ["functional_name", "is_whole", "writes"]
