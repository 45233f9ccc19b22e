"""Control flow of PyTorch's graphs as Relay's: branches, loops, scans.

What an inner graph reads from outside are operands of a function, so that it is computed once,
before the branch or the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.frontends.torch.maker import Maker
from tvm_disc.frontends.torch.symbols import scalar
from tvm_disc.frontends.torch.values import Value, dims_of, relay_dtype
from tvm_disc.relay import Any as AnyDim
from tvm_disc.relay import Call, Expr, Function, If, Let, TensorType, Tuple, TupleGetItem, Var

Row = Callable[..., Any]


def _as_values(m: Maker, operands: Sequence[Any]) -> list[Value]:
    return [m.tensor(o) for o in operands]


def _parameters(values: Sequence[Value], name: str, typed: bool = False) -> list[Value]:
    """A variable for each value; typed ones have dims of their own, but for literals."""
    found = []
    for k, v in enumerate(values):
        ty = None
        if typed:
            ty = TensorType(tuple(d if isinstance(d, int) else AnyDim() for d in v.dims), v.dtype)
        found.append(Value(Var(f"{name}_{k}", ty), v.dtype, v.dims))
    return found


def _tuple(values: Sequence[Value]) -> Tuple:
    return Tuple(tuple(v.expr for v in values))


def _results(m: Maker, made: Expr, pinned: bool = False) -> list[Value]:
    """The fields of a result under the types that PyTorch gives them."""
    found = []
    for k, val in enumerate(m.out):
        if hasattr(val, "shape"):
            value = Value(TupleGetItem(made, k), relay_dtype(val.dtype), dims_of(val))
            found.append(_pinned(m, value) if pinned else value)
        else:
            found.append(Value(TupleGetItem(made, k), m.tensor_dtype(val), ()))
    return found


def _pinned(m: Maker, x: Value) -> Value:
    """The result of a loop, of which nothing is known, under the dims that it must have."""
    symbols = {s for d in x.dims if not isinstance(d, int) for s in d.free_symbols}
    if not symbols or not all(m.symbols.knows(s) for s in symbols):
        return x
    return m.pinned(x, x.dims)


def _cond(m: Maker, pred: Any, yes: Any, no: Any, operands: Sequence[Any] = ()) -> list[Value]:
    cond = m.reshape(m.tensor(pred, "bool"), ())
    values = _as_values(m, operands)
    chosen = Var("chosen")
    inner = _parameters(values, "operand")
    first, second = (_tuple(_as_values(m, m.translate(graph, inner))) for graph in (yes, no))
    body = If(chosen, first, second)
    function = Function([chosen, *(v.expr for v in inner)], body)
    return _results(m, Call(function, [cond.expr, *(v.expr for v in values)]))


def _while_loop(
    m: Maker, cond: Any, body: Any, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> list[Value]:
    begin, fixed = _as_values(m, carried), _as_values(m, additional)
    begin_dims = _changing(body, begin)
    loop = Var("while_loop")
    state = _parameters(begin_dims, "carried", typed=True)
    outer = _parameters(fixed, "fixed")
    given = _parameters(begin, "begin")
    (go,) = _as_values(m, m.translate(cond, [*state, *outer]))
    after = _as_values(m, m.translate(body, [*state, *outer]))
    after = [m.cast(a, s.dtype) for a, s in zip(after, state, strict=True)]
    again = Call(loop, [a.expr for a in after])
    go = m.reshape(m.cast(go, "bool"), ())
    function = Function([s.expr for s in state], If(go.expr, again, _tuple(state)))
    whole = Let(loop, function, Call(loop, [g.expr for g in given]))
    params = [v.expr for v in (*given, *outer)]
    made = Call(Function(params, whole), [v.expr for v in (*begin, *fixed)])
    return _results(m, made, pinned=True)


def _changing(body: Any, begin: Sequence[Value]) -> list[Value]:
    """The carried values with the dims that they have in the loop."""
    holes = [n for n in body.graph.nodes if n.op == "placeholder"][: len(begin)]
    found = []
    for node, value in zip(holes, begin, strict=True):
        val = node.meta.get("val")
        dims = dims_of(val) if hasattr(val, "shape") else value.dims
        found.append(Value(value.expr, value.dtype, dims))
    return found


def _scan(
    m: Maker, combine: Any, init: Sequence[Any], xs: Sequence[Value], additional: Sequence[Any] = ()
) -> list[Value]:
    """A loop over the first axis; what each turn gives is joined."""
    carry, fixed = _as_values(m, init), _as_values(m, additional)
    out = [(relay_dtype(v.dtype), dims_of(v)) for v in m.out]
    grown = [(dtype, dims[1:]) for dtype, dims in out[len(carry) :]]

    def turn(state: list[Value], rows: list[Value], outer: list[Value]) -> tuple[Any, Any]:
        made = _as_values(m, m.translate(combine, [*state, *rows, *outer]))
        return made[: len(carry)], made[len(carry) :]

    return _looped(m, turn, carry, xs, fixed, grown)


def _map(m: Maker, body: Any, xs: Sequence[Value], additional: Sequence[Any] = ()) -> list[Value]:
    fixed = _as_values(m, additional)
    grown = [(relay_dtype(v.dtype), dims_of(v)[1:]) for v in m.out]

    def turn(state: list[Value], rows: list[Value], outer: list[Value]) -> tuple[Any, Any]:
        return [], _as_values(m, m.translate(body, [*rows, *outer]))

    return _looped(m, turn, [], xs, fixed, grown)


def _looped(
    m: Maker,
    turn: Callable[..., tuple[Any, Any]],
    carry: Sequence[Value],
    xs: Sequence[Value],
    fixed: Sequence[Value],
    grown: Sequence[tuple[str, Any]],
) -> list[Value]:
    """Carried values, then joined ones."""
    loop = Var("scan")
    t, count = Var("t", TensorType((), "int64")), Var("count", TensorType((), "int64"))
    state = _parameters(carry, "carried", typed=True)
    so_far = [Value(None, dtype, (None, *dims)) for dtype, dims in grown]
    joined = _parameters(so_far, "grown", typed=True)
    outer, lines, given = (
        _parameters(v, n) for v, n in ((fixed, "fixed"), (xs, "xs"), (carry, "begin"))
    )
    place = Value(t, "int64", ())
    rows = [m.take(x, place, 0) for x in lines]
    after, made = turn(state, rows, outer)
    after = [m.cast(a, s.dtype) for a, s in zip(after, state, strict=True)]
    longer = []
    for y, old in zip(made, joined, strict=True):
        line = m.unsqueeze(y, 0)
        longer.append(m.call("concatenate", Tuple((old.expr, line.expr)), axis=0))
    again = Call(
        loop, [m.call("add", t, scalar(1, "int64")), count, *(a.expr for a in after), *longer]
    )
    done = _tuple([*state, *joined])
    function = Function(
        [t, count, *(v.expr for v in (*state, *joined))], If(m.call("less", t, count), again, done)
    )
    none = [m.full((0, *dims), 0, dtype) for dtype, dims in grown]
    empty = _parameters(none, "none")
    steps = m.tensor(xs[0].dims[0], "int64")
    total = Var("total")
    start = Call(loop, [scalar(0, "int64"), total, *(v.expr for v in (*given, *empty))])
    params = [total, *(v.expr for v in (*given, *empty, *lines, *outer))]
    args = [steps.expr, *(v.expr for v in (*carry, *none, *xs, *fixed))]
    found = Call(Function(params, Let(loop, function, start)), args)
    return _results(m, found, pinned=True)


def _inlined(m: Maker, graph: Any, args: Sequence[Any]) -> list[Any]:
    return list(m.translate(graph, list(args)))


def _set_grad(m: Maker, enabled: bool, graph: Any, *args: Any) -> list[Any]:
    return _inlined(m, graph, args)


def _autocast(
    m: Maker, device: Any, dtype: Any, enabled: Any, cache: Any, graph: Any, *args: Any
) -> list[Any]:
    return _inlined(m, graph, args)


def _invoke(m: Maker, graph: Any, identifier: Any, *args: Any) -> list[Any]:
    return _inlined(m, graph, args)


def _checkpoint(m: Maker, graph: Any, *args: Any, **kwargs: Any) -> list[Any]:
    return _inlined(m, graph, args)


CONTROL: Mapping[str, Row] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "wrap_with_set_grad_enabled": _set_grad,
    "wrap_with_autocast": _autocast,
    "invoke_subgraph": _invoke,
    "tag_activation_checkpoint": _checkpoint,
    "strict_mode": _checkpoint,
}
