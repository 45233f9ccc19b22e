"""Converters of LSTM, GRU and RNN, in both directions, for sequences of different lengths.

One matmul before the loop multiplies the inputs of all steps by their weights; each iteration adds
the matmul of the hidden state. Each iteration appends one row to the result, so that the number of
steps may be unknown at compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Demand, Expr, const, op
from tvm_disc.frontends.loop import counted
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.activation import hard_sigmoid, softplus
from tvm_disc.frontends.onnx.table import Row
from tvm_disc.relay import expr as ast

Function: TypeAlias = Callable[[Expr], Expr]

_FUNCTIONS: Mapping[str, Callable[[Calc, Expr, float, float], Expr]] = {
    "affine": lambda n, x, a, b: x * a + b,
    "elu": lambda n, x, a, b: n.where(x < 0, (n.exp(x) - 1) * a, x),
    "hardsigmoid": hard_sigmoid,
    "leakyrelu": lambda n, x, a, b: n.where(x < 0, x * a, x),
    "relu": lambda n, x, a, b: n.maximum(x, 0),
    "scaledtanh": lambda n, x, a, b: n.tanh(x * b) * a,
    "sigmoid": lambda n, x, a, b: n.sigmoid(x),
    "softplus": lambda n, x, a, b: softplus(n, x),
    "softsign": lambda n, x, a, b: x / (n.abs(x) + 1),
    "tanh": lambda n, x, a, b: n.tanh(x),
    "thresholdedrelu": lambda n, x, a, b: n.where(x > a, x, 0),
}
_ALPHA = {"hardsigmoid": 0.2, "leakyrelu": 0.01, "elu": 1.0, "thresholdedrelu": 1.0}
_BETA = {"hardsigmoid": 0.5}
_TAKE_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_TAKE_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _activations(n: OnnxNode, defaults: Sequence[str], directions: int) -> list[list[Function]]:
    """Return a list of activation functions for each direction."""
    names = [str(a) for a in n.attr("activations") or list(defaults) * directions]
    alphas, betas = list(n.attr("activation_alpha") or []), list(n.attr("activation_beta") or [])
    found: list[Function] = []
    for given in names:
        name = given.lower()
        if name not in _FUNCTIONS:
            raise Unsupported(
                f"activations: expected names of {', '.join(_FUNCTIONS)}, found {given!r}"
            )
        a = alphas.pop(0) if name in _TAKE_ALPHA and alphas else _ALPHA.get(name, 1.0)
        b = betas.pop(0) if name in _TAKE_BETA and betas else _BETA.get(name, 0.0)
        found.append(_bound(n, name, float(a), float(b)))
    each = len(defaults)
    if len(found) != each * directions:
        raise Unsupported(
            f"activations: expected {each * directions}, {each} per direction; found {len(found)}"
        )
    return [found[k * each : (k + 1) * each] for k in range(directions)]


def _bound(n: Calc, name: str, a: float, b: float) -> Function:
    return lambda x: _FUNCTIONS[name](n, x, a, b)


def _part(n: Calc, x: Expr, k: int) -> Expr | None:
    """Return the weights of direction ``k``, or None if ``x`` is None."""
    if x is None:
        return None
    if isinstance(x, ast.Constant):
        return const(np.ascontiguousarray(x.data[k]))
    return n.pick(x, 0, k)


def _piece(n: Calc, x: Any, k: int, width: int) -> Any:
    """Return rows [k * width, (k + 1) * width) of ``x``, or None if ``x`` is None."""
    if x is None:
        return None
    if isinstance(x, ast.Constant):
        return const(np.ascontiguousarray(x.data[k * width : (k + 1) * width]))
    return n.slice(x, 0, k * width, (k + 1) * width)


@dataclass
class RecurrentDirection:
    """One direction of a recurrent network.

    Attributes:
        gates: matmul of all steps' inputs with the weights, ``[steps, batch, gates * width]``.
        weights: tensors that every iteration reads.
        states: the initial hidden state, and for an LSTM the initial cell state.
        step: maps the gates of a step, the weights and the states to the next states.
    """

    gates: Expr
    weights: list[Expr]
    states: list[Expr]
    step: Callable[[Expr, list[Expr], list[Expr]], list[Expr]]


def _recurrent(
    n: OnnxNode,
    count: int,
    defaults: Sequence[str],
    states: Sequence[int],
    make: Callable[..., RecurrentDirection],
) -> list[Expr]:
    """Convert all directions of a recurrent network.

    Args:
        n: the node.
        count: the number of gates.
        defaults: the names of the default activation functions.
        states: the indices of the inputs that are initial states.
        make: returns one direction.
    """
    width = int(n.attr("hidden_size") or n.literals(n[2])[-1] or 0)
    if not width:
        raise Unsupported(
            "attribute 'hidden_size' is missing; it is optional only if the last dim of R is known "
            "at compile time"
        )
    direction = str(n.attr("direction", "forward"))
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if ways is None:
        raise Unsupported(
            f"direction: expected forward, reverse or bidirectional, found {direction!r}"
        )
    functions = _activations(n, defaults, len(ways))
    batch_first = bool(n.attr("layout", 0))
    _fit(n, count * width, width, len(ways))
    x = n.transpose(n[0], [1, 0, 2]) if batch_first else n[0]
    lengths = None if n.get(4) is None else n.cast(n[4], "int64")
    found = []
    for k, backwards in enumerate(ways):
        source = _turned(n, x, lengths) if backwards else x
        first = [_first(n, n.get(i), k, x, width, batch_first) for i in states]
        w, r, b = (_part(n, n.get(i), k) for i in (1, 2, 3))
        cell = make(n, source, (w, r, b, k), first, width, functions[k])
        every, *last = _run(n, cell, lengths, width)
        found.append([_turned(n, every, lengths) if backwards else every, *last])
    y = n.stack([f[0] for f in found], 1)
    if batch_first:
        y = n.transpose(y, [2, 0, 1, 3])
    axis = int(batch_first)
    return [y, *(n.stack([f[1 + s] for f in found], axis) for s in range(len(states)))]


def _fit(n: OnnxNode, gates: int, width: int, ways: int) -> None:
    """Guard that the inputs have the dims that gates, ``ways`` (directions) and width determine."""
    first = bool(n.attr("layout", 0))
    state: list[Demand] = ["batch", ways, width] if first else [ways, "batch", width]
    wanted: list[tuple[str, list[Demand]]] = [
        ("X", ["batch", None, "size"] if first else [None, "batch", "size"]),
        ("W", [ways, gates, "size"]),
        ("R", [ways, gates, width]),
        ("B", [ways, 2 * gates]),
        ("sequence_lens", ["batch"]),
        ("initial_h", state),
        ("initial_c", state),
        ("P", [ways, 3 * width]),
    ]
    pairs = zip(wanted, n.inputs, strict=False)
    n.inputs = n.fitted({name: (x, dims) for (name, dims), x in pairs})


def _turned(n: Calc, x: Expr, lengths: object) -> Expr:
    """Return the steps in reverse order; if there are lengths, padding steps remain at the end."""
    if lengths is None:
        return op("reverse", x, axis=0)
    return op("reverse_sequence", x, lengths, seq_axis=0, batch_axis=1)


def _first(n: Calc, state: Expr, k: int, x: Expr, width: int, batch_first: bool) -> Expr:
    if state is None:
        return n.full(0, [n.size(x, 1), width], n.dtype(x))
    return n.pick(state, int(batch_first), k)


def _run(n: Calc, cell: RecurrentDirection, lengths: Expr | None, width: int) -> list[Expr]:
    """Return the hidden states of all steps, then the last states."""
    steps, batch = n.size(cell.gates, 0), n.size(cell.gates, 1)
    fixed = [cell.gates] if lengths is None else [cell.gates, lengths]
    free = [k for k, w in enumerate(cell.weights) if not isinstance(w, ast.Constant)]
    fixed += [cell.weights[k] for k in free]

    def turn(t: Expr, given: list[Expr], old: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        weights = list(cell.weights)
        for k, w in zip(free, given[len(given) - len(free) :], strict=True):
            weights[k] = w
        new = cell.step(n.take(given[0], t, 0), weights, old)
        shown = new[0]
        if lengths is not None:
            alive = n.expand(t < given[1], 1)
            shown = n.where(alive, shown, 0)
            new = [n.where(alive, a, b) for a, b in zip(new, old, strict=True)]
        return new, [shown]

    last, (every,) = counted(n, steps, fixed, cell.states, turn)
    return [n.reshape(every, [steps, batch, width]), *(n.reshape(x, [batch, width]) for x in last)]


def _clipped(n: OnnxNode, x: Expr) -> Expr:
    limit = n.attr("clip")
    return x if not limit else n.clip(x, -float(limit), float(limit))


def _biases(n: Calc, b: object, count: int, width: int) -> tuple[Any, Any]:
    """Return the biases of the input's and the state's matmul; both are None if ``b`` is."""
    if b is None:
        return None, None
    return _piece(n, b, 0, count * width), _piece(n, b, 1, count * width)


def _plus(n: Calc, x: Expr, y: Expr | None) -> Expr:
    return x if y is None else x + y


def _dense(x: Expr, w: Expr) -> Expr:
    return op("nn.dense", x, w, units=None)


# -- cells -----------------------------------------------------------------------------------


def _lstm_cell(
    n: OnnxNode, x: Expr, weights: Any, first: list[Expr], width: int, functions: list[Function]
) -> RecurrentDirection:
    w, r, b, k = weights
    f, g, h = functions
    ahead, back = _biases(n, b, 4, width)
    gates = _plus(n, _plus(n, _dense(x, w), ahead), back)
    peep = _part(n, n.get(7), k)
    peeps = [None] * 3 if peep is None else [_piece(n, peep, j, width) for j in range(3)]
    coupled = bool(n.attr("input_forget", 0))
    used = [p for p in peeps if p is not None]

    def step(now: Expr, read: list[Expr], states: list[Expr]) -> list[Expr]:
        hidden, cell = states
        seen = read[1:] if used else [None] * 3
        total = now + _dense(hidden, read[0])
        i, o, keep, c = (n.slice(total, 1, j * width, (j + 1) * width) for j in range(4))
        i = f(_clipped(n, _peeped(n, i, seen[0], cell)))
        keep = 1.0 - i if coupled else f(_clipped(n, _peeped(n, keep, seen[2], cell)))
        memory = keep * cell + i * g(_clipped(n, c))
        o = f(_clipped(n, _peeped(n, o, seen[1], memory)))
        return [o * h(memory), memory]

    return RecurrentDirection(gates, [r, *used], first, step)


def _peeped(n: Calc, gate: Expr, peep: Expr | None, cell: Expr) -> Expr:
    return gate if peep is None else gate + cell * peep


def _gru_cell(
    n: OnnxNode, x: Expr, weights: Any, first: list[Expr], width: int, functions: list[Function]
) -> RecurrentDirection:
    w, r, b, _ = weights
    f, g = functions
    ahead, back = _biases(n, b, 3, width)
    gates = _plus(n, _dense(x, w), ahead)
    late = bool(n.attr("linear_before_reset", 0))
    # the rows of two gates, then those of the new state
    weights, biases = (
        [] if x is None else [_piece(n, x, 0, 2 * width), _piece(n, x, 2, width)] for x in (r, back)
    )

    def step(now: Expr, read: list[Expr], states: list[Expr]) -> list[Expr]:
        hidden = states[0]
        bias_gates, bias_new = read[2:] if biases else (None, None)
        both = n.slice(now, 1, 0, 2 * width) + _plus(n, _dense(hidden, read[0]), bias_gates)
        both = f(_clipped(n, both))
        z, reset = n.slice(both, 1, 0, width), n.slice(both, 1, width, 2 * width)
        own = n.slice(now, 1, 2 * width, 3 * width)
        if late:
            seen = reset * _plus(n, _dense(hidden, read[1]), bias_new)
        else:
            seen = _plus(n, _dense(reset * hidden, read[1]), bias_new)
        fresh = g(_clipped(n, own + seen))
        return [(1.0 - z) * fresh + z * hidden]

    return RecurrentDirection(gates, [*weights, *biases], first, step)


def _rnn_cell(
    n: OnnxNode, x: Expr, weights: Any, first: list[Expr], width: int, functions: list[Function]
) -> RecurrentDirection:
    w, r, b, _ = weights
    ahead, back = _biases(n, b, 1, width)
    gates = _plus(n, _plus(n, _dense(x, w), ahead), back)

    def step(now: Expr, read: list[Expr], states: list[Expr]) -> list[Expr]:
        return [functions[0](_clipped(n, now + _dense(states[0], read[0])))]

    return RecurrentDirection(gates, [r], first, step)


ROWS: tuple[Row, ...] = (
    Row("LSTM", lambda n: _recurrent(n, 4, ("Sigmoid", "Tanh", "Tanh"), (5, 6), _lstm_cell)),
    Row("GRU", lambda n: _recurrent(n, 3, ("Sigmoid", "Tanh"), (5,), _gru_cell)),
    Row("RNN", lambda n: _recurrent(n, 1, ("Tanh",), (5,), _rnn_cell)),
)
