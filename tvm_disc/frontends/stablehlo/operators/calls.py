"""Converters of function calls, composites and the custom calls that JAX emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Expr, op, parts
from tvm_disc.frontends.stablehlo.attributes import padding_pairs
from tvm_disc.frontends.stablehlo.blocks import symbol_of
from tvm_disc.frontends.stablehlo.formulas import division
from tvm_disc.frontends.stablehlo.node import StableHLONode
from tvm_disc.frontends.stablehlo.operators import decompositions, factor
from tvm_disc.frontends.stablehlo.operators.elementwise import plain
from tvm_disc.frontends.stablehlo.operators.order import comparable, sort_keys
from tvm_disc.frontends.stablehlo.operators.reduce import windowed
from tvm_disc.frontends.stablehlo.operators.reducers import monoid
from tvm_disc.frontends.stablehlo.table import OperationRow


def _call(n: StableHLONode) -> list[Expr]:
    """Convert a call by converting the function's body.

    JAX's functions for integer division and remainder become one Relay operator, because the solver
    cannot analyze their bodies.
    """
    name = n.symbol("callee")
    relay = division(n.walk.function(name), n.walk.function)
    if relay is not None and n.dtype(n[-1]).startswith("int") and _is_positive(n, n[-1]):
        return [op(relay, n[-2], n[-1])]
    return n.walk.call(name, n.inputs)


def _is_positive(n: StableHLONode, x: Expr) -> bool:
    known = n.known(x)
    return known is not None and bool((known > 0).all())


# -- composites ------------------------------------------------------------------------------------


def _composite(n: StableHLONode) -> list[Expr]:
    from jaxlib.mlir import ir

    if str(n.attr("name")) != "chlo.top_k":
        return n.walk.call(n.symbol("decomposition"), n.inputs)
    return _top(n, int(ir.IntegerAttr(n.op.attributes["composite_attributes"]["k"]).value))


def _top(n: StableHLONode, k: int) -> list[Expr]:
    made = op("topk", n[0], k=k, axis=-1, ret_type="both", is_ascend=False, dtype=n.out_dtype(1))
    return parts(made, 2) if k else n.walk.call(n.symbol("decomposition"), n.inputs)


# -- custom calls ----------------------------------------------------------------------------------


def _custom(n: StableHLONode) -> object:
    target = str(n.attr("call_target_name")).strip('"')
    row = _CUSTOM.get(target)
    if row is None:
        raise Unsupported(
            f"the custom call @{target} has no converter; expected one of "
            f"{', '.join('@' + name for name in _CUSTOM)}"
        )
    return row(n)


def _assertion(n: StableHLONode) -> list[Expr]:
    message = str(n.attr("error_message", "a shape assertion"))
    n.walk.note_condition(n.op.operands[0], _short(message))
    return []


def _short(message: str) -> str:
    """Return the part of JAX's message that states the condition."""
    head = message.split(" Using the following")[0].split("\n")[0]
    return head.removeprefix("Input shapes do not match the polymorphic shapes specification. ")


def _called(n: StableHLONode) -> str:
    """Return the name of the function that a custom call applies."""
    from jaxlib.mlir import ir

    [found] = ir.ArrayAttr(n.op.attributes["called_computations"])
    return symbol_of(found)


def _dynamic_window(n: StableHLONode) -> Expr:
    """Convert @stablehlo.dynamic_reduce_window: size, strides and padding are operands."""
    called = _called(n)
    block = n.walk.function(called).regions[0].blocks[0]
    size, strides, base, dilations = (n.entries(k, "windows") for k in range(2, 6))
    pads = padding_pairs(n.entries(6, "the padding of windows"))

    def combine(a: Expr, b: Expr) -> Expr:
        return n.walk.call(called, [a, b])[0]

    return windowed(n, monoid(block), size, strides, base, dilations, pads, combine)


def _dynamic_top_k(n: StableHLONode) -> list[Expr]:
    """Convert @stablehlo.dynamic_top_k: the k largest elements of the last axis; k is a dim."""
    axis = n.rank(n[0]) - 1
    order = op("argsort", n[0], axis=axis, is_ascend=False, dtype="int64")
    places = n.slice(order, axis, 0, n.length(n[1]))
    values = op("gather", n[0], places, axis=axis)
    return [values, n.cast(places, n.out_dtype(1))]


def _approximate_top_k(n: StableHLONode) -> list[Expr]:
    """Convert an approximate top-k along an axis to an exact one.

    The operands are the elements, their indices, two initial values, and k if it is dynamic.
    """
    from jaxlib.mlir import ir

    config = n.op.attributes["mhlo.backend_config"]
    axis = int(ir.IntegerAttr(config["reduction_dim"]).value)
    [(_, ascending)] = sort_keys(n.walk.function(_called(n)).regions[0].blocks[0])
    order = op("argsort", comparable(n, n[0]), axis=axis, is_ascend=ascending, dtype="int64")
    count = n.out_dims()[axis]
    places = n.slice(order, axis, 0, n.length(n[4]) if count is None else count)
    return [op("gather", x, places, axis=axis) for x in n.inputs[:2]]


_UNARY = ("erf", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
_CUSTOM: Mapping[str, Callable[[StableHLONode], object]] = {
    **factor.LAPACK,
    **decompositions.LAPACK,
    "shape_assertion": _assertion,
    "stablehlo.dynamic_reduce_window": _dynamic_window,
    "stablehlo.dynamic_top_k": _dynamic_top_k,
    "ApproxTopK": _approximate_top_k,
    "stablehlo.dynamic_approx_top_k": _approximate_top_k,
    **{f"mhlo.{name}": plain(name) for name in _UNARY},
    "mhlo.topk": lambda n: _top(n, n.out_dims()[-1] or 0),
    "annotate_device_placement": lambda n: list(n.inputs),
    "Sharding": lambda n: list(n.inputs),
}


ROWS: tuple[OperationRow, ...] = (
    OperationRow("func.call call", _call),
    OperationRow("composite", _composite),
    OperationRow("custom_call", _custom),
)
