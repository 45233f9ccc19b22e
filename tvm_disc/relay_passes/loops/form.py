"""The form of a loop that counts its steps.

loop(n, x, t, h, rows) = if t < n { y = x[t]; .. loop(n, x, t + 1, h', concat(rows, y')) }
                         else { (t, h, rows) }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import tvm
from tvm import relax

from tvm_disc.graph.axes import concat_axis
from tvm_disc.graph.nodes import Node, is_tensor, read_call
from tvm_disc.relay.expressions import variables
from tvm_disc.relay_passes.rewrite import is_call, is_core
from tvm_disc.typing import Binding, Call, Expr, GlobalVar, TVMFunction, TVMType, Var


@dataclass(eq=False)
class StepLoop:
    """A loop that counts its steps.

    Attributes:
        call: the call of the loop.
        params: its parameters.
        counter: the position of the parameter that counts.
        limit: the position of the parameter with which the counter is compared.
        again: the arguments of the recursive call.
        results: the positions of the parameters that the loop returns.
        body: the bindings of an iteration.
        nodes: the values of an iteration, by variable.
        is_core: whether core operators compute all of them.
    """

    call: Call
    params: list[Var]
    counter: int
    limit: int
    again: list[Expr]
    results: list[int]
    body: list[Binding]
    nodes: dict[Expr, Node]
    is_core: bool

    @staticmethod
    def read(func: TVMFunction, call: Call) -> StepLoop | None:
        """Return the parts of a loop function, or None if it has another form."""
        bindings = [b for block in func.body.blocks for b in block.bindings]
        if len(bindings) < 2 or not is_call(bindings[0].value, "less"):
            return None
        test, branch = bindings[0], bindings[1].value
        if not isinstance(branch, relax.If) or not branch.cond.same_as(test.var):
            return None
        params = list(func.params)
        counter, limit = (_place(x, params) for x in test.value.args)
        again = _recursion(branch.true_branch, call)
        results = _results(branch.false_branch, params)
        if counter is None or limit is None or again is None or results is None:
            return None
        body, args = again
        nodes = _nodes(params, body)
        if nodes is None:
            return None
        whole = all(is_core(b) and b.var in nodes for b in body)
        return StepLoop(call, params, counter, limit, args, results, body, nodes, whole)

    def is_fixed(self, k: int) -> bool:
        """Return whether parameter ``k`` has the same value in all iterations."""
        return bool(self.again[k].same_as(self.params[k]))

    def appended(self, k: int) -> Node | None:
        """Return the rows that an iteration appends to parameter ``k``, or None."""
        made = self.nodes.get(self.again[k])
        if made is None or made.op != "relax.concat" or len(made.inputs) != 2:
            return None
        whole = made.inputs[0] is self.nodes[self.params[k]] and concat_axis(made) == 0
        return made.inputs[1] if whole else None


def _place(expr: Expr, params: Sequence[Var]) -> int | None:
    return next((k for k, p in enumerate(params) if p.same_as(expr)), None)


def _bindings(seq: Expr) -> list[Binding]:
    return [b for block in seq.blocks for b in block.bindings]


def _recursion(seq: Expr, call: Call) -> tuple[list[Binding], list[Expr]] | None:
    """Return the bindings before the recursive call, and its arguments."""
    found = _bindings(seq)
    for k, binding in enumerate(found):
        value = binding.value
        if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            whole = all(isinstance(b.value, tvm.ir.Var) for b in found[k + 1 :])
            return (found[:k], list(value.args)) if whole and value.op.same_as(call.op) else None
    return None


def _results(seq: Expr, params: Sequence[Var]) -> list[int] | None:
    """Return the positions of the parameters that the other branch returns, or None."""
    made = next((b.value for b in _bindings(seq) if isinstance(b.value, tvm.ir.Tuple)), seq.body)
    fields = made.fields if isinstance(made, tvm.ir.Tuple) else [made]
    places = [_place(f, params) for f in fields]
    known = [p for p in places if p is not None]
    return known if len(known) == len(places) else None


def _nodes(params: Sequence[Var], body: Sequence[Binding]) -> dict[Expr, Node] | None:
    """Return the nodes of an iteration; None if a parameter is not a tensor of known rank."""
    found: dict[Expr, Node] = {}
    for p in params:
        if not is_tensor(p.ty) or p.ty.shape is None:
            return None
        found[p] = _external(p, "param")
    for binding in body:
        if is_core(binding) and all(
            v in found for v in variables(binding.value) if is_tensor(v.ty)
        ):
            found[binding.var] = read_call(
                binding.var, binding.value, cast("dict[Var, Node]", found)
            )
        elif is_tensor(binding.var.ty) and binding.var.ty.shape is not None:
            found[binding.var] = _external(binding.var, "external")
    return found


def _external(var: Var, op: str) -> Node:
    return Node(op, (), tuple(var.ty.shape.values), str(var.ty.dtype), var=var)


def loop_call(gv: GlobalVar, arguments: Sequence[Expr], ty: TVMType) -> Call:
    """Return a call of a loop whose results have this type."""
    call = tvm.ir.Call(gv, list(arguments))
    relax.expr._update_type(call, ty)
    return call


def branch_of(bindings: Sequence[Binding], value: Expr, ty: TVMType) -> Expr:
    """Return a branch that returns a value after these bindings."""
    var = relax.Var("next", ty)
    return relax.SeqExpr([relax.BindingBlock([*bindings, relax.VarBinding(var, value)])], var)


__all__ = ["StepLoop", "branch_of", "loop_call"]
