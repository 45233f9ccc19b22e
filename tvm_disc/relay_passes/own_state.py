"""``OwnState``: caches that grow by concatenation become buffers that are extended in place.

    before   f(x, past[b, h, p, d], ...):      now = concat(past, new, axis);  return ..., now
    after    f(x, past[b, h, c, d], ..., past_length[p]):
                 extended = append(past, new)  # writes rows p .. p + n of the buffer
                 now = extended[:, :, : p + n]

With a ``dtype`` of 16 bits, ``append`` rounds the new rows of a float32 cache to it, and every read
of the buffer is converted back.

The caller owns the buffer of a capacity ``c`` and the number ``p`` of rows that are used, which is
the size of a tensor that is never read. A call reads the rows that exist and writes the new ones;
it does not copy the cache. Appending writes rows from p on, and every other read of the input is of
rows before p, so that no order of kernels is wrong.

needs: a result that is the concatenation of an input and one other tensor, in this order, in the
main function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.relax import op as R

from tvm_disc.errors import BadOption, shown
from tvm_disc.graph.nodes import is_tensor, like_blocks, static_dim
from tvm_disc.relay.kernel_ops import APPEND, kernel_call
from tvm_disc.relay_passes.module_facts import STATE, solver_of
from tvm_disc.relay_passes.rewrite import bindings_of, is_call, map_functions
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Binding, Expr, PassContext, TVMFunction, TVMModule, Var

Values: TypeAlias = dict[Var, Binding]


@dataclass(frozen=True)
class _Grown:
    """An input that a result extends: ``binding`` is the concatenation."""

    param: Var
    binding: Binding
    axis: int
    result: int

    @property
    def used(self) -> Expr:
        """The rows of the input."""
        rows: Expr = self.param.ty.shape.values[self.axis]
        return rows


def OwnState(
    names: Sequence[str], dtype: str | None = None, solver: Solver | None = None
) -> object:
    """Return a module pass for the inputs whose names match one of ``names`` (``fnmatch``).

    Args:
        dtype: the type of the buffers of float32 caches; None keeps float32.

    The attribute ``disc.state`` of the main function lists (buffer, length input, axis) of each
    cache, as texts, and the rows that it has after a call, as an expression.

    Raises:
        BadOption: a pattern matches no input, or an input that no result extends; ``dtype`` is not
            a float type of 16 bits, or is given without ``names``.
    """
    if dtype not in (None, "float16", "bfloat16"):
        found = shown(dtype)
        raise BadOption(f"dtype: expected 'float16', 'bfloat16' or None, found {found}")
    if dtype and not names:
        raise BadOption("state_dtype: expected names of caches in state, found none")

    def own(mod: TVMModule, ctx: PassContext) -> object:
        if not names:
            return mod
        main = mod["main"]
        known = solver_of(mod, solver)
        grown = _chosen(main, names, known)
        changed = _with_buffers(main, grown, dtype, known)
        return map_functions(mod, lambda f: changed if f.same_as(main) else f)

    return tvm.transform.module_pass(own, opt_level=0, name="OwnState")


def _chosen(main: TVMFunction, names: Sequence[str], solver: Solver) -> list[_Grown]:
    """Return the caches to own, in the order of the inputs."""
    found = {g.param: g for g in _grown(main, solver)}
    chosen: list[_Grown] = []
    inputs = [str(p.name) for p in main.params]
    for pattern in names:
        if not any(fnmatchcase(name, pattern) for name in inputs):
            raise BadOption(f"state: no input matches {pattern!r}; the inputs are {inputs}")
    for param in main.params:
        if not any(fnmatchcase(str(param.name), pattern) for pattern in names):
            continue
        if param not in found:
            raise BadOption(
                f"state: input '{param.name}' is not a cache: expected a result that is the "
                "concatenation of this input and new rows, in this order"
            )
        chosen.append(found[param])
    return chosen


def _grown(main: TVMFunction, solver: Solver) -> Iterator[_Grown]:
    """Yield the inputs that results extend."""
    top = [b for block in main.body.blocks for b in block.bindings]
    values: Values = {b.var: b for b in top}
    results = _results(main, values)
    params = {p for p in main.params if is_tensor(p.ty) and p.ty.shape is not None}
    for position, var in enumerate(results):
        binding = values.get(var) if isinstance(var, tvm.ir.Var) else None
        if binding is None or not is_call(binding.value, "concat"):
            continue
        parts = binding.value.args[0]
        parts = values[parts].value if parts in values else parts
        fields = list(getattr(parts, "fields", ()))
        rank = len(binding.var.ty.shape.values)
        axis = int(binding.value.attrs.axis) % rank
        if len(fields) != 2 or results.count(var) > 1:
            continue
        param = _source(fields[0], values, solver)
        if param in params and static_dim(param.ty.shape.values[axis]) is None:
            yield _Grown(param, binding, axis, position)


def _source(var: Var, values: Values, solver: Solver) -> Var:
    """Return the variable that ``var`` is a view of with equal dims, or ``var``."""
    while var in values and is_call(values[var].value, "reshape"):
        before = values[var].value.args[0]
        if not solver.known_same_shape(before.ty.shape.values, var.ty.shape.values):
            break
        var = before
    return var


def _results(main: TVMFunction, values: Values) -> list[Expr]:
    """Return the results of a function: the fields of the tuple that it returns, or its value."""
    body = main.body.body
    while body in values and not isinstance(values[body].value, tvm.ir.Tuple):
        if not isinstance(values[body].value, tvm.ir.Var):
            return [body]
        body = values[body].value
    body = values[body].value if body in values else body
    return list(body.fields) if isinstance(body, tvm.ir.Tuple) else [body]


def _with_buffers(
    main: TVMFunction, grown: Sequence[_Grown], dtype: str | None, solver: Solver
) -> TVMFunction:
    """Return the main function over buffers and lengths."""
    values: Values = {b.var: b for b in bindings_of(main)}
    buffers: dict[Var, Var] = {}
    lengths: dict[str, Var] = {}  # by the text of a dim
    first: list[Binding] = []
    state = []
    for g in grown:
        name = str(g.param.name)
        capacity = solver.symbol(f"{name}_capacity", f"capacity of the cache '{name}'")
        # Reads of the rows in use come before the append, whose guard covers the new rows.
        solver.require_le(g.used, capacity, f"the cache '{name}'")
        dims = list(g.param.ty.shape.values)
        dims[g.axis] = capacity
        own = str(g.param.ty.dtype)
        kept = dtype if dtype and own == "float32" else own
        buffers[g.param] = relax.Var(name, relax.TensorType(dims, kept))
        if str(g.used) not in lengths:
            ty = relax.TensorType([g.used], "int8")
            lengths[str(g.used)] = relax.Var(f"{name}_length", ty)
        first += _prefix(g.param, buffers[g.param], g.axis, g.used)
        whole = g.binding.var.ty.shape.values[g.axis]
        state.append([name, str(lengths[str(g.used)].name), g.axis, whole])
    extended = {g.binding.var: g for g in grown}
    bindings = list(first)
    for block in main.body.blocks:
        for binding in block.bindings:
            cache = extended.get(binding.var)
            if cache is None:
                bindings.append(binding)
            else:
                bindings += _append(cache, buffers[cache.param], lengths[str(cache.used)], values)
    dropped = {g.result for g in grown}
    left = [v for k, v in enumerate(_results(main, values)) if k not in dropped]
    if len(left) == 1:
        body = left[0]
    else:
        body = relax.Var("results", tvm.ir.TupleType([v.ty for v in left]))
        bindings.append(relax.VarBinding(body, relax.Tuple(left)))
    params = [*(buffers.get(p, p) for p in main.params), *lengths.values()]
    seq = relax.SeqExpr(like_blocks(main.body.blocks, bindings), body)
    made = relax.Function(params, seq, body.ty, main.is_pure, main.attrs)
    result: TVMFunction = made.with_attr(STATE, state)
    return result


def _prefix(var: Var, buffer: Var, axis: int, end: Expr) -> list[Binding]:
    """Return bindings of ``var`` to the first rows of a buffer, in the dtype of ``var``."""
    call = R.strided_slice(buffer, [axis], [0], [end], [1], assume_inbound=True)
    ty = relax.TensorType(var.ty.shape, buffer.ty.dtype)
    relax.expr._update_type(call, ty)
    if str(ty.dtype) == str(var.ty.dtype):
        return [relax.VarBinding(var, call)]
    rows = relax.Var(f"{var.name}_rows", ty)
    widened = R.astype(rows, str(var.ty.dtype))
    relax.expr._update_type(widened, var.ty)
    return [relax.VarBinding(rows, call), relax.VarBinding(var, widened)]


def _append(g: _Grown, buffer: Var, length: Var, values: Values) -> list[Binding]:
    parts = g.binding.value.args[0]
    new = (values[parts].value if parts in values else parts).fields[1]
    dims = [i64(d) for d in buffer.ty.shape.values]
    call = kernel_call(APPEND, [buffer, new, length], dims, str(buffer.ty.dtype), axis=g.axis)
    extended = relax.Var(f"{buffer.name}_extended", buffer.ty)
    relax.expr._update_type(call, buffer.ty)
    whole = g.binding.var.ty.shape.values[g.axis]
    return [
        relax.VarBinding(extended, call),
        *_prefix(g.binding.var, extended, g.axis, whole),
    ]


__all__ = ["OwnState"]
