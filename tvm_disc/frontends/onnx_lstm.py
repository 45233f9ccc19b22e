"""ONNX's LSTM, which TVM's importer lacks, as a tail-recursive function over the steps.

All inputs meet the weights in one matrix product before the loop; a step adds the product of its
hidden state. The result grows by one step per turn, so that the number of steps stays a symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import Unsupported

ALLOWED = {"tvm_custom", "hidden_size", "direction", "layout", "activations"}
ACTIVATIONS = ["Sigmoid", "Tanh", "Tanh"]


def lstm(frontend: Any) -> Any:
    """The converter class for the operator."""

    class LSTM(frontend.OnnxOpConverter):  # type: ignore[misc]
        """Converts an ONNX LSTM node."""

        @classmethod
        def _impl_v7(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
            return convert(bb, _constants(frontend, inputs, params), attr)

    return LSTM


def _constants(frontend: Any, inputs: Any, params: Any) -> list[Any]:
    items = [inputs[k] if k < len(inputs) else None for k in range(8)]
    return [None if x is None else frontend.get_constant(x, params) for x in items]


def convert(bb: Any, inputs: Sequence[Any], attr: Mapping[str, Any]) -> Any:
    """(every hidden state, the last hidden state, the last cell state)."""
    x, weights, recurrent, bias, lengths, hidden, cell, peephole = inputs
    _require_plain(attr, lengths, peephole)
    width = int(attr["hidden_size"])
    direction = _text(attr.get("direction", "forward"))
    reversed_ = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    steps, batch, _ = x.ty.shape.values
    results = []
    for k, backwards in enumerate(reversed_):
        states = [_state(bb, s, k, batch, width) for s in (hidden, cell)]
        source = bb.emit(R.flip(x, 0)) if backwards else x
        w, r = (_array(m)[k] for m in (weights, recurrent))
        b = np.zeros(8 * width, "float32") if bias is None else _array(bias)[k]
        gates = bb.emit(R.matmul(source, relax.const(np.ascontiguousarray(w.T))))
        gates = bb.emit(R.add(gates, relax.const(b[: 4 * width] + b[4 * width :])))
        every, last, memory = _run(bb, gates, r, states, (steps, batch, width))
        results.append((bb.emit(R.flip(every, 0)) if backwards else every, last, memory))
    return relax.Tuple(
        [
            bb.emit(R.stack([r[0] for r in results], 1)),
            bb.emit(R.stack([r[1] for r in results], 0)),
            bb.emit(R.stack([r[2] for r in results], 0)),
        ]
    )


def _require_plain(attr: Mapping[str, Any], lengths: Any, peephole: Any) -> None:
    """Refuse what is not computed here, by name."""
    if lengths is not None or peephole is not None:
        raise Unsupported("LSTM: expected no sequence_lens and no peephole weights")
    unknown = [k for k, v in attr.items() if k not in ALLOWED and v]
    activations = [_text(a) for a in attr.get("activations", ACTIVATIONS)]
    if unknown or int(attr.get("layout", 0)) or activations[:3] != ACTIVATIONS:
        found = unknown or ([f"layout {attr['layout']}"] if attr.get("layout") else activations)
        raise Unsupported(f"LSTM: expected layout 0 and default activations, found {found}")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _array(constant: Any) -> np.ndarray:
    if not isinstance(constant, tvm.ir.GenericConst):
        raise Unsupported("LSTM: expected constant weights")
    return np.asarray(constant.value.numpy())


def _state(bb: Any, state: Any, k: int, batch: Any, width: int) -> Any:
    """The initial state of one direction, (batch, width)."""
    if state is None:
        zero = relax.const(np.array(0, "float32"))
        return bb.emit(R.full(relax.ShapeExpr([batch, width]), zero, "float32"))
    row = bb.emit(R.strided_slice(state, [0], [k], [k + 1]))
    return bb.emit(R.squeeze(row, [0]))


def _run(bb: Any, gates: Any, recurrent: np.ndarray, states: Sequence[Any], dims: Any) -> Any:
    """Call the loop, and say what shapes come out of it."""
    steps, batch, width = dims
    loop = _loop(bb, recurrent, width)
    zero = relax.const(np.array(0, "float32"))
    none = bb.emit(R.full(relax.ShapeExpr([0, batch, width]), zero, "float32"))
    count = bb.emit(R.shape_to_tensor(relax.ShapeExpr([steps])))
    count = bb.emit(R.squeeze(count, [0]))
    first = relax.const(np.array(0, "int64"), "int64")
    out = bb.emit(tvm.ir.Call(loop, [first, count, gates, *states, none]))
    shapes = ([steps, batch, width], [batch, width], [batch, width])
    return [
        bb.match_cast(bb.emit(relax.TupleGetItem(out, k)), relax.TensorType(list(s), "float32"))
        for k, s in enumerate(shapes)
    ]


def _loop(bb: Any, recurrent: np.ndarray, width: int) -> Any:
    """loop(t, count, gates, h, c, out) = t < count ? loop(t + 1, ...) : (out, h, c)."""
    n, b, k = (tirx.Var(name, "int64") for name in ("steps", "batch", "done"))

    def tensor(name: str, shape: Sequence[Any], dtype: str = "float32") -> Any:
        return relax.Var(name, relax.TensorType(list(shape), dtype))

    t, count = tensor("t", [], "int64"), tensor("count", [], "int64")
    gates = tensor("gates", [n, b, 4 * width])
    h, c, out = tensor("h", [b, width]), tensor("c", [b, width]), tensor("out", [k, b, width])
    params = [t, count, gates, h, c, out]
    result = relax.TupleType([relax.TensorType(ndim=r, dtype="float32") for r in (3, 2, 2)])
    empty = relax.Function.create_empty(params, result)
    loop = bb.add_func(empty, "lstm_loop")
    inner = relax.BlockBuilder(bb.get())

    def sequence(make: Any) -> Any:
        bindings: list[Any] = []

        def emit(call: Any) -> Any:
            call = inner.normalize(call)
            var = relax.Var("v", call.ty)
            bindings.append(relax.VarBinding(var, call))
            return var

        value = make(emit)
        return inner.normalize(relax.SeqExpr([relax.BindingBlock(bindings)], value))

    def again(emit: Any) -> Any:
        now = emit(R.take(gates, t, 0, "clip"))
        memory, hidden = step(emit, now, h, c, recurrent, width)
        after = emit(R.concat([out, emit(R.expand_dims(hidden, 0))], 0))
        following = emit(R.add(t, relax.const(np.array(1, "int64"), "int64")))
        return emit(tvm.ir.Call(loop, [following, count, gates, hidden, memory, after]))

    def whole(emit: Any) -> Any:
        more = emit(R.less(t, count))
        done = sequence(lambda e: e(relax.Tuple([out, h, c])))
        return emit(relax.If(more, sequence(again), done))

    func = relax.Function(params, sequence(whole), result, True)
    bb.update_func(loop, inner.normalize(func))
    return loop


def step(
    emit: Any, gates: Any, h: Any, c: Any, recurrent: np.ndarray, width: int
) -> tuple[Any, Any]:
    """One step: (cell state, hidden state). Gates: input, output, forget, cell (ONNX)."""
    product = emit(R.matmul(h, relax.const(np.ascontiguousarray(recurrent.T))))
    total = emit(R.add(gates, product))

    def gate(k: int, activation: Any) -> Any:
        part = R.strided_slice(total, [1], [k * width], [(k + 1) * width], assume_inbound=True)
        return emit(activation(emit(part)))

    write, read, keep = (gate(k, R.sigmoid) for k in range(3))
    fresh = emit(R.multiply(write, gate(3, R.tanh)))
    memory = emit(R.add(emit(R.multiply(keep, c)), fresh))
    return memory, emit(R.multiply(read, emit(R.tanh(memory))))


__all__ = ["lstm"]
