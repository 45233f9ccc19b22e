"""Rows of recurrent layers: a loop over the steps, whatever their number.

All steps meet the input weights in one product before the loop; a step adds the product of its
hidden state. The result grows by one step per turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.torch.maker import Maker
from tvm_disc.frontends.torch.rows.matmul import product
from tvm_disc.frontends.torch.symbols import dim_at, scalar
from tvm_disc.frontends.torch.values import Dim, Value
from tvm_disc.relay import (
    Any as AnyDim,
)
from tvm_disc.relay import (
    Call,
    Function,
    If,
    Let,
    TensorType,
    Tuple,
    TupleGetItem,
    Var,
)

Row = Callable[..., Any]
# (gates of the input at one step, product of the hidden state, states) -> new states, the output
# being the first of them.
Step = Callable[[Maker, Value, Value, Sequence[Value]], list[Value]]


@dataclass(frozen=True)
class Weights:
    """Of one layer in one direction; a projection makes the hidden state narrower."""

    inputs: Value
    hidden: Value
    input_bias: Value | None
    hidden_bias: Value | None
    projection: Value | None = None


def _dense(m: Maker, x: Value, weight: Value, bias: Value | None) -> Value:
    made = product(m, x, weight, transpose_b=True)
    return made if bias is None else m.apply("add", made, bias)


def _parts(m: Maker, x: Value, count: int) -> list[Value]:
    width = x.dims[-1] // count
    return [m.slice(x, -1, k * width, (k + 1) * width) for k in range(count)]


def _lstm_step(m: Maker, now: Value, past: Value, states: Sequence[Value]) -> list[Value]:
    total = m.apply("add", now, past)
    write, keep, fresh, read = _parts(m, total, 4)
    write, keep, read = (m.apply("sigmoid", g) for g in (write, keep, read))
    cell = m.apply(
        "add",
        m.apply("multiply", keep, states[1]),
        m.apply("multiply", write, m.apply("tanh", fresh)),
    )
    return [m.apply("multiply", read, m.apply("tanh", cell)), cell]


def _gru_step(m: Maker, now: Value, past: Value, states: Sequence[Value]) -> list[Value]:
    new, old = _parts(m, now, 3), _parts(m, past, 3)
    reset, update = (
        m.apply("sigmoid", m.apply("add", a, b)) for a, b in zip(new[:2], old[:2], strict=True)
    )
    fresh = m.apply("tanh", m.apply("add", new[2], m.apply("multiply", reset, old[2])))
    gap = m.apply("subtract", states[0], fresh)
    return [m.apply("add", m.apply("multiply", gap, update), fresh)]


def _plain_step(activation: str) -> Step:
    def step(m: Maker, now: Value, past: Value, states: Sequence[Value]) -> list[Value]:
        return [m.apply(activation, m.apply("add", now, past))]

    return step


def _steps(
    m: Maker, gates: Value, states: Sequence[Value], w: Weights, step: Step, backward: bool
) -> tuple[Value, list[Value]]:
    """(outputs ``[steps, batch, width]``, last states) of one direction."""
    steps, batch = gates.dims[:2]
    width = states[0].dims[-1]
    dtype = gates.dtype
    loop = Var("steps")
    unknown = AnyDim()
    t, count = Var("t", TensorType((), "int64")), Var("count", TensorType((), "int64"))
    grown = Var("grown", TensorType((unknown, AnyDim(), _literal(width)), dtype))
    held = [Var(f"state_{k}", _loop_type(s)) for k, s in enumerate(states)]
    rows = Var("rows", _loop_type(gates))
    # Everything in the loop has the batch of the rows, so that nothing is broadcast.
    size = dim_at(rows, 1)
    now_dims = (batch, *gates.dims[2:])
    place: Any = m.call("subtract", m.call("subtract", count, t), scalar(1, "int64"))
    now = Value(m.call("take", rows, place if backward else t, axis=0), dtype, now_dims)
    inner = [_pinned(m, Value(v, dtype, s.dims), size) for v, s in zip(held, states, strict=True)]
    past = _dense(m, inner[0], w.hidden, w.hidden_bias)
    after = step(m, now, past, inner)
    if w.projection is not None:
        after[0] = product(m, after[0], w.projection, transpose_b=True)
    line = m.unsqueeze(after[0], 0)
    so_far = Value(grown, dtype, (None, batch, width))
    both = [line, so_far] if backward else [so_far, line]
    longer = m.call("concatenate", Tuple(tuple(v.expr for v in both)), axis=0)
    again = Call(
        loop,
        [m.call("add", t, scalar(1, "int64")), count, rows, *(s.expr for s in after), longer],
    )
    body = If(m.call("less", t, count), again, Tuple((grown, *held)))
    function = Function([t, count, rows, *held, grown], body)
    none = m.full((0, batch, width), 0, dtype)
    number = m.tensor(steps, "int64").expr
    first = [scalar(0, "int64"), number, gates.expr, *(s.expr for s in states), none.expr]
    params = [Var(f"given_{k}") for k in range(len(first))]
    found = Call(Function(params, Let(loop, function, Call(loop, params))), first)
    made = m.pinned(Value(TupleGetItem(found, 0), dtype, (None,) * 3), (steps, batch, width))
    last = [
        m.pinned(Value(TupleGetItem(found, 1 + k), dtype, (None,) * 2), s.dims)
        for k, s in enumerate(states)
    ]
    return made, last


def _literal(dim: Dim) -> Any:
    return dim if isinstance(dim, int) else AnyDim()


def _loop_type(x: Value) -> TensorType:
    """The type of a loop's variable: its dims are the loop's own unless they are literals."""
    return TensorType(tuple(_literal(d) for d in x.dims), x.dtype)


def _pinned(m: Maker, x: Value, batch: Any) -> Value:
    """A state of which the loop knows that its batch is that of the rows."""
    if isinstance(x.dims[0], int):
        return x
    shape = m.call("stack", Tuple((batch, scalar(x.dims[1], "int64"))), axis=0)
    made = m.call("dyn.reshape", x, shape, newshape=(), allowzero=True)
    return Value(made, x.dtype, x.dims)


def _weights(params: Sequence[Value], has_biases: bool, projected: bool) -> list[Weights]:
    """Of every layer and direction in turn."""
    found, k = [], 0
    while k < len(params):
        pair = list(params[k : k + 2])
        k += 2
        biases: list[Value | None] = [None, None]
        if has_biases:
            biases = list(params[k : k + 2])
            k += 2
        projection = params[k] if projected else None
        k += int(projected)
        found.append(Weights(pair[0], pair[1], biases[0], biases[1], projection))
    return found


def _layers(
    m: Maker, x: Value, states: Sequence[Value], weights: Sequence[Weights], step: Step,
    directions: int,
) -> tuple[Value, list[Value]]:  # fmt: skip
    """(outputs, last states ``[layers * directions, batch, width]``), steps first."""
    last: list[list[Value]] = []
    for layer in range(len(weights) // directions):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            own = weights[k]
            gates = _dense(m, x, own.inputs, own.input_bias)
            begin = [m.pick(s, 0, k) for s in states]
            made, end = _steps(m, gates, begin, own, step, backward=direction == 1)
            outputs.append(made)
            last.append(end)
        x = m.concat(outputs, -1)
    return x, [m.stack([ends[k] for ends in last], 0) for k in range(len(states))]


def _recurrent(step: Step, several: bool) -> Row:
    def row(
        m: Maker, x: Value, hidden: Any, params: Sequence[Value], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Value, ...]:  # fmt: skip
        if train and dropout:
            raise Unsupported("dropout between recurrent layers; call eval() on the module")
        states = list(hidden) if several else [hidden]
        directions = 2 if bidirectional else 1
        each = 4 if has_biases else 2
        projected = len(params) != num_layers * directions * each
        weights = _weights(params, has_biases, projected)
        alone = x.rank == 2
        if alone:
            batch_first = False
            x, states = m.unsqueeze(x, 1), [m.unsqueeze(s, 1) for s in states]
        x = m.swap(x, 0, 1) if batch_first else x
        made, last = _layers(m, x, states, weights, step, directions)
        made = m.swap(made, 0, 1) if batch_first else made
        if alone:
            made, last = m.squeeze(made, [1]), [m.squeeze(s, [1]) for s in last]
        return (made, *last)

    return row


_KINDS: Mapping[str, Row] = {
    "lstm": _recurrent(_lstm_step, True),
    "gru": _recurrent(_gru_step, False),
    "rnn_tanh": _recurrent(_plain_step("tanh"), False),
    "rnn_relu": _recurrent(_plain_step("nn.relu"), False),
}

ROWS: Mapping[str, Row] = {
    **{f"{kind}.input": row for kind, row in _KINDS.items()},
    # As modules are exported here, of any length.
    **{f"tvm_disc::{kind}.default": row for kind, row in _KINDS.items()},
}
