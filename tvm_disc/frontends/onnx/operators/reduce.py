"""Converters of reductions, whose axes may be unknown at compile time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tvm_disc.frontends.calc import Calc, Dim, Expr, is_float, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.shape import dropped, flags_of, kept_dims
from tvm_disc.frontends.onnx.table import Row

# Emits the named Relay reduction over the node's axes, which remain with length 1.
Fold: TypeAlias = Callable[[str, Expr], Expr]
Rule: TypeAlias = Callable[[OnnxNode, Expr, Fold], Expr]


def _reduction(rule: Rule, since: int) -> Callable[[OnnxNode], Expr]:
    """Return the converter of a reduction; from opset ``since`` on, the axes are an input."""

    def convert(n: OnnxNode) -> Expr:
        x, keep = n[0], bool(n.attr("keepdims", 1))
        given = n.get(1) if n.opset >= since else None
        if given is not None and n.known(given) is None and n.literals(given) != [0]:
            return _at(n, x, given, keep, rule)
        axes = n.attr("axes") if given is None else n.known(given)
        if given is not None and axes is None:
            axes = []
        named = [n.axis(int(a), n.rank(x)) for a in axes] if axes is not None else []
        if not named and not (n.opset >= since and n.attr("noop_with_empty_axes", 0)):
            named = list(range(n.rank(x)))
        made = rule(n, x, lambda name, y: n.reduce(name, y, named, True))
        return made if keep else n.squeeze(made, named)

    return convert


def _at(n: OnnxNode, x: Expr, axes: Expr, keep: bool, rule: Rule) -> Expr:
    """Return a reduction over axes that are unknown at compile time.

    Each axis of length d is reshaped to two axes: (d, 1) if it is reduced, (1, d) if not. Then the
    first axis of each pair is reduced.
    """
    rank = n.rank(x)
    flags = flags_of(n, axes, rank)
    if not n.attr("noop_with_empty_axes", 0):
        nothing = n.equal(n.scalar(n.total(axes)), 0)
        flags = flags | nothing
    out: list[Dim] = []
    dims: list[Dim] = []
    for a in range(rank):
        flag, size = n.item(flags, a), n.scalar(n.size(x, a))
        out.append(n.where(flag, n.like(1, size), size))
        dims += [n.where(flag, size, n.like(1, size)), out[-1]]
    dims = n.lengths(dims)

    def fold(name: str, y: Expr) -> Expr:
        return n.reduce(name, n.reshape(y, dims), [2 * a for a in range(rank)])

    made = rule(n, x, fold)
    return made if keep else n.reshape(made, _left(n, x, axes))


def _left(n: OnnxNode, x: Expr, axes: Expr) -> list[Dim]:
    """Return the dims that are not reduced.

    If the declared rank is 0, there are none: the list of axes may then be empty, which means all
    axes.
    """
    everything = not n.attr("noop_with_empty_axes", 0) and n.declared() == 0
    return [] if everything else kept_dims(n, x, dropped(n, x, axes))


def _extreme(name: str, truth: str) -> Rule:
    def rule(n: OnnxNode, x: Expr, fold: Fold) -> Expr:
        return fold(truth if n.dtype(x) == "bool" else name, x)

    return rule


def _plain(name: str) -> Rule:
    return lambda n, x, fold: fold(name, x)


def _on_floats(n: Calc, x: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """Return ``function(x)``; integers are converted to float64 and back."""
    dtype = n.dtype(x)
    return function(x) if is_float(dtype) else n.cast(function(n.cast(x, "float64")), dtype)


def _log_sum_exp(n: OnnxNode, x: Expr, fold: Fold) -> Expr:
    """Return log(sum(exp(x))); the maximum is subtracted first so that exp does not overflow."""
    dtype = n.dtype(x)
    wide = x if is_float(dtype) else n.cast(x, "float64")
    most = fold("max", wide)
    most = n.where(op("isfinite", most), most, 0)
    total = fold("sum", n.exp(wide - most))
    return n.cast(n.log(total) + most, dtype)


_RULES: dict[str, tuple[Rule, int]] = {
    "ReduceL1": (lambda n, x, fold: fold("sum", n.abs(x)), 18),
    "ReduceL2": (lambda n, x, fold: _on_floats(n, fold("sum", x * x), n.sqrt), 18),
    "ReduceLogSum": (lambda n, x, fold: _on_floats(n, fold("sum", x), n.log), 18),
    "ReduceLogSumExp": (_log_sum_exp, 18),
    "ReduceMax": (_extreme("max", "any"), 18),
    "ReduceMean": (_plain("mean"), 18),
    "ReduceMin": (_extreme("min", "all"), 18),
    "ReduceProd": (_plain("prod"), 18),
    "ReduceSum": (_plain("sum"), 13),
    "ReduceSumSquare": (lambda n, x, fold: fold("sum", x * x), 18),
}


ROWS: tuple[Row, ...] = (
    *(Row(name, _reduction(rule, since)) for name, (rule, since) in _RULES.items()),
)
