"""Converters of recurrent layers to a loop, whose number of steps may be unknown.

One matmul before the loop multiplies the inputs of all steps by their weights. Each step adds the
matmul of its hidden state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.loop import counted
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.matmul import product
from tvm_disc.frontends.torch.values import Value

# Returns the new states of a step; the first one is the output. The operands are the gates of the
# step's input, the matmul of the hidden state, and the states.
Step = Callable[[Maker, Value, Value, Sequence[Value]], list[Value]]


@dataclass(frozen=True)
class Weights:
    """Weights of one layer in one direction; ``projection`` reduces the width of hidden states."""

    inputs: Value
    hidden: Value
    input_bias: Value | None
    hidden_bias: Value | None
    projection: Value | None = None


def _dense(m: Maker, x: Value, weight: Value, bias: Value | None) -> Value:
    made = product(m, x, weight, transpose_b=True)
    return made if bias is None else made + bias


def _parts(m: Maker, x: Value, count: int) -> list[Value]:
    width = m.quotient(x.dims[-1], count)
    return [m.slice(x, -1, k * width, (k + 1) * width) for k in range(count)]


def _lstm_step(m: Maker, now: Value, past: Value, states: Sequence[Value]) -> list[Value]:
    total = now + past
    write, keep, fresh, read = _parts(m, total, 4)
    write, keep, read = (m.sigmoid(g) for g in (write, keep, read))
    cell = keep * states[1] + write * m.tanh(fresh)
    return [read * m.tanh(cell), cell]


def _gru_step(m: Maker, now: Value, past: Value, states: Sequence[Value]) -> list[Value]:
    new, old = _parts(m, now, 3), _parts(m, past, 3)
    reset, update = (m.sigmoid(a + b) for a, b in zip(new[:2], old[:2], strict=True))
    fresh = m.tanh(new[2] + reset * old[2])
    gap = states[0] - fresh
    return [gap * update + fresh]


def _plain_step(activation: str) -> Step:
    def step(m: Maker, now: Value, past: Value, states: Sequence[Value]) -> list[Value]:
        return [m.apply(activation, now + past)]

    return step


def _steps(
    m: Maker, gates: Value, states: Sequence[Value], w: Weights, step: Step, backward: bool
) -> tuple[Value, list[Value]]:
    """Return the outputs ``[steps, batch, width]`` and the last states of one direction."""

    def turn(t: Value, fixed: list[Value], state: list[Value]) -> tuple[list[Value], list[Value]]:
        now = m.take(fixed[0], fixed[1] - t if backward else t, 0)
        after = step(m, now, _dense(m, state[0], w.hidden, w.hidden_bias), state)
        if w.projection is not None:
            after[0] = product(m, after[0], w.projection, transpose_b=True)
        return after, [after[0]]

    steps = gates.dims[0]
    fixed = [gates, m.scalar(steps - 1)] if backward else [gates]
    last, (every,) = counted(m, steps, fixed, states, turn)
    every = m.pinned(every, (steps, *states[0].dims))
    if backward:
        every = m.call_like("reverse", every, axis=0)
    return every, [m.pinned(x, s.dims) for x, s in zip(last, states, strict=True)]


def _weights(params: Sequence[Value], has_biases: bool, projected: bool) -> list[Weights]:
    """Return the weights of each layer and direction, from PyTorch's flat list of parameters."""
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
    """Return the outputs ``[steps, batch, width]`` of the last layer, and the last states.

    The last states are ``[layers * directions, batch, width]``.
    """
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
            raise Unsupported(
                "dropout between recurrent layers is not supported; call eval() on the module"
            )
        states = list(hidden) if several else [hidden]
        directions = 2 if bidirectional else 1
        each = 4 if has_biases else 2
        projected = len(params) != num_layers * directions * each
        weights = _weights(params, has_biases, projected)
        alone = x.rank == 2
        if alone:
            batch_first = False
            x, states = m.expand(x, 1), [m.expand(s, 1) for s in states]
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
    # Custom operators of `recurrent.whole_layers`, for sequences of any length.
    **{f"tvm_disc::{kind}.default": row for kind, row in _KINDS.items()},
}
