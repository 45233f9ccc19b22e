"""Ranks that a model declares, of its results and of values on the way, and what follows from them.

The rank of some results is the length of an input: a new shape, axes that go. Where that length is
unknown, the declared rank of the result tells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvm_disc.frontends.onnx.table import normal

# Operators whose result has the rank of their first input.
KEEPING = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh CumSum "
    "DequantizeLinear Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf "
    "IsNaN LayerNormalization LeakyRelu Log LogSoftmax Mish Neg Not QuantizeLinear Reciprocal Relu "
    "Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh "
    "ThresholdedRelu Transpose Trilu".split()
)


def declared_ranks(graph: Any) -> dict[str, int]:
    """The ranks of values by name, as far as a graph says them."""
    found = {}
    for value in (*graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            found[value.name] = len(value.type.tensor_type.shape.dim)
    return found


def completed(ranks: Mapping[str, int], nodes: Sequence[Any]) -> dict[str, int]:
    """These ranks, and those of what the values are made of by operators that keep the rank."""
    found = dict(ranks)
    for node in reversed(nodes):
        keeps = node.op_type in KEEPING and not normal(node.domain) and node.input and node.output
        if keeps and node.output[0] in found:
            found.setdefault(node.input[0], found[node.output[0]])
    return found


def renamed(ranks: Mapping[str, int], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The ranks of a function's results, by (name inside, name outside)."""
    return {inside: ranks[outside] for inside, outside in pairs if outside in ranks}


__all__ = ["KEEPING", "completed", "declared_ranks", "renamed"]
