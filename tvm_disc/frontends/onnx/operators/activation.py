"""Converters of ONNX activation functions."""

from __future__ import annotations

import math

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Expr, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import MICROSOFT, Convert, Row


def _prelu(n: OnnxNode) -> Expr:
    """Convert PRelu. Slopes broadcast as in NumPy; before opset 7 a vector has one per channel."""
    x, slope = n[0], n[1]
    if n.opset < 7 and n.rank(slope) == 1 and n.rank(x) > 2:
        slope = n.along(slope, 1, n.rank(x))
    return n.where(x < 0, x * slope, x)


def _elu(n: OnnxNode) -> Expr:
    x = n[0]
    return n.where(x < 0, n.expm1(x) * float(n.attr("alpha", 1.0)), x)


def _celu(n: OnnxNode) -> Expr:
    x, alpha = n[0], float(n.attr("alpha", 1.0))
    below = n.expm1(x / alpha) * alpha
    return n.maximum(x, 0) + n.minimum(below, 0)


def _selu(n: OnnxNode) -> Expr:
    x = n[0]
    alpha = float(n.attr("alpha", 1.67326319217681884765625))
    gamma = float(n.attr("gamma", 1.05070102214813232421875))
    below = n.expm1(x) * alpha
    return n.where(x > 0, x, below) * gamma


def _hard_sigmoid(n: OnnxNode) -> Expr:
    return hard_sigmoid(n, n[0], float(n.attr("alpha", 0.2)), float(n.attr("beta", 0.5)))


def hard_sigmoid(n: Calc, x: Expr, alpha: float, beta: float) -> Expr:
    """Return ``alpha * x + beta``, clipped to [0, 1]."""
    return n.clip(x * alpha + beta, 0, 1)


def softplus(n: Calc, x: Expr) -> Expr:
    """Return ``log(1 + exp(x))``, computed so that ``exp`` does not overflow."""
    rest = n.log1p(n.exp(-n.abs(x)))
    return n.maximum(x, 0) + rest


def _swish(default: float) -> Convert:
    """Return the converter of ``x * sigmoid(alpha * x)``, for a default of alpha."""

    def convert(n: OnnxNode) -> Expr:
        alpha = float(n.attr("alpha", default))
        return n[0] * n.sigmoid(n[0] if alpha == 1 else n[0] * alpha)

    return convert


def _shrink(n: OnnxNode) -> Expr:
    x = n[0]
    bias, limit = float(n.attr("bias", 0.0)), float(n.attr("lambd", 0.5))
    dtype = n.dtype(x)
    wide = x if dtype.startswith("float") else n.cast(x, "float32")
    above = n.where(wide > limit, wide - bias, 0)
    shrunk = n.where(wide < -limit, wide + bias, above)
    return n.cast(shrunk, dtype)


def _gelu(n: OnnxNode) -> Expr:
    how = str(n.attr("approximate", "none"))
    if how not in ("none", "tanh"):
        raise Unsupported(f"approximate: expected 'none' or 'tanh', found {how!r}")
    return gelu(n, n[0]) if how == "none" else gelu_tanh(n, n[0])


def gelu(n: Calc, x: Expr) -> Expr:
    """Return ``x`` times the standard normal distribution function of ``x``, by ``erf``."""
    return x * 0.5 * (n.erf(x * math.sqrt(0.5)) + 1)


def gelu_tanh(n: Calc, x: Expr) -> Expr:
    """Return the tanh approximation of :func:`gelu`."""
    cubic = x * x * x * 0.044715
    inner = (x + cubic) * math.sqrt(2 / math.pi)
    return x * 0.5 * (n.tanh(inner) + 1)


def _dropout(n: OnnxNode) -> list[object]:
    """Convert Dropout for inference: return the input, and a mask of ones."""
    training = n.get(2)
    if training is not None:
        value = n.known(training)
        ratio = n.known(n.get(1))
        nothing = ratio is not None and not ratio.any()
        if not nothing and (value is None or value.any()):
            found = "a value unknown at compile time" if value is None else "true"
            raise Unsupported(
                f"training_mode: expected a constant false, found {found}; programs compute "
                "inference only"
            )
    elif n.opset < 7 and not n.attr("is_test", 0):
        raise Unsupported("is_test: expected 1, found 0; programs compute inference only")
    x = n[0]
    dtype = "bool" if n.opset >= 10 else n.dtype(x)
    return [x, n.full(1, n.sizes(x), dtype) if n.wants(1) else None]


