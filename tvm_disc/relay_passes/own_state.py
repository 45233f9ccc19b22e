"""``OwnState``: caches that grow by concatenation become buffers that are extended in place, and
caches of a fixed size are updated in place (``caches/fixed.py``).

    before   f(x, past[b, h, p, d], ...):      now = concat(past, new, axis);  return ..., now
    after    f(x, past[b, h, c, d], ..., past_length[p]):
                 extended = append(past, new)  # writes rows p .. p + n of the buffer
                 now = extended[:, :, : p + n]

With a ``dtype`` of 16 bits, ``append`` rounds the new rows of a float32 cache to this type, and
every read of the buffer is converted back. With ``int8`` a second buffer holds one factor for each
vector along the last axis (the last but one if the cache grows along the last):

                 scale = max(abs(new), axis=-1) / 127
                 extended = append(past, round(new / scale)), append(past_scale, scale)
                 now = extended[:, :, : p + n] * extended_scale[:, :, : p + n]

The caller owns the buffer of a capacity ``c`` and the number ``p`` of rows that are used, which is
the size of a tensor that is never read. A call reads the rows that exist and writes the new ones;
it does not copy the cache. Appending writes rows from p on. Kernels that read the input itself read
only rows before p, so that they may run before or after the append.

A result may be the last rows of the concatenation, ``concat(past, new)[begin:]``. The caller then
drops the rows before ``begin``.

needs: in the main function, a result that is the concatenation of an input and one other tensor, in
this order, or the last rows of this concatenation; or a scatter of new elements into an input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import BadOption, shown
from tvm_disc.graph.nodes import is_tensor, like_blocks, static_dim
from tvm_disc.relay.kernel_ops import APPEND, kernel_call
from tvm_disc.relay_passes.caches.fixed import (
    FixedCache,
    FixedCaches,
    checks_first,
    results_of,
)
from tvm_disc.relay_passes.caches.named import named_inputs
from tvm_disc.relay_passes.module_facts import STATE, solver_of
from tvm_disc.relay_passes.rewrite import bindings_of, is_call, map_functions
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Binding, Expr, PassContext, TVMFunction, TVMModule, Var

Values: TypeAlias = dict[Var, Binding]

DTYPES = ("float16", "bfloat16", "int8")
MOST_ROWS = 1 << 62  # largest window, in rows
LARGEST = 127  # magnitude of the numbers of int8 caches
LEAST = 1e-30  # replaces the largest magnitude of a row of zeros


@dataclass(frozen=True)
class _Grown:
    """An input that a result extends by the concatenation ``binding``.

    The result has the last ``kept`` rows of the concatenation, or all rows if ``kept`` is None.
    """

    param: Var
    binding: Binding
    axis: int
    result: int
    kept: Expr | None = None

    @property
    def rows(self) -> tuple[str, str]:
        """The number of rows before a call, and the number of rows that the result keeps, as
        texts.
        """
        return str(self.used), str(self.kept)

    @property
    def along(self) -> int:
        """The axis of the vectors of an int8 cache that share a factor."""
        rank = len(self.param.ty.shape.values)
        return rank - 1 if self.axis != rank - 1 else rank - 2

    @property
    def used(self) -> Expr:
        """The number of rows of the input."""
        rows: Expr = self.param.ty.shape.values[self.axis]
        return rows


def OwnState(
    names: Sequence[str],
    dtype: str | None = None,
    window: int = 0,
    solver: Solver | None = None,
) -> object:
    """Return a module pass for the inputs whose names match one of ``names`` (``fnmatch``).

    Args:
        dtype: the type of the buffers of growing float32 caches; None keeps float32.
        window: the most rows that a growing cache keeps after a call; 0 keeps those of the result.

    The attribute ``disc.state`` of the main function has a list for each cache: the names of its
    buffer and of its length input, its axis, the number of rows after a call (an expression), the
    name of the buffer of factors (empty if there is none), and the number of rows that are kept (an
    expression, or empty). For a cache of fixed size, all but the first are empty or 0.

    Raises:
        BadOption: a pattern matches no input, or an input that no result extends or updates;
            ``dtype`` is not one of ``DTYPES``, ``window`` is negative, or either is given without
            names of caches that grow.
    """
    if dtype not in (None, *DTYPES):
        found = shown(dtype)
        raise BadOption(f"dtype: expected 'float16', 'bfloat16', 'int8' or None, found {found}")
    if dtype and not names:
        raise BadOption("state_dtype: expected names of caches in state, found none")
    if not isinstance(window, int) or not 0 <= window <= MOST_ROWS:
        raise BadOption(f"window: expected an integer 0 .. {MOST_ROWS}, found {shown(window)}")
    if window and not names:
        raise BadOption("state_window: expected names of caches in state, found none")

    def own(mod: TVMModule, ctx: PassContext) -> object:
        if not names:
            return mod
        main = mod["main"]
        known = solver_of(mod, solver)
        grown, fixed = _chosen(main, names, known)
        for name, given in (("state_dtype", dtype), ("state_window", window)):
            if given and not grown:
                raise BadOption(
                    f"{name}: expected growing caches in state, found only caches of fixed size"
                )
        if window:
            grown = [_limited(g, window) for g in grown]
        changed = _with_buffers(main, grown, fixed, dtype, known)
        return map_functions(mod, lambda f: changed if f.same_as(main) else f)

    return tvm.transform.module_pass(own, opt_level=0, name="OwnState")


def _chosen(
    main: TVMFunction, names: Sequence[str], solver: Solver
) -> tuple[list[_Grown], list[FixedCache]]:
    """Return the caches of the state in input order: those that grow, and those of a fixed size."""
    found = {g.param: g for g in _grown(main, solver)}
    values = {b.var: b for block in main.body.blocks for b in block.bindings}
    updated = FixedCaches(main, results_of(main, values), solver)
    chosen: list[_Grown] = []
    fixed: list[FixedCache] = []
    for param in named_inputs("state", names, main.params):
        if param in found:
            chosen.append(found[param])
        elif param in updated.found:
            fixed.append(updated.found[param])
        elif param in updated.refused:
            raise BadOption(
                f"state: input '{param.name}' cannot be updated in place by the scatter that reads "
                f"it: {updated.refused[param]}"
            )
        else:
            raise BadOption(
                f"state: input '{param.name}' is not a cache: expected a result that is the "
                "concatenation of this input and new rows, in this order, or its last rows, or a "
                "scatter of new elements into this input"
            )
    return chosen, fixed


def _grown(main: TVMFunction, solver: Solver) -> Iterator[_Grown]:
    """Yield the inputs that results extend."""
    top = [b for block in main.body.blocks for b in block.bindings]
    values: Values = {b.var: b for b in top}
    results = results_of(main, values)
    params = {p for p in main.params if is_tensor(p.ty) and p.ty.shape is not None}
    for position, var in enumerate(results):
        if results.count(var) > 1:
            continue
        last = values.get(var) if isinstance(var, tvm.ir.Var) else None
        binding = None if last is None else _sliced(last, values, solver)
        if last is None or binding is None or not is_call(binding.value, "concat"):
            continue
        parts = binding.value.args[0]
        parts = values[parts].value if parts in values else parts
        fields = list(getattr(parts, "fields", ()))
        rank = len(binding.var.ty.shape.values)
        axis = int(binding.value.attrs.axis) % rank
        if len(fields) != 2 or (last is not binding and _axis_of(last) != axis):
            continue
        param = _source(fields[0], values, solver)
        if param in params and static_dim(param.ty.shape.values[axis]) is None:
            kept = None if last is binding else last.var.ty.shape.values[axis]
            yield _Grown(param, binding, axis, position, kept)


def _limited(grown: _Grown, window: int) -> _Grown:
    """Return a cache that keeps at most ``window`` rows."""
    rows = grown.binding.var.ty.shape.values[grown.axis] if grown.kept is None else grown.kept
    return replace(grown, kept=tirx.min(rows, i64(window)))


def _sliced(binding: Binding, values: Values, solver: Solver) -> Binding | None:
    """Return the binding whose last rows ``binding`` slices, or ``binding`` if it is no slice.

    Returns None if the slice does not end with the last row.
    """
    if not is_call(binding.value, "strided_slice"):
        return binding
    whole, axes, _, ends, strides = binding.value.args
    if whole not in values or len(axes.fields) != 1 or static_dim(strides.fields[0]) != 1:
        return None
    rows = whole.ty.shape.values[_axis_of(binding)]
    inside = bool(binding.value.attrs.assume_inbound)
    return values[whole] if inside and solver.known_eq(ends.fields[0], rows) else None


def _axis_of(binding: Binding) -> int:
    """Return the axis of a slice along one axis."""
    return int(static_dim(binding.value.args[1].fields[0]) or 0)


def _source(var: Var, values: Values, solver: Solver) -> Var:
    """Return the variable that ``var`` is a view of with equal dims, or ``var``."""
    while var in values and is_call(values[var].value, "reshape"):
        before = values[var].value.args[0]
        if not solver.known_same_shape(before.ty.shape.values, var.ty.shape.values):
            break
        var = before
    return var


def _with_buffers(
    main: TVMFunction,
    grown: Sequence[_Grown],
    fixed: Sequence[FixedCache],
    dtype: str | None,
    solver: Solver,
) -> TVMFunction:
    """Return the main function over buffers and lengths."""
    values: Values = {b.var: b for b in bindings_of(main)}
    buffers: dict[Var, _Buffer] = {}
    lengths: dict[tuple[str, str], Var] = {}  # (rows before, rows after), as texts -> length
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
        if dtype == "int8" and len(dims) < 2:
            kept = own  # a vector has no rows that share a factor
        buffer = _Buffer(g, relax.Var(name, relax.TensorType(dims, kept)))
        if kept == "int8" and own == "float32":
            short = list(dims)
            short[g.along] = 1
            buffer.scale = relax.Var(f"{name}_scale", relax.TensorType(short, own))
        buffers[g.param] = buffer
        if g.rows not in lengths:
            ty = relax.TensorType([g.used], "int8")
            lengths[g.rows] = relax.Var(f"{name}_length", ty)
        first += buffer.read(g.param, buffer.numbers, buffer.scale, g.used)
        whole = g.binding.var.ty.shape.values[g.axis]
        length, (_, *scales) = str(lengths[g.rows].name), buffer.names
        last: object = "" if g.kept is None else g.kept
        state.append([name, length, g.axis, whole, *(scales or [""]), last])
        state += [[scale, length, g.axis, whole, "", last] for scale in scales]
    state += [[str(f.param.name), "", 0, "", "", ""] for f in fixed]
    extended = {g.binding.var: g for g in grown}
    updates = {f.binding.var: f for f in fixed}
    dead = {f.dead for f in fixed}
    bindings = list(first)
    for block in main.body.blocks:
        for binding in block.bindings:
            cache = extended.get(binding.var)
            if cache is not None:
                bindings += buffers[cache.param].append(lengths[cache.rows], values)
            elif binding.var in updates:
                bindings += updates[binding.var].update()
            elif binding.var not in dead:
                bindings.append(binding)
    dropped = {g.result for g in grown} | {f.result for f in fixed}
    left = [v for k, v in enumerate(results_of(main, values)) if k not in dropped]
    if len(left) == 1:
        body = left[0]
    else:
        body = relax.Var("results", tvm.ir.TupleType([v.ty for v in left]))
        bindings.append(relax.VarBinding(body, relax.Tuple(left)))
    params = [x for p in main.params for x in (buffers[p].inputs if p in buffers else [p])]
    params += lengths.values()
    _check_names(main, params)
    if fixed:
        bindings = checks_first(bindings, params)
    seq = relax.SeqExpr(like_blocks(main.body.blocks, bindings), body)
    made = relax.Function(params, seq, body.ty, main.is_pure, main.attrs)
    result: TVMFunction = made.with_attr(STATE, state)
    return result


def _check_names(main: TVMFunction, params: Sequence[Var]) -> None:
    """Raise BadOption if a new input has the name of an input of the model."""
    own = [str(p.name) for p in main.params]
    counts = Counter(str(p.name) for p in params)
    taken = next((name for name in own if counts[name] > 1), None)
    if taken is not None:
        raise BadOption(
            f"state: expected no input named {taken!r}, which is the name of a new input of the "
            "program; rename it in the model"
        )


class _Buffer:
    """The buffer of a cache, and the buffer of its factors if the cache is quantized."""

    def __init__(self, grown: _Grown, numbers: Var) -> None:
        self.grown, self.numbers = grown, numbers
        self.scale: Var | None = None

    @property
    def names(self) -> list[str]:
        """The names of ``inputs``."""
        return [str(x.name) for x in self.inputs]

    @property
    def inputs(self) -> list[Var]:
        """The inputs of the main function that replace the cache."""
        return [self.numbers] if self.scale is None else [self.numbers, self.scale]

    def read(self, var: Var, numbers: Var, scale: Var | None, end: Expr) -> list[Binding]:
        """Return bindings of ``var`` to the first rows of the buffers, in the dtype of ``var``."""
        name, dtype = var.name, str(var.ty.dtype)
        if str(numbers.ty.dtype) == dtype:
            return [relax.VarBinding(var, self._prefix(numbers, end))]
        steps = _Steps()
        rows = steps.bind(f"{name}_rows", self._prefix(numbers, end))
        wide = _typed(R.astype(rows, dtype), rows.ty.shape.values, dtype)
        if scale is not None:
            wide = steps.bind(f"{name}_numbers", wide)
            factors = steps.bind(f"{name}_factors", self._prefix(scale, end))
            wide = _typed(R.multiply(wide, factors), var.ty.shape.values, dtype)
        return [*steps.bindings, relax.VarBinding(var, wide)]

    def append(self, length: Var, values: Values) -> list[Binding]:
        """Return bindings that append rows, and bind the concatenation to the rows of the
        buffer.
        """
        g = self.grown
        parts = g.binding.value.args[0]
        new = (values[parts].value if parts in values else parts).fields[1]
        steps = _Steps()
        scale = None
        if self.scale is not None:
            new, factors = self._quantized(new, steps)
            scale = self._append(self.scale, factors, length, steps)
        numbers = self._append(self.numbers, new, length, steps)
        whole = g.binding.var.ty.shape.values[g.axis]
        return [*steps.bindings, *self.read(g.binding.var, numbers, scale, whole)]

    def _quantized(self, new: Var, steps: _Steps) -> tuple[Var, Var]:
        """Return int8 numbers and their factors.

        If a row has an infinity or NaN, its factor is infinity or NaN, so that all elements of the
        row are read as infinity or NaN.
        """
        name, dtype = self.numbers.name, str(new.ty.dtype)
        dims = list(new.ty.shape.values)
        short = list(dims)
        short[self.grown.along] = 1

        def const(value: float) -> Expr:
            return relax.const(value, dtype)

        sizes = steps.bind(f"{name}_sizes", _typed(R.abs(new), dims, dtype))
        most = steps.bind(
            f"{name}_most", _typed(R.max(sizes, [self.grown.along], keepdims=True), short, dtype)
        )
        most = steps.bind(f"{name}_most", _typed(R.maximum(most, const(LEAST)), short, dtype))
        factors = _typed(R.divide(most, const(LARGEST)), short, dtype)
        factors = steps.bind(f"{name}_new_factors", factors)
        shares = steps.bind(f"{name}_shares", _typed(R.divide(new, factors), dims, dtype))
        whole = steps.bind(f"{name}_whole", _typed(R.round(shares), dims, dtype))
        low, high = (tirx.FloatImm(dtype, float(v)) for v in (-LARGEST, LARGEST))
        whole = steps.bind(f"{name}_clipped", _typed(R.clip(whole, low, high), dims, dtype))
        return steps.bind(f"{name}_new", _typed(R.astype(whole, "int8"), dims, "int8")), factors

    def _append(self, buffer: Var, new: Var, length: Var, steps: _Steps) -> Var:
        dims, dtype = [i64(d) for d in buffer.ty.shape.values], str(buffer.ty.dtype)
        call = kernel_call(APPEND, [buffer, new, length], dims, dtype, axis=self.grown.axis)
        return steps.bind(f"{buffer.name}_extended", _typed(call, dims, dtype))

    def _prefix(self, buffer: Var, end: Expr) -> Expr:
        """Return the first rows of a buffer."""
        axis = self.grown.axis
        call = R.strided_slice(buffer, [axis], [0], [end], [1], assume_inbound=True)
        dims = list(buffer.ty.shape.values)
        dims[axis] = end
        return _typed(call, dims, str(buffer.ty.dtype))


class _Steps:
    """Bindings in order."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []

    def bind(self, name: str, value: Expr) -> Var:
        """Add a binding; return its variable."""
        var = relax.Var(name, value.ty)
        self.bindings.append(relax.VarBinding(var, value))
        return var


def _typed(value: Expr, dims: Sequence[Expr], dtype: str) -> Expr:
    relax.expr._update_type(value, relax.TensorType(list(dims), dtype))
    return value


__all__ = ["DTYPES", "OwnState"]
