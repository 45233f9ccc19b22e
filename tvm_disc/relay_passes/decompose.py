"""Decomposition of composite operators into core operators, which fusion can handle.

Each rule is a row: operator name -> function from (builder, call) to an expression. Shapes remain
symbolic. Intermediates keep reduced dims as 1 (keepdims), so that no reshape is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op as R

from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay_passes.resize import resize

Expr: TypeAlias = Any
Rule: TypeAlias = Callable[[Any, Any], Expr]


def scalar(value: float, dtype: str) -> Expr:
    """Return a scalar literal of a dtype."""
    if dtype == "bfloat16":
        return relax.const(value, dtype)
    return relax.const(np.array(value, dtype=dtype), dtype)


def _dtype(x: Expr) -> str:
    return str(x.ty.dtype)


def _softmax(emit: Any, call: Any) -> Expr:
    x, axis = call.args[0], int(call.attrs.axis)
    shifted = emit(R.subtract(x, emit(R.max(x, axis, keepdims=True))))
    e = emit(R.exp(shifted))
    total = emit(R.sum(e, axis, keepdims=True))
    dtype = _dtype(x)
    if dtype not in ("float32", "float64"):
        return R.divide(e, total)
    # One division per row instead of one per element; the sum is in [1, length], so this is safe.
    return R.multiply(e, emit(R.divide(scalar(1.0, dtype), total)))


def _log_softmax(emit: Any, call: Any) -> Expr:
    x, axis = call.args[0], int(call.attrs.axis)
    shifted = emit(R.subtract(x, emit(R.max(x, axis, keepdims=True))))
    total = emit(R.sum(emit(R.exp(shifted)), axis, keepdims=True))
    return R.subtract(shifted, emit(R.log(total)))


def _normalize(emit: Any, x: Expr, axes: list[int], epsilon: float) -> Expr:
    """Return (x - mean) / sqrt(variance + epsilon), computed in two passes."""
    centred = emit(R.subtract(x, emit(R.mean(x, axes, keepdims=True))))
    variance = emit(R.mean(emit(R.multiply(centred, centred)), axes, keepdims=True))
    scale = emit(R.rsqrt(emit(R.add(variance, scalar(epsilon, _dtype(x))))))
    return emit(R.multiply(centred, scale))


def _affine(emit: Any, y: Expr, gamma: Expr, beta: Expr, center: bool, use_scale: bool) -> Expr:
    if use_scale:
        y = emit(R.multiply(y, gamma))
    return R.add(y, beta) if center else y


def _layer_norm(emit: Any, call: Any) -> Expr:
    x, gamma, beta = call.args
    axes = [int(a) for a in call.attrs.axes]
    y = _normalize(emit, x, axes, float(call.attrs.epsilon))
    gamma, beta = (_align(emit, p, axes, x) for p in (gamma, beta))
    return _affine(emit, y, gamma, beta, bool(call.attrs.center), bool(call.attrs.scale))


def _align(emit: Any, param: Expr, axes: list[int], x: Expr) -> Expr:
    """Return a parameter over ``axes`` of ``x``, reshaped so that it broadcasts against ``x``.

    Its dims become those of ``x``, which the operator requires to be equal. With separate symbols
    TVM could not infer the shape of the product.
    """
    dims = list(x.ty.shape.values)
    rank = len(dims)
    axes = [a % rank for a in axes]
    shape: list[Any] = [dims[a] if a in axes else 1 for a in range(rank)]
    if axes == list(range(rank - len(axes), rank)):
        shape = shape[rank - len(axes) :]
        if all(a.same_as(b) for a, b in zip(shape, param.ty.shape.values, strict=True)):
            return param
    return emit(reshape_call(param, shape))


def _rms_norm(emit: Any, call: Any) -> Expr:
    x, gamma = call.args[0], call.args[1]
    axes = [int(a) for a in call.attrs.axes]
    square = emit(R.mean(emit(R.multiply(x, x)), axes, keepdims=True))
    scale = emit(R.rsqrt(emit(R.add(square, scalar(float(call.attrs.epsilon), _dtype(x))))))
    gamma = _align(emit, gamma, axes, x)
    return R.multiply(emit(R.multiply(x, scale)), gamma)


def _batch_norm_value(emit: Any, call: Any) -> Expr:
    """Return the inference form of batch norm: one multiplication and one addition per element.

    Scale and shift depend only on parameters, so constant folding evaluates them.
    """
    x, gamma, beta, mean, variance = call.args
    axis = int(call.attrs.axis)
    dtype = _dtype(x)
    inverse = emit(R.rsqrt(emit(R.add(variance, scalar(float(call.attrs.epsilon), dtype)))))
    scale = emit(R.multiply(gamma, inverse)) if bool(call.attrs.scale) else inverse
    shift = emit(R.negative(emit(R.multiply(mean, scale))))
    if bool(call.attrs.center):
        shift = emit(R.add(beta, shift))
    scale, shift = (_align(emit, p, [axis], x) for p in (scale, shift))
    return R.add(emit(R.multiply(x, scale)), shift)


def _group_norm(emit: Any, call: Any) -> Expr:
    x, gamma, beta = call.args
    axis, groups = int(call.attrs.channel_axis), int(call.attrs.num_groups)
    shape = list(x.ty.shape.values)
    axis %= len(shape)
    split = [*shape[:axis], groups, tvm.tirx.floordiv(shape[axis], groups), *shape[axis + 1 :]]
    grouped = emit(reshape_call(x, split))
    axes = [axis + 1, *(int(a) % len(shape) + 1 for a in call.attrs.axes)]
    y = emit(
        reshape_call(_normalize(emit, grouped, axes, float(call.attrs.epsilon)), x.ty.shape.values)
    )
    gamma, beta = (_align(emit, p, [axis], x) for p in (gamma, beta))
    return _affine(emit, y, gamma, beta, bool(call.attrs.center), bool(call.attrs.scale))


def _instance_norm(emit: Any, call: Any) -> Expr:
    x, gamma, beta = call.args
    axis, axes = int(call.attrs.channel_axis), [int(a) for a in call.attrs.axes]
    y = _normalize(emit, x, axes, float(call.attrs.epsilon))
    gamma, beta = (_align(emit, p, [axis], x) for p in (gamma, beta))
    return _affine(emit, y, gamma, beta, bool(call.attrs.center), bool(call.attrs.scale))


def _gelu(emit: Any, call: Any) -> Expr:
    x = call.args[0]
    d = _dtype(x)
    inner = emit(R.erf(emit(R.multiply(x, scalar(0.5**0.5, d)))))
    half = emit(R.multiply(x, scalar(0.5, d)))
    return R.multiply(half, emit(R.add(inner, scalar(1.0, d))))


def _gelu_tanh(emit: Any, call: Any) -> Expr:
    x = call.args[0]
    d = _dtype(x)
    cube = emit(R.multiply(emit(R.multiply(x, x)), x))
    inner = emit(R.add(x, emit(R.multiply(cube, scalar(0.044715, d)))))
    t = emit(R.tanh(emit(R.multiply(inner, scalar((2 / np.pi) ** 0.5, d)))))
    half = emit(R.multiply(x, scalar(0.5, d)))
    return R.multiply(half, emit(R.add(t, scalar(1.0, d))))


def _silu(emit: Any, call: Any) -> Expr:
    x = call.args[0]
    return R.multiply(x, emit(R.sigmoid(x)))


def _leaky_relu(emit: Any, call: Any) -> Expr:
    x = call.args[0]
    zero, alpha = scalar(0.0, _dtype(x)), scalar(float(call.attrs.alpha), _dtype(x))
    return R.where(emit(R.greater(x, zero)), x, emit(R.multiply(x, alpha)))


def _prelu(emit: Any, call: Any) -> Expr:
    x, slope = call.args
    rank = len(x.ty.shape.values)
    if len(slope.ty.shape.values) == 1 and rank > 1:
        slope = _align(emit, slope, [int(call.attrs.axis)], x)
    zero = scalar(0.0, _dtype(x))
    return R.where(emit(R.greater(x, zero)), x, emit(R.multiply(x, slope)))


def _variance(emit: Any, call: Any) -> Expr:
    x = call.args[0]
    axes = None if call.attrs.axis is None else [int(a) for a in call.attrs.axis]
    centred = emit(R.subtract(x, emit(R.mean(x, axes, keepdims=True))))
    square = emit(R.multiply(centred, centred))
    return R.mean(square, axes, keepdims=bool(call.attrs.keepdims))


def _square(emit: Any, call: Any) -> Expr:
    return R.multiply(call.args[0], call.args[0])


def _full_like(emit: Any, call: Any) -> Expr:
    x = call.args[0]
    return R.full(x.ty.shape, call.args[1], _dtype(x))


def _like(value: float) -> Rule:
    def rule(emit: Any, call: Any) -> Expr:
        x = call.args[0]
        dtype = str(call.ty.dtype)
        return R.full(x.ty.shape, scalar(value, dtype), dtype)

    return rule


def _stack(emit: Any, call: Any) -> Expr:
    axis = int(call.attrs.axis or 0)
    return R.concat([emit(R.expand_dims(f, axis)) for f in call.args[0].fields], axis)


def _global_pool(reduce: Callable[..., Expr]) -> Rule:
    """Return a rule that converts adaptive pooling to size 1 into a reduction over spatial axes."""

    def rule(emit: Any, call: Any) -> Expr | None:
        size = call.attrs.output_size
        rank = len(call.args[0].ty.shape.values)
        if size is None or any(int(s) != 1 for s in size):
            return None
        return reduce(call.args[0], list(range(2, rank)), keepdims=True)

    return rule


def _batch_flatten(emit: Any, call: Any) -> Expr:
    return reshape_call(call.args[0], call.ty.shape.values)


def _dropout_value(emit: Any, call: Any) -> Expr:
    return call.args[0]


RULES: Mapping[str, Rule] = {
    "relax.nn.softmax": _softmax,
    "relax.nn.log_softmax": _log_softmax,
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.rms_norm": _rms_norm,
    "relax.nn.group_norm": _group_norm,
    "relax.nn.instance_norm": _instance_norm,
    "relax.nn.gelu": _gelu,
    "relax.nn.gelu_tanh": _gelu_tanh,
    "relax.nn.silu": _silu,
    "relax.nn.leakyrelu": _leaky_relu,
    "relax.nn.prelu": _prelu,
    "relax.variance": _variance,
    "relax.square": _square,
    "relax.full_like": _full_like,
    "relax.ones_like": _like(1),
    "relax.zeros_like": _like(0),
    "relax.stack": _stack,
    "relax.nn.adaptive_avg_pool1d": _global_pool(R.mean),
    "relax.nn.adaptive_avg_pool2d": _global_pool(R.mean),
    "relax.nn.batch_flatten": _batch_flatten,
    "relax.image.resize2d": resize,
}

# Operators that return a tuple; inference uses its first field.
FIRST_OF_TUPLE: Mapping[str, Rule] = {
    "relax.nn.batch_norm": _batch_norm_value,
    "relax.nn.dropout": _dropout_value,
}


def _split(emit: Any, call: Any) -> Expr:
    """Return ``split`` as a tuple of slices."""
    x, axis = call.args[0], int(call.attrs.axis)
    extents = [t.shape.values[axis] for t in call.ty.fields]
    begin: Any = 0
    pieces = []
    for extent in extents:
        end = begin + extent
        pieces.append(emit(R.strided_slice(x, [axis], [begin], [end], assume_inbound=True)))
        begin = end
    return relax.Tuple(pieces)


@relax.expr_functor.mutator
class _Decomposer(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.Op):
            return call
        name = str(call.op.name)
        emit = self.builder_.emit
        if name == "relax.split":
            return _split(emit, call)
        if name in FIRST_OF_TUPLE:
            value = emit(self._as_typed(FIRST_OF_TUPLE[name](emit, call), call.ty.fields[0]))
            # The other fields (running statistics, mask) are passed through.
            rest = [call.args[3], call.args[4]] if name.endswith("batch_norm") else [value]
            return relax.Tuple([value, *rest])
        rule = RULES.get(name)
        result = None if rule is None else rule(emit, call)
        return call if result is None else self._as_typed(result, call.ty)

    def _as_typed(self, result: Expr, ty: Any) -> Expr:
        """Return ``result`` with the shape of the composite operator.

        TVM infers shapes in terms of the operands' dims. Where these are equal only by proof, its
        inference would fail at the next operator.
        """
        result = self.builder_.normalize(result)
        shape = getattr(ty, "shape", None)
        if shape is None or tvm_ffi.structural_equal(shape, result.ty.shape):
            return result
        return self.builder_.normalize(reshape_call(self.builder_.emit(result), shape.values))


def DecomposeComposite() -> Any:
    """Return a module pass that rewrites composite operators into core operators (see
    ``RULES``).
    """

    def decompose(mod: Any, ctx: Any) -> Any:
        mutator = _Decomposer(mod)
        for gv, func in mod.functions_items():
            if isinstance(func, relax.Function):
                mutator.builder_.update_func(gv, mutator.visit_expr(func))
        return mutator.builder_.get()

    return tvm.transform.module_pass(decompose, opt_level=0, name="DecomposeComposite")