# -- along an axis ---------------------------------------------------------------------------


def _flattened(n: OnnxNode, name: str) -> Expr:
    """Emit an operator over the axes from ``axis`` to the last, as defined before opset 13."""
    x, rank = n[0], n.rank(n[0])
    axis = n.axis_of(x, 1)
    if axis == rank - 1:
        return op(name, x, axis=-1)
    flat = n.reshape(x, [n.product(n.sizes(x)[:axis]), n.product(n.sizes(x)[axis:])])
    return n.reshape(op(name, flat, axis=-1), n.sizes(x))


def _hardmax_flattened(n: OnnxNode) -> Expr:
    x, axis = n[0], n.axis_of(n[0], 1)
    flat = n.reshape(x, [n.product(n.sizes(x)[:axis]), n.product(n.sizes(x)[axis:])])
    return n.reshape(_first_largest(n, flat, 1), n.sizes(x))


def _first_largest(n: OnnxNode, x: Expr, axis: int) -> Expr:
    """Return a tensor that is 1 at the first maximum along an axis, and 0 elsewhere."""
    best = op("argmax", x, axis=(axis,), keepdims=True)
    places = n.along(n.arange(n.size(x, axis), "int32"), axis, n.rank(x))
    return n.cast(n.equal(places, best), n.dtype(x))


ROWS: tuple[Row, ...] = (
    Row("Relu", lambda n: op("nn.relu", n[0])),
    Row("Sigmoid", lambda n: n.sigmoid(n[0])),
    Row("Tanh", lambda n: n.tanh(n[0])),
    Row("LeakyRelu", lambda n: op("nn.leaky_relu", n[0], alpha=float(n.attr("alpha", 0.01)))),
    Row("PRelu", _prelu),
    Row("Elu", _elu),
    Row("Celu", _celu),
    Row("Selu", _selu),
    Row("ThresholdedRelu", lambda n: n.where(n[0] > float(n.attr("alpha", 1.0)), n[0], 0)),
    Row("HardSigmoid", _hard_sigmoid),
    Row("HardSwish", lambda n: n[0] * hard_sigmoid(n, n[0], 1 / 6, 0.5)),
    Row("Softplus", lambda n: softplus(n, n[0])),
    Row("Softsign", lambda n: n[0] / (n.abs(n[0]) + 1)),
    Row("Mish", lambda n: n[0] * n.tanh(softplus(n, n[0]))),
    Row("Swish", _swish(1.0)),
    Row("QuickGelu", _swish(1.702), domain=MICROSOFT),
    Row("Shrink", _shrink),
    Row("Gelu", _gelu),
    Row("Gelu", lambda n: gelu(n, n[0]), domain=MICROSOFT),
    Row("BiasGelu", lambda n: gelu(n, n[0] + n[1]), domain=MICROSOFT),
    Row("FastGelu", lambda n: gelu_tanh(n, n.plus(n[0], 1)), domain=MICROSOFT),
    Row("Dropout", _dropout),
    Row("Softmax", lambda n: _flattened(n, "nn.softmax")),
    Row("Softmax", lambda n: n.softmax(n[0], int(n.attr("axis", -1))), since=13),
    Row("LogSoftmax", lambda n: _flattened(n, "nn.log_softmax")),
    Row("LogSoftmax", lambda n: op("nn.log_softmax", n[0], axis=int(n.attr("axis", -1))), since=13),
    Row("Hardmax", _hardmax_flattened),
    Row("Hardmax", lambda n: _first_largest(n, n[0], n.axis_of(n[0], -1)), since=13),
)

__all__ = ["ROWS", "gelu", "gelu_tanh", "hard_sigmoid", "softplus"]
