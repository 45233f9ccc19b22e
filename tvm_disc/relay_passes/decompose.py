"""Decompose composite operators into core operators, which fusion can handle.

A table maps operator names to rules: functions that take a `TermEmitter` and the call, and return
the result. Shapes remain symbolic. Intermediates keep reduced dims as 1 (keepdims), so that no
reshape is needed.
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
from tvm_disc.relay.kernel_ops import WRITE_SLICE
from tvm_disc.relay.ops.algebra import building, where
from tvm_disc.relay_passes.terms import Term, TermEmitter, scalar
from tvm_disc.support.late import Late
from tvm_disc.typing import Binding, Call, Expr, PassContext, TVMModule, TVMType, Var

# Returns the result of a call, or None if the call is kept.
Rule: TypeAlias = Callable[[TermEmitter, Any], "Term | Expr | None"]


def _softmax(t: TermEmitter, call: Call) -> Term:
    x, axis = t.of(call.args[0]), int(call.attrs.axis)
    e = t.apply("exp", x - t.reduce("max", x, axis))
    total = t.reduce("sum", e, axis)
    if x.dtype not in ("float32", "float64"):
        return e / total
    # One division per row instead of one per element. The sum is in [1, length], so its reciprocal
    # is finite.
    return e * (1.0 / total)


def _log_softmax(t: TermEmitter, call: Call) -> Term:
    x, axis = t.of(call.args[0]), int(call.attrs.axis)
    shifted = x - t.reduce("max", x, axis)
    return shifted - t.apply("log", t.reduce("sum", t.apply("exp", shifted), axis))


def _normalize(t: TermEmitter, x: Term, axes: list[int], epsilon: float) -> Term:
    """Return (x - mean) / sqrt(variance + epsilon), computed in two passes."""
    centred = x - t.reduce("mean", x, axes)
    variance = t.reduce("mean", centred * centred, axes)
    return t.bound(centred * t.apply("rsqrt", variance + epsilon))


def _affine(t: TermEmitter, y: Term, call: Call, axes: list[int]) -> Term:
    """Return ``y * gamma + beta``; the attributes may disable the factor or the summand."""
    gamma, beta = (_align(t, p, axes, call.args[0]) for p in call.args[1:])
    if bool(call.attrs.scale):
        y = y * gamma
    return y + beta if bool(call.attrs.center) else y


def _layer_norm(t: TermEmitter, call: Call) -> Term:
    axes = [int(a) for a in call.attrs.axes]
    y = _normalize(t, t.of(call.args[0]), axes, float(call.attrs.epsilon))
    return _affine(t, y, call, axes)


def _align(t: TermEmitter, param: Term | Expr, axes: list[int], x: Expr) -> Term:
    """Return a parameter over ``axes`` of ``x``, reshaped so that it broadcasts against ``x``.

    The result has the dims of ``x``, to which the operator requires the parameter's dims to be
    equal. If they were other symbols, TVM could not infer the shape of operators that use both.
    """
    term = param if isinstance(param, Term) else t.of(param)
    dims = list(x.ty.shape.values)
    rank = len(dims)
    axes = [a % rank for a in axes]
    shape: list[Any] = [dims[a] if a in axes else 1 for a in range(rank)]
    if axes == list(range(rank - len(axes), rank)):
        shape = shape[rank - len(axes) :]
        given = t.expr(term).ty.shape.values
        if all(a.same_as(b) for a, b in zip(shape, given, strict=True)):
            return term
    return t.bound(t.reshape(term, shape))


def _rms_norm(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    axes = [int(a) for a in call.attrs.axes]
    square = t.reduce("mean", x * x, axes)
    scaled = x * t.apply("rsqrt", square + float(call.attrs.epsilon))
    return scaled * _align(t, call.args[1], axes, call.args[0])


def _batch_norm_value(t: TermEmitter, call: Call) -> Term:
    """Return the inference form of batch norm: one multiplication and one addition per element.

    Scale and shift depend only on parameters, so constant folding evaluates them.
    """
    x, gamma, beta, mean, variance = map(t.of, call.args)
    axis = int(call.attrs.axis)
    scale = t.apply("rsqrt", variance + float(call.attrs.epsilon))
    if bool(call.attrs.scale):
        scale = gamma * scale
    shift = -(mean * scale)
    if bool(call.attrs.center):
        shift = beta + shift
    scale, shift = (_align(t, p, [axis], call.args[0]) for p in (scale, shift))
    return x * scale + shift


def _group_norm(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    axis, groups = int(call.attrs.channel_axis), int(call.attrs.num_groups)
    shape = list(x.expr.ty.shape.values)
    axis %= len(shape)
    split = [*shape[:axis], groups, tvm.tirx.floordiv(shape[axis], groups), *shape[axis + 1 :]]
    axes = [axis + 1, *(int(a) % len(shape) + 1 for a in call.attrs.axes)]
    y = _normalize(t, t.reshape(x, split), axes, float(call.attrs.epsilon))
    return _affine(t, t.bound(t.reshape(y, shape)), call, [axis])


def _instance_norm(t: TermEmitter, call: Call) -> Term:
    axis, axes = int(call.attrs.channel_axis), [int(a) for a in call.attrs.axes]
    y = _normalize(t, t.of(call.args[0]), axes, float(call.attrs.epsilon))
    return _affine(t, y, call, [axis])


def _gelu(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    inner = t.apply("erf", x * 0.5**0.5)
    return x * 0.5 * (inner + 1.0)


def _gelu_tanh(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    inner = x + x * x * x * 0.044715
    return x * 0.5 * (t.apply("tanh", inner * (2 / np.pi) ** 0.5) + 1.0)


def _silu(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    return x * t.apply("sigmoid", x)


def _leaky_relu(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    return where(x > 0.0, x, x * float(call.attrs.alpha))


def _prelu(t: TermEmitter, call: Call) -> Term:
    x, slope = map(t.of, call.args)
    rank = len(x.expr.ty.shape.values)
    if len(slope.expr.ty.shape.values) == 1 and rank > 1:
        slope = _align(t, slope, [int(call.attrs.axis)], x.expr)
    return where(x > 0.0, x, x * slope)


def _variance(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    axes = None if call.attrs.axis is None else [int(a) for a in call.attrs.axis]
    centred = x - t.reduce("mean", x, axes)
    square = t.expr(centred * centred)
    return t.made(R.mean(square, axes, keepdims=bool(call.attrs.keepdims)), x.dtype)


def _square(t: TermEmitter, call: Call) -> Term:
    x = t.of(call.args[0])
    return x * x


def _full_like(t: TermEmitter, call: Call) -> Expr:
    x = call.args[0]
    return R.full(x.ty.shape, call.args[1], str(x.ty.dtype))


def _like(value: float) -> Rule:
    def rule(t: TermEmitter, call: Call) -> Expr:
        x = call.args[0]
        dtype = str(call.ty.dtype)
        return R.full(x.ty.shape, scalar(value, dtype), dtype)

    return rule


def _stack(t: TermEmitter, call: Call) -> Expr:
    axis = int(call.attrs.axis or 0)
    return R.concat([t.expr(t.made(R.expand_dims(f, axis), "")) for f in call.args[0].fields], axis)


def _repeat(t: TermEmitter, call: Call) -> Expr | None:
    """Return a repeat of matrices or larger parts as a broadcast, which fuses as a view.

    A repeat along the last two axes is kept: it may be an upsampling of images, whose layout a
    later pass changes.
    """
    x, dims = call.args[0], list(call.args[0].ty.shape.values)
    if call.attrs.axis is None or int(call.attrs.axis) % len(dims) >= len(dims) - 2:
        return None
    axis = int(call.attrs.axis) % len(dims) + 1
    apart = t.expr(t.reshape(t.of(x), [*dims[:axis], 1, *dims[axis:]]))
    wide = R.broadcast_to(apart, [*dims[:axis], int(call.attrs.repeats), *dims[axis:]])
    return reshape_call(t.expr(t.made(wide, "")), call.ty.shape.values)


def _global_pool(reduce: Callable[..., Expr]) -> Rule:
    """Return a rule that converts adaptive pooling to size 1 into a reduction over spatial axes."""

    def rule(t: TermEmitter, call: Call) -> Expr | None:
        size = call.attrs.output_size
        rank = len(call.args[0].ty.shape.values)
        if size is None or any(int(s) != 1 for s in size):
            return None
        return reduce(call.args[0], list(range(2, rank)), keepdims=True)

    return rule


def _batch_flatten(t: TermEmitter, call: Call) -> Expr:
    return reshape_call(call.args[0], call.ty.shape.values)


def _written(t: TermEmitter, call: Call) -> Expr:
    selected: Expr = call.args[0]
    return selected


def _dropout_value(t: TermEmitter, call: Call) -> Expr:
    value: Expr = call.args[0]
    return value


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
    "relax.repeat": _repeat,
    "relax.nn.adaptive_avg_pool1d": _global_pool(R.mean),
    "relax.nn.adaptive_avg_pool2d": _global_pool(R.mean),
    "relax.nn.batch_flatten": _batch_flatten,
    WRITE_SLICE: _written,
    "relax.image.resize2d": Late("tvm_disc.relay_passes.resize:resize"),
}

# Operators that return a tuple; inference uses its first field.
FIRST_OF_TUPLE: Mapping[str, Rule] = {
    "relax.nn.batch_norm": _batch_norm_value,
    "relax.nn.dropout": _dropout_value,
}


def _split(t: TermEmitter, call: Call) -> Expr:
    """Return ``split`` as a tuple of slices."""
    x, axis = call.args[0], int(call.attrs.axis)
    extents = [t.shape.values[axis] for t in call.ty.fields]
    begin: int = 0
    pieces = []
    for extent in extents:
        end = begin + extent
        piece = R.strided_slice(x, [axis], [begin], [end], assume_inbound=True)
        pieces.append(t.expr(t.made(piece, "")))
        begin = end
    return relax.Tuple(pieces)


@relax.expr_functor.mutator
class _Decomposer(relax.PyExprMutator):
    place: Var | None = None  # variable of the operator that is being decomposed

    def visit_var_binding_(self, binding: Binding) -> None:
        """Decompose the binding's operator; the new variables get its name and source position."""
        self.place = binding.var
        super().visit_var_binding_(binding)

    def _emit(self, expr: Expr) -> Expr:
        """Bind an expression to a new variable, and return it."""
        if self.place is None or isinstance(expr, relax.Var):
            return self.builder_.emit(expr)
        inside = self.builder_.current_block_is_dataflow()
        value = self.builder_.normalize(expr)
        kind = relax.DataflowVar if inside else relax.Var
        var = kind(self.place.name, value.ty, self.place.span)
        self.builder_.emit_normalized(relax.VarBinding(var, value))
        return var

    def visit_call_(self, call: Call) -> Expr:
        call = self.visit_expr_post_order(call)
        if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.Op):
            return call
        terms = TermEmitter(self._emit)
        with building(terms):
            return self._decomposed(terms, str(call.op.name), call)

    def _decomposed(self, terms: TermEmitter, name: str, call: Call) -> Expr:
        if name == "relax.split":
            return _split(terms, call)
        if name in FIRST_OF_TUPLE:
            found = FIRST_OF_TUPLE[name](terms, call)
            assert found is not None
            first = self._as_typed(found, call.ty.fields[0])
            value = self._emit(first)
            # The other fields (running statistics, mask) are passed through.
            rest = [call.args[3], call.args[4]] if name.endswith("batch_norm") else [value]
            return relax.Tuple([value, *rest])
        rule = RULES.get(name)
        result = None if rule is None else rule(terms, call)
        return call if result is None else self._as_typed(result, call.ty)

    def _as_typed(self, result: Term | Expr, ty: TVMType) -> Expr:
        """Return ``result`` with the shape of the composite operator.

        TVM infers shapes in terms of the operands' dims. If two dims are different expressions that
        only the solver proves equal, inference would fail at the next operator.
        """
        expr = result.expr if isinstance(result, Term) else result
        result = self.builder_.normalize(expr)
        shape = getattr(ty, "shape", None)
        if shape is None or tvm_ffi.structural_equal(shape, result.ty.shape):
            return result
        return self.builder_.normalize(reshape_call(self._emit(result), shape.values))


def DecomposeComposite() -> Any:
    """Return a module pass that rewrites composite operators into core operators (see
    ``RULES``).
    """

    def decompose(mod: TVMModule, ctx: PassContext) -> Any:
        mutator = _Decomposer(mod)
        for gv, func in mod.functions_items():
            if isinstance(func, relax.Function):
                mutator.builder_.update_func(gv, mutator.visit_expr(func))
        return mutator.builder_.get()

    return tvm.transform.module_pass(decompose, opt_level=0, name="DecomposeComposite")
