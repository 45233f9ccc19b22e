"""Converters of PyTorch's control flow: branches, loops and scans.

Outer values that an inner graph reads become operands of a function, so that they are computed
once, before the branch or the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.frontends.loop import TensorLoop, choose, counted
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Value, dims_of


def _tensors(m: Maker, operands: Sequence[object]) -> list[Value]:
    return [m.tensor(o) for o in operands]


def _pinned(m: Maker, made: Sequence[Value]) -> list[Value]:
    """Return the results of a loop with the dims that PyTorch infers.

    A result keeps its dims if a symbol of PyTorch's dims is unknown outside the loop.
    """
    found = []
    for x, val in zip(made, m.out, strict=True):
        dims = dims_of(val) if hasattr(val, "shape") else ()
        symbols = {s for d in dims if not isinstance(d, int) for s in d.free_symbols}
        known = bool(symbols) and all(m.symbols.knows(s) for s in symbols)
        found.append(m.pinned(x, dims) if known else x)
    return found


def _cond(
    m: Maker, pred: object, yes: object, no: object, operands: Sequence[object] = ()
) -> list[Value]:
    def branch(graph: object) -> Any:
        return lambda reads: _tensors(m, m.translate(graph, reads))

    cond = m.reshape(m.tensor(pred, "bool"), ())
    return choose(m, cond, _tensors(m, operands), branch(yes), branch(no))


def _while_loop(
    m: Maker,
    cond: object,
    body: object,
    carried: Sequence[object],
    additional: Sequence[object] = (),
) -> list[Value]:
    begin = _changing(body, _tensors(m, carried))

    def more(fixed: list[Value], state: list[Value]) -> Value:
        (go,) = m.translate(cond, [*state, *fixed])
        return m.reshape(m.tensor(go, "bool"), ())

    def turn(fixed: list[Value], state: list[Value]) -> tuple[list[Value], list[Value]]:
        return _kept(m, m.translate(body, [*state, *fixed]), state), []

    last, _ = TensorLoop(m, _tensors(m, additional), begin).run(more, turn)
    return _pinned(m, last)


def _kept(m: Maker, made: Sequence[object], state: Sequence[Value]) -> list[Value]:
    """Return the next state, cast to the element types of the previous one."""
    return [m.tensor(x, s.dtype) for x, s in zip(made, state, strict=True)]


def _changing(body: Any, begin: Sequence[Value]) -> list[Value]:
    """Return the initial carried values, with the dims that the body's graph declares for them."""
    holes = [n for n in body.graph.nodes if n.op == "placeholder"][: len(begin)]
    found = []
    for node, value in zip(holes, begin, strict=True):
        val = node.meta.get("val")
        dims = dims_of(val) if hasattr(val, "shape") else value.dims
        found.append(Value(value.expr, value.dtype, dims))
    return found


def _scan(
    m: Maker,
    combine: object,
    init: Sequence[object],
    xs: Sequence[Value],
    additional: Sequence[object] = (),
) -> list[Value]:
    """Return the results of a loop over axis 0 of ``xs``: the last state, and stacked rows."""
    many, carry = len(xs), _tensors(m, init)

    def turn(t: Value, fixed: list[Value], state: list[Value]) -> tuple[list[Value], list[Value]]:
        rows = [m.take(x, t, 0) for x in fixed[:many]]
        made = m.translate(combine, [*state, *rows, *fixed[many:]])
        return _kept(m, made[: len(carry)], state), _tensors(m, made[len(carry) :])

    last, rows = counted(m, xs[0].dims[0], [*xs, *_tensors(m, additional)], carry, turn)
    return _pinned(m, [*last, *rows])


def _inlined(graph: int, first: int) -> Row:
    """Return the converter of an operator that only calls an inner graph.

    ``graph`` is the position of the graph in the arguments, and ``first`` that of its first
    operand.
    """
    return lambda m, *args, **_: list(m.translate(args[graph], list(args[first:])))


CONTROL: Mapping[str, Row] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": lambda m, body, *operands: _scan(m, body, [], *operands),  # without a state
    "wrap_with_set_grad_enabled": _inlined(graph=1, first=2),
    "wrap_with_autocast": _inlined(graph=4, first=5),
    "invoke_subgraph": _inlined(graph=0, first=2),
    "tag_activation_checkpoint": _inlined(graph=0, first=1),
    "strict_mode": _inlined(graph=0, first=1),
}
