"""Reduction operators as data: identity, combination, and the final computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import tirx

from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.tir.builder import const, element_dtype, i64, same_lanes
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr


@dataclass(frozen=True)
class Reducer:
    """A reduction in the accumulator's dtype.

    Attributes:
        identity: returns the initial value for an accumulator dtype.
        combine: returns the combination of two values.
        mean: whether the result is divided by the number of values.
        over_nan: like ``combine``, but ignores the second operand if it is NaN.
    """

    identity: Callable[[str], Expr]
    combine: Callable[[Expr, Expr], Expr]
    mean: bool = False
    over_nan: Callable[[Expr, Expr], Expr] | None = None


def _larger(a: Expr, b: Expr) -> Expr:
    """Return the maximum, or NaN if an operand is NaN.

    NaN is not detected by ``a != a``, which TVM would fold to false.
    """
    if not is_float(element_dtype(a)):
        return tirx.max(a, b)
    return tirx.Select(is_number(a), tirx.Select(a > b, a, b), a)


def _smaller(a: Expr, b: Expr) -> Expr:
    if not is_float(element_dtype(a)):
        return tirx.min(a, b)
    return tirx.Select(is_number(a), tirx.Select(a < b, a, b), a)


def is_number(x: Expr) -> Expr:
    """Return a test that is false for NaN. Do not negate the test: TVM would simplify the negation
    as for real numbers.
    """
    return x <= same_lanes(tirx.FloatImm(element_dtype(x), float("inf")), x)[0]


def _lowest(dtype: str) -> Expr:
    if is_float(dtype):
        return tirx.FloatImm(dtype, float("-inf"))
    return tirx.min_value(dtype)


def _highest(dtype: str) -> Expr:
    if is_float(dtype):
        return tirx.FloatImm(dtype, float("inf"))
    return tirx.max_value(dtype)


_SUM = Reducer(lambda d: const(0, d), lambda a, b: a + b)
REDUCERS: Mapping[str, Reducer] = {
    "relax.sum": _SUM,
    "relax.mean": Reducer(_SUM.identity, _SUM.combine, mean=True),
    "relax.prod": Reducer(lambda d: const(1, d), lambda a, b: a * b),
    "relax.max": Reducer(_lowest, _larger, over_nan=lambda a, b: tirx.max(b, a)),
    "relax.min": Reducer(_highest, _smaller),
    # Templates combine pairs (value, position) with these.
    "relax.argmax": Reducer(_lowest, _larger),
    "relax.argmin": Reducer(_highest, _smaller),
}
ARG_REDUCTIONS = ("relax.argmax", "relax.argmin")


def accumulator(dtype: str) -> str:
    """Return the dtype in which a reduction of ``dtype`` accumulates."""
    if dtype in ("float16", "bfloat16"):
        return "float32"
    return "int32" if dtype == "bool" else dtype


def finish(node: Node, value: Expr) -> Expr:
    """Return the result of the reduction ``node`` for an accumulated value, in the node's dtype."""
    return cast(averaged(node, value), node.dtype)


def averaged(node: Node, value: Expr) -> Expr:
    """Return the accumulated value; for a mean of floats, divided by the number of elements.

    The dtype is not changed.
    """
    if REDUCERS[node.op].mean:
        source = node.inputs[0]
        count = i64(product([source.shape[a] for a in reduced_axes(node)]))
        dtype = element_dtype(value)
        if is_float(dtype):
            if not isinstance(count, tirx.IntImm):
                # TVM would fold the division, and fail, if it proves that the count is 0.
                count = tirx.reinterpret("int64", tirx.reinterpret("uint64", count))
            value, count = same_lanes(value, tirx.Cast(dtype, count))
            value = value / count
    return value
