"""Ranks that a model declares for its results and intermediate values, and ranks derived from them.

The length of an input, such as a new shape or a list of axes, determines the rank of some results.
If this length is unknown at compile time, the importer derives it from the declared rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvm_disc.frontends.onnx.table import normal
from tvm_disc.typing import GraphProto

# Operators whose result has the same rank as their first input.
KEEPING = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh CumSum "
    "DequantizeLinear Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf "
    "IsNaN LayerNormalization LeakyRelu Log LogSoftmax Mish Neg Not QuantizeLinear Reciprocal Relu "
    "Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh "
    "ThresholdedRelu Transpose Trilu".split()
)


def declared_ranks(graph: GraphProto) -> dict[str, int]:
    """Return the ranks that a graph declares, by the names of the values."""
    found = {}
    for value in (*graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            found[value.name] = len(value.type.tensor_type.shape.dim)
    return found


def completed(ranks: Mapping[str, int], nodes: Sequence[Any]) -> dict[str, int]:
    """Return ``ranks``, and the ranks of inputs of operators whose result has the same rank."""
    found = dict(ranks)
    for node in reversed(nodes):
        keeps = node.op_type in KEEPING and not normal(node.domain) and node.input and node.output
        if keeps and node.output[0] in found:
            found.setdefault(node.input[0], found[node.output[0]])
    return found


def renamed(ranks: Mapping[str, int], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the ranks of a function's results by their names in the body.

    ``pairs`` are the names of each result in the body and at the call.
    """
    return {inside: ranks[outside] for inside, outside in pairs if outside in ranks}


__all__ = ["KEEPING", "completed", "declared_ranks", "renamed"]
