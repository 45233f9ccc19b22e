"""``HoistProducts``: move the matmuls of all steps out of the loop over the steps.

    before   loop(t, h, ..., n, xs) = t < n ? loop(t + 1, f(take(xs, t) @ W, h), ..., n, xs) : ...
             loop(0, ..., rows(xs), xs)
    after    loop(t, h, ..., n, xs, ys) = t < n ? loop(t + 1, f(take(ys, t), h), ...) : ...
             loop(0, ..., rows(xs), xs, xs @ W)

The part of a recurrent cell that reads the input does not depend on the previous step. One matmul
for all steps reads its weights once instead of once per step.

needs: ``W`` is a literal, and the loop provably visits every row once, so that no result is unused.
To prove this, the loop must count from 0 to the number of rows in steps of 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op as R

from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.rewrite import (
    bindings_of,
    counted_size,
    drop_dead,
    is_call,
    rewrite_function,
)
from tvm_disc.shape import Solver
from tvm_disc.typing import Binding, Call, Expr, PassContext, TVMFunction, TVMModule, TVMType, Var


@dataclass
class _Product:
    """``take(rows, step) @ weight`` in a loop; the integer fields are positions of parameters."""

    rows: int
    step: int
    count: int
    taken: Expr
    product: Expr
    weight: Expr


def HoistProducts(solver: Solver | None = None) -> object:
    """Return a module pass; operands that only hoisted matmuls read are removed from the loops."""

    def hoist(mod: Any, ctx: PassContext) -> object:
        known = solver_of(mod, solver)
        hoisted = mod
        while (step := _first(hoisted, known)) is not None:
            hoisted = _hoisted(hoisted, *step)
        return hoisted if hoisted is mod else _tidied(hoisted, mod, known)

    return tvm.transform.module_pass(hoist, opt_level=0, name="HoistProducts")


def _tidied(mod: Any, before: TVMModule, solver: Solver) -> object:
    """Return the module with dead bindings removed from functions that differ from ``before``."""
    old = dict(before.functions_items())
    functions = {
        gv: func if func.same_as(old.get(gv)) else rewrite_function(func, solver, (), [drop_dead])
        for gv, func in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def _first(mod: TVMModule, solver: Solver) -> tuple[Any, Any, Any, _Product] | None:
    """Return (loop, its caller, the call, the matmul) of the first matmul to hoist, or None."""
    functions = {gv: f for gv, f in mod.functions_items() if isinstance(f, relax.Function)}
    for gv, func in functions.items():
        outside = [(g, b) for g, f in functions.items() if g != gv for b in _calls(f, gv)]
        again = [b.value for b in _calls(func, gv)]
        if len(outside) == 1 and again:
            caller, binding = outside[0]
            for found in _products(func, again):
                if _visits_every_row(functions[caller], binding.value, found, solver):
                    return gv, caller, binding.value, found
    return None


def _calls(func: object, gv: object) -> list[Binding]:
    return [b for b in bindings_of(func) if isinstance(b.value, tvm.ir.Call) and b.value.op == gv]


def _products(func: TVMFunction, again: list[Expr]) -> Iterator[_Product]:
    params = list(func.params)
    defined: dict[Any, Any] = {b.var: b.value for b in bindings_of(func)}
    place = {p: k for k, p in enumerate(params)}
    kept = {k for k, p in enumerate(params) if all(c.args[k].same_as(p) for c in again)}
    for value in defined.values():
        if not is_call(value, "matmul") or not isinstance(value.args[1], tvm.ir.GenericConst):
            continue
        taken: Any = defined.get(value.args[0])
        if not is_call(taken, "take") or taken.attrs.axis is None or int(taken.attrs.axis) != 0:
            continue
        rows, step = (place.get(x) for x in taken.args)
        if rows not in kept or step is None or len(value.args[1].ty.shape) != 2:
            continue
        if len(params[rows].ty.shape) < 2 or not all(
            _is_next(defined.get(c.args[step]), params[step]) for c in again
        ):
            continue
        count = _bound(func, params[step], place)
        if count in kept:
            yield _Product(rows, step, count, taken, value, value.args[1])


def _is_next(value: Any, step: Expr) -> bool:
    """Return whether ``value`` is ``step + 1``."""
    if not is_call(value, "add"):
        return False
    a, b = value.args
    return any(x.same_as(step) and _literal(y) == 1 for x, y in ((a, b), (b, a)))


def _literal(expr: Expr) -> int | None:
    scalar = isinstance(expr, tvm.ir.GenericConst) and not len(expr.ty.shape)
    return int(expr.value.numpy()) if scalar and "int" in str(expr.ty.dtype) else None


def _bound(func: TVMFunction, step: Expr, place: dict[Var, int]) -> int | None:
    """Return the position of the parameter ``n`` in a loop, or None.

    The body of ``func`` must have the form ``step < n ? ... recursion ... : result``.
    """
    defined = {b.var: b.value for b in bindings_of(func)}
    for block in func.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.If):
                cond: Any = defined.get(binding.value.cond)
                if is_call(cond, "less") and cond.args[0].same_as(step):
                    return place.get(cond.args[1])
                return None
    return None


def _visits_every_row(caller: TVMFunction, call: Call, found: _Product, solver: Solver) -> bool:
    """Return whether the loop counts from 0 to the number of rows."""
    defined = {b.var: b.value for b in bindings_of(caller)}
    rows = call.args[found.rows]
    if _literal(call.args[found.step]) != 0 or rows.ty.shape is None:
        return False
    size = counted_size(call.args[found.count], defined)
    return size is not None and bool(solver.known_eq(size, rows.ty.shape[0]))


def _hoisted(mod: Any, gv: Any, caller: object, call: Call, found: _Product) -> object:
    loop, outer = mod[gv], mod[caller]
    inner, rows = loop.params[found.rows], call.args[found.rows]
    extra = relax.Var(f"{inner.name}_products", _result(inner, found))
    before = relax.Var("products", _result(rows, found))
    product = _typed(R.matmul(rows, found.weight, found.product.attrs.out_dtype), before)
    fresh = tvm.ir.GlobalVar(gv.name_hint)

    def with_argument(old: Expr, argument: Expr) -> Expr:
        arguments = [*old.args, argument]
        return _typed(tvm.ir.Call(fresh, arguments, old.attrs, old.ty_args, old.span), old)

    def inside(node: Call) -> Expr:
        if node.op == gv:
            return with_argument(node, extra)
        if _same_product(node, found):
            taken = found.taken
            arguments = [extra, taken.args[1]]
            return _typed(tvm.ir.Call(taken.op, arguments, taken.attrs, taken.ty_args), node)
        return node

    body = tvm_ffi.structural_map(loop.body, (tvm.ir.Call, inside), order="post")
    changed = {gv: _like(loop, body, [extra])}
    relax.expr._update_type(fresh, changed[gv].ty)
    blocks = []
    for block in outer.body.blocks:
        bindings: list[object] = []
        for binding in block.bindings:
            if binding.value.same_as(call):
                bindings.append(relax.VarBinding(before, product))
                binding = relax.VarBinding(binding.var, with_argument(call, before))
            bindings.append(binding)
        blocks.append(type(block)(bindings))
    changed[caller] = _like(outer, _typed(relax.SeqExpr(blocks, outer.body.body), outer.body), [])
    functions = {(fresh if g == gv else g): changed.get(g, f) for g, f in mod.functions_items()}
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def _result(rows: Expr, found: _Product) -> TVMType:
    """Return the type of ``rows @ weight``."""
    shape = [*list(rows.ty.shape)[:-1], found.weight.ty.shape[1]]
    return relax.TensorType(shape, found.product.ty.dtype)


def _typed(expr: Expr, like: Expr) -> Expr:
    relax.expr._update_type(expr, like.ty)
    return expr


def _like(func: Any, body: Expr, extra: list[Expr]) -> Expr:
    """Return ``func`` with ``body`` as its body, and with the additional parameters ``extra``."""
    params = [*func.params, *extra]
    return relax.Function(params, body, func.ret_ty, func.is_pure, func.attrs, func.span)


def _same_product(node: Call, found: _Product) -> bool:
    return (
        is_call(node, "matmul")
        and node.args[0].same_as(found.product.args[0])
        and node.args[1].same_as(found.weight)
    )


__all__ = ["HoistProducts"]
