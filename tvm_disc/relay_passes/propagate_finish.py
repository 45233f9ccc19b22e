"""What remains after the walk: dead bindings, guards, the type of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import is_tensor
from tvm_disc.shape.facts import Guard

CHECKS = "guard"


def sequence(blocks: Sequence[Any], body: Any) -> Any:
    """A sequence with its type."""
    made = relax.SeqExpr(list(blocks), body)
    if made.ty.is_missing():
        relax.expr._update_type(made, body.ty)
    return made


def drop_dead(blocks: Sequence[Any], body: Any) -> list[Any]:
    """Blocks without pure bindings that nothing reads."""
    used: set[Any] = set()

    def look(e: Any) -> None:
        if isinstance(e, tvm.ir.Var):
            used.add(e)

    relax.analysis.post_order_visit(body, look)
    kept_blocks = []
    for block in reversed(blocks):
        kept = []
        for binding in reversed(block.bindings):
            if binding.var in used or not _is_pure(binding):
                relax.analysis.post_order_visit(binding.value, look)
                _shape_reads(binding, used)
                kept.append(binding)
        if kept:
            kept_blocks.append(type(block)(list(reversed(kept))))
    return list(reversed(kept_blocks))


def _shape_reads(binding: Any, used: set[Any]) -> None:
    """Variables of the body that stand in a type, such as a scalar used as a dim."""
    ty = binding.var.ty
    if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
        for d in ty.shape.values:
            used.update(tirx.analysis.undefined_vars(d))


def _is_pure(binding: Any) -> bool:
    """A ``match_cast`` checks, or binds symbols: it stays."""
    if isinstance(binding, relax.MatchCast):
        return False
    value = binding.value
    if isinstance(value, tvm.ir.Call):
        if not isinstance(value.op, tvm.ir.Op):
            return False
        return bool(value.op.get_attr("FPurity"))
    return not isinstance(value, relax.If)


def emit_guards(guards: Sequence[Guard], blocks: Sequence[Any]) -> list[Any]:
    """Guards as run-time checks in a block of their own, before anything else.

    TVM has no assertion inside pure functions, but a shape that must match: 0 where the guard
    holds, and 1 where it does not.
    """
    checks = [binding for guard in guards for binding in _check(guard)]
    return [relax.BindingBlock(checks), *blocks] if checks else list(blocks)


def _check(guard: Guard) -> list[Any]:
    """Bindings that fail where a guard does not hold."""
    zero, one = tirx.IntImm("int64", 0), tirx.IntImm("int64", 1)
    # The virtual machine computes shapes that are bound, not those inside a match_cast.
    shape = relax.ShapeExpr([tirx.if_then_else(guard.cond, zero, one)])
    computed = relax.Var(CHECKS, shape.ty)
    ty = relax.ShapeType([zero])
    checked = relax.MatchCast(relax.Var(CHECKS, ty), computed, ty)
    return [relax.VarBinding(computed, shape), checked]


def with_checks(main: Any, guards: Sequence[Guard]) -> Any:
    """A function that checks each guard as soon as the dims it speaks of are known.

    Raises:
        Unsupported: a guard on dims that only a branch or a called function knows.
    """
    known: set[Any] = set()
    for p in main.params:
        _bare(p.ty, known)
    waiting = [g for g in guards if not known.issuperset(g.symbols)]
    blocks = emit_guards([g for g in guards if known.issuperset(g.symbols)], ())
    for block in main.body.blocks:
        placed: list[Any] = []
        for binding in block.bindings:
            placed.append(binding)
            if isinstance(binding, relax.MatchCast):
                _bare(binding.ty, known)
                ready = [g for g in waiting if known.issuperset(g.symbols)]
                placed += [b for guard in ready for b in _check(guard)]
                waiting = [g for g in waiting if g not in ready]
        blocks.append(type(block)(placed))
    if waiting:
        raise Unsupported(
            f"{waiting[0]}: a check inside of a branch or of a function that is called cannot "
            "stand in a pipeline of TVM's; compile with tvm_disc.build, or pass portable=False"
        )
    body = sequence(blocks, main.body.body)
    return relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)


def return_type(params: Sequence[Any], ty: Any) -> Any:
    """The type of the result as a caller may see it: dims over symbols of inputs only."""
    visible: set[Any] = set()
    for p in params:
        _bare(p.ty, visible)
    return _visible(ty, visible)


def _bare(ty: Any, found: set[Any]) -> None:
    dims = []
    if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
        dims = list(ty.shape.values)
    elif isinstance(ty, relax.ShapeType) and ty.values is not None:
        dims = list(ty.values)
    elif isinstance(ty, relax.TupleType):
        for f in ty.fields:
            _bare(f, found)
    found.update(d for d in dims if isinstance(d, tirx.Var))


def _visible(ty: Any, visible: set[Any]) -> Any:
    if isinstance(ty, relax.TupleType):
        return relax.TupleType([_visible(f, visible) for f in ty.fields])
    if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
        free = {v for d in ty.shape.values for v in tirx.analysis.undefined_vars(d)}
        if not free <= visible:
            return relax.TensorType(dtype=ty.dtype, ndim=int(ty.ndim), vdevice=ty.vdevice)
    return ty


__all__ = ["drop_dead", "emit_guards", "return_type", "sequence", "with_checks"]
