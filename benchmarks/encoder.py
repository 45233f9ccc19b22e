"""A transformer encoder of n layers as a Relax module, in the form that importers emit.

Batch and length are symbols. Every layer has attention, two layer norms and a GELU, with matmuls
over flattened rows and reshapes, as in a module exported from PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op as R


def encoder(layers: int, width: int = 16, heads: int = 2, positions: int = 64) -> Any:
    """Return the module; its position table is sliced to the length, as in BERT."""
    b, s = tirx.Var("b", "int64"), tirx.Var("s", "int64")
    rng = np.random.default_rng(layers)

    def weight(*shape: int) -> Any:
        return relax.const(rng.standard_normal(shape).astype("float32") / 8, "float32")

    x = relax.Var("x", relax.TensorType([b, s, width], "float32"))
    mask = relax.Var("mask", relax.TensorType([b, s], "float32"))
    bb = relax.BlockBuilder()

    def linear(v: Any, to: int) -> Any:
        width_in = int(v.ty.shape.values[-1])
        flat = bb.emit(R.reshape(v, relax.ShapeExpr([b * s, width_in])))
        out = bb.emit(R.add(bb.emit(R.matmul(flat, weight(width_in, to))), weight(to)))
        return bb.emit(R.reshape(out, relax.ShapeExpr([b, s, to])))

    def split(v: Any) -> Any:
        parts = bb.emit(R.reshape(v, relax.ShapeExpr([b, s, heads, width // heads])))
        return bb.emit(R.permute_dims(parts, [0, 2, 1, 3]))

    def layer(v: Any, bias: Any) -> Any:
        q, k, w = (split(linear(v, width)) for _ in range(3))
        scores = bb.emit(R.matmul(q, bb.emit(R.permute_dims(k, [0, 1, 3, 2]))))
        p = bb.emit(R.nn.softmax(bb.emit(R.add(scores, bias)), -1))
        mixed = bb.emit(R.permute_dims(bb.emit(R.matmul(p, w)), [0, 2, 1, 3]))
        joined = bb.emit(R.reshape(mixed, relax.ShapeExpr([b, s, width])))
        v = norm(bb.emit(R.add(linear(joined, width), v)))
        inner = bb.emit(R.nn.gelu(linear(v, 2 * width)))
        return norm(bb.emit(R.add(linear(inner, width), v)))

    def norm(v: Any) -> Any:
        return bb.emit(R.nn.layer_norm(v, weight(width), weight(width), [-1]))

    with bb.function("main", [x, mask]):
        with bb.dataflow():
            table = weight(1, positions, width)
            rows = bb.emit(R.strided_slice(table, [1], [0], [s], [1]))
            v = bb.emit(R.add(x, rows))
            bias = bb.emit(R.expand_dims(mask, [1, 2]))
            # TVM infers no shape for the sum, so an importer states the shape that it knows.
            v = bb.match_cast(v, relax.TensorType([b, s, width], "float32"))
            for _ in range(layers):
                v = layer(v, bias)
            out = bb.emit_output(v)
        bb.emit_func_output(out)
    return tvm.IRModule(bb.get().functions)


__all__ = ["encoder"]
