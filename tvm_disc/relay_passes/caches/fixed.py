"""Caches of a fixed size: inputs in which a scatter or a slice write replaces elements, and which
are also results.

    before   f(x, past[b, h, c, d], ...):      now = scatter(past, at, new);  return ..., now
    after    f(x, past[b, h, c, d], ...):      now = update(past, new, at)    # writes into past

The scatter may write into a view or permutation of the input, if the result has the shape and axis
order of the input: ``permute(scatter(permute(past), at, new))``. PyTorch's ``index_copy`` along an
inner axis has this form.

Nothing but the scatter may read the input, directly or through views, so that no kernel needs the
old elements. Data flow ensures that all readers of the scatter's result run after the update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.core_ops import CORE, OpClass
from tvm_disc.relay.expressions import variables
from tvm_disc.relay.kernel_ops import (
    CHECKED,
    UPDATE,
    UPDATE_ND,
    UPDATE_SLICE,
    WRITE_SLICE,
    kernel_call,
)
from tvm_disc.relay_passes.rewrite import is_call
from tvm_disc.shape import Solver
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Binding, Expr, TVMFunction, Var

Values: TypeAlias = Mapping[Var, Binding]

REDUCTIONS = ("update", "add", "mul", "min", "max")


@dataclass(frozen=True)
class FixedCache:
    """An input that the scatter or slice write ``binding`` updates.

    The data operand is ``base``, which is the input or a view of it, with its axes permuted to the
    order ``axes``. ``result`` is the position of the updated input among the results. ``dead`` is
    the selection of old and new elements, which nothing else reads.
    """

    param: Var
    binding: Binding
    base: Var
    axes: tuple[int, ...]
    result: int
    dead: Var | None = None

    def update(self) -> list[Binding]:
        """Return the bindings that replace the scatter."""
        var, call = self.binding.var, self.binding.value
        attrs: dict[str, object] = {"reduction": _reduction(call), "axes": [*self.axes]}
        name = UPDATE_ND
        *_, indices, new = call.args
        if is_call(call, "scatter_elements"):
            name, attrs["axis"] = UPDATE, int(call.attrs.axis) % len(self.axes)
        elif _writes(call):
            name, (new, indices) = UPDATE_SLICE, (indices, new)
            attrs |= {"along": [*call.attrs["along"]], "wraps": bool(call.attrs["wraps"])}
        dims, dtype = [i64(d) for d in self.base.ty.shape.values], str(var.ty.dtype)
        made = kernel_call(name, [self.base, new, indices], dims, dtype, **attrs)
        relax.expr._update_type(made, relax.TensorType(dims, dtype))
        if self.axes == tuple(range(len(self.axes))):
            return [relax.VarBinding(var, made)]
        whole = relax.Var(f"{self.param.name}_updated", made.ty)
        permuted = R.permute_dims(whole, list(self.axes))
        relax.expr._update_type(permuted, var.ty)
        return [relax.VarBinding(whole, made), relax.VarBinding(var, permuted)]


@dataclass(frozen=True)
class _Form:
    """The form of a value: ``base`` with its axes permuted to the order ``axes``."""

    base: Var
    axes: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether the axes are not permuted, so that the elements have the order of the input."""
        return self.axes == tuple(range(len(self.axes)))


