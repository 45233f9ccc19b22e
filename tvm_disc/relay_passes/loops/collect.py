"""``CollectInPlace``: write the rows that a loop collects directly into a buffer.

    before   loop(t < n):  rows = concat(rows, new[c, w])        # copies all rows so far
    after    buffer[n * c, w]; loop(t < n):  buffer = append(buffer, new) from row t * c on

The buffer is allocated before the loop. Its size is known, because the loop counts from 0 to a
size.

needs: only the next iteration reads the concatenation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import cast

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_disc.graph.nodes import Node, const_node, like_blocks, static_dim
from tvm_disc.relay.expressions import variables
from tvm_disc.relay_passes.loops.buffers import append, blank, read_sizes
from tvm_disc.relay_passes.loops.form import StepLoop, branch_of, loop_call
from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.rewrite import Sequence_, bindings_of, counted_size, with_functions
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import (
    Binding,
    Expr,
    GlobalVar,
    PassContext,
    TVMFunction,
    TVMModule,
    TVMType,
    Var,
)


def CollectInPlace(solver: Solver | None = None) -> object:
    """Return a module pass that writes collected rows directly into buffers."""

    def collect(mod: TVMModule, ctx: PassContext) -> object:
        known = solver_of(mod, solver)
        found: list[_Collecting] = []
        for func in mod.functions.values():
            if isinstance(func, relax.Function):
                found += _loops(mod, func, known)
        return _changed(mod, found, known) if found else mod

    return tvm.transform.module_pass(collect, opt_level=0, name="CollectInPlace")


@dataclass(eq=False)
class _Collecting:
    """A loop with collected rows.

    Attributes:
        binding: the binding of the call.
        rows: the rows that an iteration appends, by parameter.
        times: the number of iterations.
    """

    loop: StepLoop
    func: TVMFunction
    binding: Binding
    rows: dict[int, Node]
    times: Expr


def _loops(mod: TVMModule, caller: TVMFunction, solver: Solver) -> list[_Collecting]:
    """Return the loops that a function calls and that collect rows."""
    top = [b for block in caller.body.blocks for b in block.bindings]
    values: dict[Expr, Expr] = {b.var: b.value for b in top}
    found = []
    for binding in top:
        call = binding.value
        if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.GlobalVar):
            continue
        func = mod[call.op]
        loop = StepLoop.read(func, call) if isinstance(func, relax.Function) else None
        times = None if loop is None else _times(loop, values)
        if loop is None or times is None or _calls(mod, call.op) != 2:
            continue
        rows = {k: y for k in range(len(loop.params)) if (y := _collected(loop, k)) is not None}
        if rows:
            size = solver.simplify(tirx.max(times, i64(0)))
            found.append(_Collecting(loop, func, binding, rows, size))
    return found


def _calls(mod: TVMModule, gv: GlobalVar) -> int:
    """Return the number of calls of a function in a module: 2 for a loop with one caller."""
    values = [b.value for f in mod.functions.values() for b in bindings_of(f)]
    return sum(isinstance(v, tvm.ir.Call) and v.op.same_as(gv) for v in values)


def _times(loop: StepLoop, values: dict[Expr, Expr]) -> Expr | None:
    """Return the number of iterations if the loop counts from 0 to a size, else None."""
    first, limit = (loop.call.args[k] for k in (loop.counter, loop.limit))
    counter = loop.nodes.get(loop.again[loop.counter])
    if (
        not _is_number(first, 0)
        or str(first.ty.dtype) != "int64"
        or counter is None
        or not loop.is_fixed(loop.limit)
    ):
        return None
    t = loop.nodes[loop.params[loop.counter]]
    others = [x for x in counter.inputs if x is not t]
    if counter.op != "relax.add" or len(others) != 1 or not _is_number(others[0].expr, 1):
        return None
    if isinstance(limit, tvm.ir.GenericConst):
        return i64(int(_value(limit)))
    return counted_size(limit, values)


def _is_number(expr: Expr, number: int) -> bool:
    """Return whether an expression is a scalar literal of this value."""
    if not isinstance(expr, tvm.ir.GenericConst):
        return False
    value = _value(expr)
    return value.size == 1 and int(value.reshape(-1)[0]) == number


def _value(expr: Expr) -> np.ndarray:
    value = const_node(expr).value
    assert value is not None
    return value


def _collected(loop: StepLoop, k: int) -> Node | None:
    """Return the rows that an iteration appends to parameter ``k``, which is empty at first.

    Returns None if an iteration appends no rows, or if another value reads the parameter.
    """
    new, first = loop.appended(k), loop.call.args[k].ty.shape
    if new is None or first is None or static_dim(first.values[0]) != 0:
        return None
    if new is loop.nodes[loop.params[k]] or static_dim(new.shape[0]) is None:
        return None
    old, grown = loop.params[k], loop.again[k]
    readers = [b for b in loop.body if old in set(variables(b.value))]
    later = [b for b in loop.body if grown in set(variables(b.value))]
    again = [x for x in loop.again if x.same_as(grown) or x.same_as(old)]
    return new if len(readers) == 1 and not later and len(again) == 1 else None


def _changed(mod: TVMModule, loops: Sequence[_Collecting], solver: Solver) -> TVMModule:
    functions, numbers = dict(mod.functions_items()), count(1)
    for found in loops:
        gv = relax.GlobalVar(found.loop.call.op.name_hint)
        func, initial = _with_buffers(found, gv, solver, numbers)
        del functions[found.loop.call.op]
        functions[gv] = func
        for caller, old in list(functions.items()):
            if isinstance(old, relax.Function) and found.binding.var in _top(old):
                functions[caller] = _calling(old, found.binding, gv, initial)
    return with_functions(mod, functions)


def _top(func: TVMFunction) -> set[Var]:
    return {b.var for block in func.body.blocks for b in block.bindings}


def _calling(
    func: TVMFunction, binding: Binding, gv: GlobalVar, initial: tuple[list[Binding], list[Expr]]
) -> TVMFunction:
    """Return the caller with the call of a changed loop."""
    before, arguments = initial
    bindings = []
    for b in (b for block in func.body.blocks for b in block.bindings):
        if b.var.same_as(binding.var):
            call = loop_call(gv, arguments, b.value.ty)
            bindings += [*before, relax.VarBinding(b.var, call)]
        else:
            bindings.append(b)
    return _with_body(func, list(func.params), bindings)


def _with_body(func: TVMFunction, params: list[Var], bindings: Sequence[Binding]) -> TVMFunction:
    seq = relax.SeqExpr(like_blocks(func.body.blocks, list(bindings)), func.body.body)
    return relax.Function(params, seq, func.ret_ty, func.is_pure, func.attrs)


def _with_buffers(
    found: _Collecting, gv: GlobalVar, solver: Solver, numbers: Iterator[int]
) -> tuple[TVMFunction, tuple[list[Binding], list[Expr]]]:
    """Return the loop over buffers, and (bindings of the buffers, arguments of its call)."""
    loop, out = found.loop, Sequence_(solver, {})
    params, arguments = list(loop.params), list(loop.call.args)
    for k, rows in found.rows.items():
        param, total = params[k], found.times * i64(rows.shape[0])
        _, *rest = param.ty.shape.values
        dtype = str(param.ty.dtype)
        size = solver.symbol(f"{param.name}_capacity", "the rows that a loop collects")
        params[k] = relax.Var(str(param.name), relax.TensorType([size, *rest], dtype))
        _, *outer = loop.call.args[k].ty.shape.values
        arguments[k] = blank(out, [solver.simplify(total), *outer], dtype, next(numbers)).var
    test, branch, *tail = [b for block in found.func.body.blocks for b in block.bindings]
    ty = branch.var.ty
    again = _iteration(found, params, gv, ty, solver)
    done = relax.Tuple([params[k] for k in loop.results])
    chosen = relax.If(branch.value.cond, again, branch_of([], done, ty))
    relax.expr._update_type(chosen, ty)
    func = _with_body(found.func, params, [test, relax.VarBinding(branch.var, chosen), *tail])
    relax.expr._update_type(gv, func.ty)
    return func, (out.bindings, arguments)


def _iteration(
    found: _Collecting, params: Sequence[Var], gv: GlobalVar, ty: TVMType, solver: Solver
) -> Expr:
    """Return the branch that computes an iteration and calls the loop again."""
    loop, again = found.loop, list(found.loop.again)
    dropped = {loop.again[k] for k in found.rows}
    body = [b for b in loop.body if b.var not in dropped]
    out = Sequence_(solver, cast("dict[Var, Node]", loop.nodes))
    [step] = read_sizes(out, [loop.nodes[loop.params[loop.counter]]], ["step"])
    for k, rows in found.rows.items():
        shape, dtype = tuple(params[k].ty.shape.values), str(params[k].ty.dtype)
        buffer = Node("param", (), shape, dtype, var=params[k])
        out.lookup[params[k]] = buffer
        again[k] = append(out, buffer, rows, solver.simplify(step * i64(rows.shape[0]))).var
    return branch_of([*body, *out.bindings], loop_call(gv, again, ty), ty)


__all__ = ["CollectInPlace"]
