"""``SimplifyInference``: replace training operators by their inference-time arithmetic."""

from __future__ import annotations

from tvm_disc.relay.expr import Call, Expr, Function, TupleGetItem
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.rules import Rule, Site, attrs_of, op_call, op_name, scalar


def _channels_last(value: Expr, axis: int, rank: int, over: int = 1) -> Expr:
    """Return ``value``, which has ``over`` axes from ``axis`` on, expanded for broadcasting."""
    behind = rank - axis - over
    return op_call("expand_dims", value, axis=over, num_newaxis=behind) if behind > 0 else value


def _affine(data: Expr, attrs: dict[str, object], gamma: Expr, beta: Expr) -> Expr:
    if attrs["scale"]:
        data = op_call("multiply", data, gamma)
    return op_call("add", data, beta) if attrs["center"] else data


def _batch_norm(before: Call, made: Call, types: KnownTypes) -> Expr | None:
    """Return ``x * scale + shift``, both computed from the moments."""
    data, gamma, beta, mean, variance = made.args
    rank, dtype = types.rank(before.args[0]), types.dtype(before.args[0])
    if rank is None or dtype is None:
        return None
    attrs = attrs_of(made)
    axis = attrs["axis"] % rank
    wide = types.dtype(before.args[3]) or dtype
    root = op_call("sqrt", op_call("add", variance, scalar(attrs["epsilon"], wide)))
    scale: Expr = op_call("divide", scalar(1, wide), root)
    if attrs["scale"]:
        scale = op_call("multiply", scale, gamma)
    shift: Expr = op_call("multiply", op_call("negative", mean), scale)
    if attrs["center"]:
        shift = op_call("add", shift, beta)
    if wide != dtype:
        data = op_call("cast", data, dtype=wide)
    product = op_call("multiply", data, _channels_last(scale, axis, rank))
    out = op_call("add", product, _channels_last(shift, axis, rank))
    return out if wide == dtype else op_call("cast", out, dtype=dtype)


def _normalized(site: Site, data: Expr, axes: tuple[int, ...]) -> Expr:
    """Return the data minus its mean along ``axes``, divided by the standard deviation."""
    dtype = site.dtype() or "float32"
    mean = op_call("mean", data, axis=axes, keepdims=True)
    variance = op_call("variance", data, mean, axis=axes, keepdims=True)
    moved = op_call("add", variance, scalar(site.attrs["epsilon"], dtype))
    return op_call("divide", op_call("subtract", data, mean), op_call("sqrt", moved))


def _layer_norm(site: Site) -> Expr | None:
    rank = site.rank(0)
    if rank is None:
        return None
    axis = site.attrs["axis"] % rank
    data, gamma, beta = site.args
    sides = (_channels_last(v, axis, rank) for v in (gamma, beta))
    return _affine(_normalized(site, data, (axis,)), site.attrs, *sides)


def _instance_norm(site: Site) -> Expr | None:
    rank = site.rank(0)
    if rank is None:
        return None
    axis = site.attrs["axis"] % rank
    data, gamma, beta = site.args
    axes = tuple(i for i in range(1, rank) if i != axis)
    sides = (_channels_last(v, axis, rank) for v in (gamma, beta))
    return _affine(_normalized(site, data, axes), site.attrs, *sides)


def _group_norm(site: Site) -> Expr | None:
    shape = site.shape(0)
    if shape is None:
        return None
    attrs, (data, gamma, beta) = site.attrs, site.args
    axis, groups = attrs["axis"] % len(shape), attrs["num_groups"]
    parted = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    axes = tuple(range(axis + 1, len(parted)))
    inside = _normalized(site, op_call("reshape", data, newshape=parted), axes)
    out = op_call("reshape", inside, newshape=shape)
    sides = (_channels_last(v, axis, len(shape)) for v in (gamma, beta))
    return _affine(out, attrs, *sides)


def _l2_normalize(site: Site) -> Expr | None:
    dtype = site.dtype()
    if dtype is None:
        return None
    data = site.args[0]
    axis = site.attrs["axis"]
    square = op_call("sum", op_call("multiply", data, data), axis=axis, keepdims=True)
    least = op_call("maximum", square, scalar(site.attrs["eps"], dtype))
    return op_call("divide", data, op_call("sqrt", least))


RULES: dict[str, Rule] = {
    "nn.layer_norm": _layer_norm,
    "nn.instance_norm": _instance_norm,
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
}


def simplify_inference(func: Function) -> Function:
    """Replace norms by their arithmetic and remove dropout."""
    types = KnownTypes(func)

    def leave(before: Expr, made: Expr) -> Expr:
        if isinstance(before, TupleGetItem) and isinstance(made, TupleGetItem) and made.index == 0:
            return _first_of(before.tuple_value, made)
        if isinstance(before, Call) and isinstance(made, Call) and op_name(made) in RULES:
            return RULES[op_name(made)](Site(before, made, types)) or made
        return made

    def _first_of(before: Expr, made: TupleGetItem) -> Expr:
        call = made.tuple_value
        if not isinstance(call, Call) or not isinstance(before, Call):
            return made
        if op_name(call) == "nn.dropout":
            return call.args[0]
        if op_name(call) == "nn.batch_norm":
            return _batch_norm(before, call, types) or made
        return made

    result = rewrite_post_order(func, leave)
    assert isinstance(result, Function)
    return result


__all__ = ["simplify_inference"]