class FixedCaches:
    """The inputs of a function that can be updated in place, and why other inputs cannot."""

    def __init__(self, main: TVMFunction, results: Sequence[Expr], solver: Solver) -> None:
        self.solver, self.results = solver, results
        top = [b for block in main.body.blocks for b in block.bindings]
        self.values: Values = {b.var: b for b in top}
        self.params = set(main.params)
        self.users: dict[Var, list[Binding]] = {}
        self.uses: Counter[Var] = Counter()
        for binding in top:
            read = [*variables(binding.value)]
            self.uses.update(read)
            for var in dict.fromkeys(read):
                self.users.setdefault(var, []).append(binding)
        self.found: dict[Var, FixedCache] = {}
        self.refused: dict[Var, str] = {}
        for binding in top:
            if any(is_call(binding.value, name) for name in ("scatter_elements", "scatter_nd")):
                self._add(binding, binding.value.args[0])
            elif _writes(binding.value):
                self._add(binding, binding.value.args[1])

    def _add(self, binding: Binding, data: Var) -> None:
        """Add the input that is the data operand of ``binding`` to ``found`` or ``refused``."""
        chain = [*self._chain(data)]
        param = chain[-1]
        if param not in self.params or not isinstance(param.ty, relax.TensorType):
            return
        found = self._cache(param, chain, binding)
        if isinstance(found, str):
            self.refused.setdefault(param, found)
        else:
            self.found[param] = found

    def _chain(self, var: Var) -> Iterator[Var]:
        """Yield a value, then its source through one view or permutation, and so on."""
        yield var
        while var in self.values and _moves(self.values[var].value):
            var = self.values[var].value.args[0]
            yield var

    def _cache(self, param: Var, chain: Sequence[Var], binding: Binding) -> FixedCache | str:
        if (other := self._other_use(chain, binding)) is not None:
            return other
        if (how := _reduction(binding.value)) not in REDUCTIONS:
            return f"expected one of the reductions {', '.join(REDUCTIONS)}, found {how!r}"
        if str(param.ty.dtype) == "bfloat16" and how in ("add", "mul"):
            return f"reduction {how!r} would round a bfloat16 cache after each row"
        form = self._arranged(_Form(param, _plain(param)), chain[-2::-1])
        if form is None:
            return "the scatter reads a reordered copy of it"
        position = self._position(param, form, binding.var)
        if isinstance(position, str):
            return position
        dead = binding.value.args[0] if _writes(binding.value) else None
        return FixedCache(param, binding, form.base, form.axes, position, dead)

    def _other_use(self, chain: Sequence[Var], binding: Binding) -> str | None:
        """Return a description of a use of the old elements by anything but the scatter."""
        readers = [binding, *(self.values[v] for v in chain[:-1])]
        dead = self._selection(binding)
        for var, reader in zip(chain, readers, strict=True):
            if self._returned(var):
                return "the model also returns it unchanged"
            users = [b for b in self.users[var] if b is not dead]
            other = next((b for b in users if b is not reader), None)
            if other is not None:
                return f"it is also read by {_described(other)}"
            if self.uses[var] > len(self.users[var]):
                return f"it is read twice by {_described(reader)}"
        return None

    def _selection(self, binding: Binding) -> Binding | None:
        """Return the binding that selects the result of a write, if only the write reads it."""
        found = self.values.get(binding.value.args[0]) if _writes(binding.value) else None
        if found is None or self.uses[found.var] > 1 or self._returned(found.var):
            return None
        return found

    def _returned(self, var: Var) -> bool:
        return any(var in set(variables(r)) for r in self.results)

    def _position(self, param: Var, form: _Form, scatter: Var) -> int | str:
        """Return the position of the scatter's result among the results, or why there is none.

        The result must have the shape and the axis order of the input.
        """
        at = []
        for position, result in enumerate(self.results):
            if not isinstance(result, tvm.ir.Var):
                continue
            chain = [*self._chain(result)]
            if scatter not in chain:
                continue
            moved = self._arranged(form, chain[: chain.index(scatter)][::-1])
            if moved is not None and moved.is_plain and self._same_type(result, param):
                at.append(position)
        if not at:
            return "the model does not return the updated input in the layout of the input"
        if len(at) > 1:
            return f"results {at[0]} and {at[1]} are both the updated cache"
        return at[0]

    def _arranged(self, form: _Form, steps: Sequence[Var]) -> _Form | None:
        """Return the form after views and permutations, or None if the value is not a permutation
        of one base.
        """
        for var in steps:
            call = self.values[var].value
            if is_call(call, "permute_dims"):
                order = call.attrs.axes
                order = range(len(form.axes))[::-1] if order is None else [int(a) for a in order]
                form = _Form(form.base, tuple(form.axes[a] for a in order))
            elif form.is_plain:
                form = _Form(var, _plain(var))
            elif not self._same_type(call.args[0], var):
                return None
        return form

    def _same_type(self, one: Var, other: Var) -> bool:
        a, b = one.ty, other.ty
        return str(a.dtype) == str(b.dtype) and bool(
            self.solver.known_same_shape(a.shape.values, b.shape.values)
        )


