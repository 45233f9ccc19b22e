"""Final steps after the walk: dead bindings, guards, and the type of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import is_tensor
from tvm_disc.relay.expressions import variables
from tvm_disc.shape.facts import Guard
from tvm_disc.typing import Binding, Expr, GlobalVar, SeqExpr, TVMType, Var

CHECKS = "guard"


def sequence(blocks: Sequence[Any], body: Expr) -> SeqExpr:
    """Return a sequence with its type."""
    made = relax.SeqExpr(list(blocks), body)
    if made.ty.is_missing():
        relax.expr._update_type(made, body.ty)
    return made


def drop_dead(blocks: Sequence[Any], body: Expr) -> list[Any]:
    """Return the blocks without unused pure bindings."""
    used: set[object] = {*variables(body)}
    kept_blocks = []
    for block in reversed(blocks):
        kept = []
        for binding in reversed(block.bindings):
            if binding.var in used or not _is_pure(binding):
                used.update(variables(binding.value))
                _shape_reads(binding, used)
                kept.append(binding)
        if kept:
            kept_blocks.append(type(block)(list(reversed(kept))))
    return list(reversed(kept_blocks))


def _shape_reads(binding: Binding, used: set[object]) -> None:
    """Mark variables of the body that occur in a type, such as a scalar used as a dim."""
    ty = binding.var.ty
    if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
        for d in ty.shape.values:
            used.update(tirx.analysis.undefined_vars(d))


def _is_pure(binding: Binding) -> bool:
    """Return whether a binding is pure; a ``match_cast`` is not, because it checks or binds
    symbols.
    """
    if isinstance(binding, relax.MatchCast):
        return False
    value = binding.value
    if isinstance(value, tvm.ir.Call):
        if not isinstance(value.op, tvm.ir.Op):
            return False
        return bool(value.op.get_attr("FPurity"))
    return not isinstance(value, relax.If)


def emit_guards(guards: Sequence[Guard], blocks: Sequence[object]) -> list[object]:
    """Return blocks that begin with a block of run-time checks for the guards.

    TVM has no assertion in pure functions except a shape match. The matched value is 0 if the guard
    holds, and 1 otherwise.
    """
    checks = [binding for guard in guards for binding in _check(guard)]
    return [relax.BindingBlock(checks), *blocks] if checks else list(blocks)


def _check(guard: Guard) -> list[Binding]:
    """Return bindings that raise an error at run time if a guard does not hold."""
    zero, one = tirx.IntImm("int64", 0), tirx.IntImm("int64", 1)
    # Bind the shape to a variable: TVM's virtual machine does not compute expressions of a shape
    # inside a match_cast.
    shape = relax.ShapeExpr([tirx.if_then_else(guard.cond, zero, one)])
    computed = relax.Var(CHECKS, shape.ty)
    ty = relax.ShapeType([zero])
    checked = relax.MatchCast(relax.Var(CHECKS, ty), computed, ty)
    return [relax.VarBinding(computed, shape), checked]


def with_checks(main: GlobalVar, guards: Sequence[Guard]) -> object:
    """Return a function that checks each guard once the dims in it are known.

    Raises:
        Unsupported: a guard depends on dims that only a branch or a called function has.
    """
    known: set[object] = set()
    for p in main.params:
        _bare(p.ty, known)
    waiting = [g for g in guards if not known.issuperset(g.symbols)]
    blocks = emit_guards([g for g in guards if known.issuperset(g.symbols)], ())
    for block in main.body.blocks:
        placed: list[object] = []
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
            f"{waiting[0]}: a check inside a branch or a called function is impossible "
            "in a TVM pipeline; compile with tvm_disc.build, or pass portable=False"
        )
    body = sequence(blocks, main.body.body)
    return relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)


def return_type(params: Sequence[Var], ty: TVMType) -> TVMType:
    """Return the type of the result, in which dims may use only symbols of the inputs.

    Of the shape of a tensor with other symbols, only the rank is kept.
    """
    visible: set[Any] = set()
    for p in params:
        _bare(p.ty, visible)
    return _visible(ty, visible)


def _bare(ty: TVMType, found: set[object]) -> None:
    dims = []
    if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
        dims = list(ty.shape.values)
    elif isinstance(ty, relax.ShapeType) and ty.values is not None:
        dims = list(ty.values)
    elif isinstance(ty, relax.TupleType):
        for f in ty.fields:
            _bare(f, found)
    found.update(d for d in dims if isinstance(d, tirx.Var))


def _visible(ty: TVMType, visible: set[Expr]) -> TVMType:
    if isinstance(ty, relax.TupleType):
        return relax.TupleType([_visible(f, visible) for f in ty.fields])
    if is_tensor(ty) and isinstance(ty.shape, relax.ShapeExpr):
        free = {v for d in ty.shape.values for v in tirx.analysis.undefined_vars(d)}
        if not free <= visible:
            return relax.TensorType(dtype=ty.dtype, ndim=int(ty.ndim), vdevice=ty.vdevice)
    return ty


__all__ = ["drop_dead", "emit_guards", "return_type", "sequence", "with_checks"]