def results_of(main: TVMFunction, values: Values) -> list[Expr]:
    """Return the results of a function: the fields of the tuple that it returns, or its value."""
    body = main.body.body
    while body in values and not isinstance(values[body].value, tvm.ir.Tuple):
        if not isinstance(values[body].value, tvm.ir.Var):
            return [body]
        body = values[body].value
    body = values[body].value if body in values else body
    return list(body.fields) if isinstance(body, tvm.ir.Tuple) else [body]


def _plain(var: Var) -> tuple[int, ...]:
    return tuple(range(len(var.ty.shape.values)))


def _writes(call: Expr) -> bool:
    """Return whether ``call`` is a ``disc.write_slice``."""
    return getattr(getattr(call, "op", None), "name", "") == WRITE_SLICE


def _reduction(call: Expr) -> str:
    """Return how a scatter or a write combines old and new elements."""
    return "update" if _writes(call) else str(call.attrs.reduction)


def _moves(call: Expr) -> bool:
    """Return whether a value is a view or a permutation of its first operand."""
    name = str(call.op.name) if isinstance(call, tvm.ir.Call) and hasattr(call.op, "name") else ""
    row = CORE.get(name)
    return name == "relax.permute_dims" or (row is not None and row.cls is OpClass.VIEW)


def _described(binding: Binding) -> str:
    """Return a description of a binding for the user."""
    value = binding.value
    if not isinstance(value, tvm.ir.Call):
        return f"'{binding.var.name}'"
    name = str(getattr(value.op, "name", "") or getattr(value.op, "name_hint", ""))
    return f"operator '{name.split('.')[-1]}'"


def checks_first(bindings: Sequence[Binding], params: Sequence[Var]) -> list[Binding]:
    """Return the bindings in an order in which checks of data precede the updates in place.

    A call that fails in such a check has then changed no cache. A check that depends on the result
    of an update is not moved.
    """
    made: dict[Expr, Binding] = {}
    for binding in bindings:
        made[binding.var] = binding
        for symbol in free_symbols(_dims(binding.var)):
            made.setdefault(symbol, binding)
    for param in params:
        for symbol in free_symbols(_dims(param)):
            made.pop(symbol, None)
    needs: dict[Binding, set[Binding]] = {}  # all bindings that a binding depends on
    late: set[Binding] = set()  # updates, and bindings that depend on one
    first: set[Binding] = set()
    for binding in bindings:
        read = {made[v] for v in (*variables(binding.value), *_symbols(binding)) if v in made}
        read.discard(binding)
        needs[binding] = read.union(*(needs.get(r, ()) for r in read))
        name = getattr(getattr(binding.value, "op", None), "name", "")
        if name in (UPDATE, UPDATE_ND, UPDATE_SLICE) or read & late:
            late.add(binding)
        elif name == CHECKED:
            first |= {binding, *needs[binding]}
    return [b for b in bindings if b in first] + [b for b in bindings if b not in first]


def _symbols(binding: Binding) -> list[Expr]:
    return free_symbols(_dims(binding.var))


def _dims(var: Var) -> list[Expr]:
    """Return the dims of a variable."""
    shape = getattr(var.ty, "shape", None)
    values = getattr(var.ty, "values", None) if shape is None else getattr(shape, "values", None)
    return [*(values or ())]


__all__ = ["FixedCache", "FixedCaches", "checks_first", "results_of"]
