"""``FuseDISC``: outline the planned groups as functions.

    before   y = add(x, b); z = relu(y)
    after    z = group_0(x, b, shape(n))       with group_0 = fn { add; relu }, disc.kind = "loop"

needs: every tensor has a symbolic shape. The symbols that a group uses are passed explicitly, so
that a group function is closed and equal groups are structurally equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_tensor, like_blocks, link_users, read_call
from tvm_disc.relay.expressions import variables
from tvm_disc.relay.object_ops import has_effect
from tvm_disc.relay_passes.dim_facts import GroupFacts
from tvm_disc.relay_passes.fusion_groups import FusionPlan, GroupPlan
from tvm_disc.relay_passes.fusion_plan import plan_fusion
from tvm_disc.relay_passes.module_facts import solver_of, without_solver
from tvm_disc.relay_passes.rewrite import is_core
from tvm_disc.shape import Solver
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.support.alike import ByStructure
from tvm_disc.tir.index import substitute
from tvm_disc.typing import (
    Binding,
    Expr,
    GlobalVar,
    PassContext,
    SeqExpr,
    TVMFunction,
    TVMModule,
    TVMType,
    Var,
)

LONG_SIZE = 8  # least operations of a size expression that is passed as one argument
MOST_NAMED = 3  # operators in the name of a kernel


def FuseDISC(solver: Solver | None = None, enabled: bool = True) -> object:
    """Return a module pass that outlines fused groups; ``refused`` lists the last run's refusals.

    Args:
        solver: facts about the module's symbols; by default the module's own, which the pass
            removes from the module.
        enabled: with False every operator becomes a separate kernel, for comparison.
    """
    refused: list[WhyNot] = []

    def fuse(mod: TVMModule, ctx: PassContext) -> object:
        refused.clear()
        return without_solver(_fuse_module(mod, solver_of(mod, solver), enabled, refused))

    result = tvm.transform.module_pass(fuse, opt_level=0, name="FuseDISC")
    result.refused = refused
    return result


def _fuse_module(mod: TVMModule, solver: Solver, enabled: bool, refused: list[WhyNot]) -> object:
    outliner = _Outliner(mod, solver, enabled, refused)
    for gv, func in mod.functions_items():
        if isinstance(func, relax.Function) and not _is_group(func):
            outliner.function(gv, func)
    return outliner.finish()


def _is_group(func: TVMFunction) -> bool:
    return func.attrs is not None and "disc.kind" in func.attrs


class _Outliner:
    def __init__(
        self, mod: TVMModule, solver: Solver, enabled: bool, refused: list[WhyNot]
    ) -> None:
        self.builder = relax.BlockBuilder(mod)
        self.solver, self.enabled, self.refused = solver, enabled, refused
        self.facts = GroupFacts(solver)
        self.count = 0
        # the previous operation with an effect, which orders the next one
        self.effect: Node | None = None

    def finish(self) -> Any:
        return self.builder.get()

    def function(self, gv: GlobalVar, func: TVMFunction) -> None:
        lookup: dict[Any, Node] = {}
        for p in func.params:
            self._declare(lookup, p)
        body = self._sequence(func.body, lookup)
        new = relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)
        self.builder.update_func(gv, new)

    def _declare(self, lookup: dict[Var, Node], var: Var) -> None:
        if is_tensor(var.ty) and var.ty.shape is not None:
            shape = tuple(var.ty.shape.values)
            lookup[var] = Node("param", (), shape, str(var.ty.dtype), var=var)

    def _sequence(self, seq: Any, outer: Mapping[Var, Node]) -> Any:
        # A value computed outside of a branch is an operand inside it, never a member of its
        # kernels.
        lookup = {v: Node("param", (), n.shape, n.dtype, var=v) for v, n in outer.items()}
        bindings = [b for block in seq.blocks for b in block.bindings]
        nodes: list[Node] = []
        self.effect = None
        node_of: dict[Any, Node] = {}
        for binding in bindings:
            node = self._read(binding, lookup)
            nodes.append(node)
            node_of[binding.var] = node
        every = dict.fromkeys((*lookup.values(), *nodes))
        for n in nodes:
            every.update({x: None for x in n.inputs if x.op == "const"})
        self._mark_outputs(seq, bindings, lookup)
        nodes, dead = _without_dead(nodes)
        bindings = [b for b in bindings if node_of[b.var] not in dead]
        known = set(node_of.values())
        link_users([n for n in every if n not in known] + nodes)
        _link_numbers(bindings, node_of, outer.values())
        plan = plan_fusion(nodes, self.solver, self.enabled)
        self.refused.extend(plan.refused)
        return self._rebuild(seq, bindings, node_of, plan, lookup)

    def _read(self, binding: Binding, lookup: dict[Var, Node]) -> Node:
        value = binding.value
        if is_core(binding):
            node = read_call(binding.var, value, lookup)
        else:
            node = self._external(binding, lookup)
        if node.op == "external" and has_effect(binding.value):
            if self.effect is not None:
                node.inputs = tuple(dict.fromkeys((*node.inputs, self.effect)))
            self.effect = node
        lookup[binding.var] = node
        return node

    def _external(self, binding: Binding, lookup: Mapping[Var, Node]) -> Node:
        """Return a node for a binding that is not a core operator; it only constrains the order."""
        sources = dict.fromkeys(lookup[v] for v in variables(binding.value) if v in lookup)
        ty = binding.var.ty
        shape: tuple[Any, ...] = ()
        dtype = "handle"
        if is_tensor(ty):
            dtype = str(ty.dtype)
            shape = tuple(ty.shape.values) if ty.shape is not None else ()
        return Node("external", tuple(sources), shape, dtype, var=binding.var, expr=binding.value)

    def _mark_outputs(
        self, seq: SeqExpr, bindings: Sequence[object], lookup: Mapping[Var, Node]
    ) -> None:
        for var in variables(seq.body):
            if var in lookup:
                lookup[var].is_output = True
        for node in lookup.values():
            if node.row is not None and node.row.extends:
                node.is_output = True  # its effect is a result

    # -- rebuild -------------------------------------------------------------------------------

    def _rebuild(
        self,
        seq: SeqExpr,
        bindings: Sequence[Binding],
        node_of: Mapping[Var, Node],
        plan: FusionPlan,
        lookup: Mapping[Var, Node],
    ) -> object:
        outputs = {id(g): plan.outputs(g) for g in plan.groups}
        pieces = _order(bindings, node_of, plan, outputs)
        out: list[Any] = []
        for piece in pieces:
            if isinstance(piece, GroupPlan):
                out.extend(self._outline(piece, outputs[id(piece)]))
            else:
                out.append(self._keep(piece, lookup))
        return relax.SeqExpr(like_blocks(seq.blocks, out), seq.body)

    def _keep(self, binding: Binding, lookup: Mapping[Var, Node]) -> Binding:
        value = binding.value
        if isinstance(value, relax.If):
            value = relax.If(
                value.cond,
                self._sequence(value.true_branch, lookup),
                self._sequence(value.false_branch, lookup),
            )
            relax.expr._update_type(value, binding.var.ty)
            return relax.VarBinding(binding.var, value)
        return binding

    def _outline(self, group: GroupPlan, outputs: Sequence[Node]) -> list[Any]:
        name = f"{_label(group)}_{self.count}"
        self.count += 1
        params, symbols, sizes = _interface(group, self.solver)
        same = self._representatives(symbols)
        symbols = [s for s in symbols if same[s].same_as(s)]
        func = _group_function(group, params, outputs, _Renaming(symbols, same, sizes))
        numbers = [*symbols, *sizes]
        if facts := self.facts.about(numbers):
            func = func.with_attr("disc.facts", facts)
        gv = self.builder.add_func(func, name)
        args = [p.expr if p.op == "const" else p.var for p in params]
        if numbers:
            args.append(relax.ShapeExpr(numbers))
        call = tvm.ir.Call(gv, args)
        types = [o.var.ty for o in outputs]
        if len(outputs) == 1:
            relax.expr._update_type(call, types[0])
            return [relax.VarBinding(outputs[0].var, call)]
        result = relax.Var(name, relax.TupleType(types))
        relax.expr._update_type(call, relax.TupleType(types))
        bindings = [relax.VarBinding(result, call)]
        for k, node in enumerate(outputs):
            item = relax.TupleGetItem(result, k)
            _give_type(item, types[k])
            bindings.append(relax.VarBinding(node.var, item))
        return bindings

    def _representatives(self, symbols: Sequence[object]) -> dict[Any, Any]:
        """Return for each symbol the first symbol that is proved equal to it.

        A group uses one symbol for all equal dims.
        """
        chosen: list[Any] = []
        same: dict[object, Any] = {}
        for s in symbols:
            same[s] = next((c for c in chosen if self.solver.known_eq(s, c)), s)
            if same[s] is s:
                chosen.append(s)
        return same


def _without_dead(nodes: Sequence[Node]) -> tuple[list[Node], set[Node]]:
    """Return (nodes to keep, core operators whose results are not used)."""
    dead: set[Node] = set()
    read: set[Node] = set()
    for node in reversed(nodes):
        if node.row is not None and not node.is_output and node not in read:
            dead.add(node)
        else:
            read.update(node.inputs)
    return [n for n in nodes if n not in dead], dead


def _give_type(expr: Expr, ty: TVMType) -> None:
    """Set the type of an expression unless its constructor has inferred it."""
    if expr.ty.is_missing():
        relax.expr._update_type(expr, ty)


def _label(group: GroupPlan) -> str:
    """Return the start of a kernel's name: its kind and the operators of its anchors."""
    found = dict.fromkeys(n.op.split(".")[-1] for n in (group.anchor, *group.merged))
    return "_".join([group.kind, *[*found][:MOST_NAMED]])


def _interface(group: GroupPlan, solver: Solver) -> tuple[list[Node], list[Expr], list[Expr]]:
    """Return the parameters of a group: tensors, symbols, and long sizes, each in order of first
    use.

    Each long size is one integer parameter.
    """
    params: dict[Node, None] = {}
    exprs: list[Any] = []
    prims: list[Any] = []
    for node in group.nodes():
        for x in node.inputs:
            if x not in group and not x.is_scalar_const:
                params[x] = None
        exprs.extend(node.shape)
        for p in node.prims:
            prims.extend(p if isinstance(p, tuple) else (p,))
    for p in params:  # a shape may have a symbol that occurs nowhere else
        exprs.extend(p.shape)
    views = any(n.cls is OpClass.VIEW for n in group.nodes())
    sizes = _long_sizes(exprs, prims, solver, views)
    short = [e for e in (*exprs, *prims) if _is_short(e) or sizes.get(e) is None]
    return list(params), free_symbols(short), sizes.values


def _distinct(exprs: Iterable[Expr]) -> list[Expr]:
    """Return the sizes that differ in structure, in order."""
    found = ByStructure[Expr]()
    for expr in exprs:
        if found.get(expr) is None:
            found.add(expr, expr)
    return found.values


def _long_sizes(
    dims: Sequence[Expr], prims: Sequence[Expr], solver: Solver, views: bool
) -> ByStructure[Expr]:
    """Return the long sizes whose symbols occur in no other size of a group.

    Passing the value of a long size to the kernel makes its code short, and groups that differ only
    in the expression of the size share one kernel. A size keeps its expression if it is equal to
    another size. In a group with ``views``, it also keeps its expression if an equation relates its
    symbols to others, because the index arithmetic of the views may need the equation.
    """
    found = ByStructure[Expr]()
    sizes = [e for e in _distinct(d for d in dims if not _is_short(d)) if _is_long(e)]
    if not sizes:
        return found
    distinct = _distinct(d for d in (*dims, *prims) if not _is_short(d))
    uses = Counter(s for e in distinct for s in free_symbols([e]))
    uses.update(free_symbols(e for e in (*dims, *prims) if _is_short(e)))
    others = _distinct(d for d in dims if not isinstance(d, int | tirx.IntImm))
    equations = [{*free_symbols([e])} for e in solver.equations([*uses])] if views else []

    def is_alone(size: Expr) -> bool:
        symbols = {*free_symbols([size])}
        if any(uses[s] > 1 for s in symbols) or any(e & symbols and e - symbols for e in equations):
            return False
        return not any(solver.known_eq(size, d) for d in others if d is not size)

    for size in filter(is_alone, sizes):
        found.add(size, size)
    return found


def _is_short(expr: Expr | int) -> bool:
    """Return whether a size is a number or a symbol."""
    return isinstance(expr, int | tirx.IntImm | tirx.Var)


def _is_long(expr: Expr) -> bool:
    """Return whether a size has at least ``LONG_SIZE`` operations."""
    count, stack = 0, [expr]
    while stack and count < LONG_SIZE:
        found = stack.pop()
        if not _is_short(found):
            count += 1
            stack.extend(getattr(found, side) for side in "ab" if hasattr(found, side))
    return count >= LONG_SIZE


class _Renaming:
    """Map from the sizes of a group to expressions over fresh variables.

    Args:
        symbols: the symbols of the group.
        same: for each symbol that occurs in the group, the equal one of ``symbols``.
        sizes: sizes that become one variable each.

    Attributes:
        made: the new variables: one per symbol, then one per size.
    """

    def __init__(
        self, symbols: Sequence[Expr], same: Mapping[Expr, Expr], sizes: Sequence[Expr]
    ) -> None:
        made = {s: tirx.Var(str(s.name), "int64") for s in symbols}
        self._fresh = {s: made[chosen] for s, chosen in same.items()}
        self._of_sizes = ByStructure[Expr]()
        for k, size in enumerate(sizes):
            self._of_sizes.add(size, tirx.Var(f"size_{k}", "int64"))
        self.made = [*made.values(), *self._of_sizes.values]

    def __call__(self, expr: Expr) -> Expr:
        one = None if _is_short(expr) else self._of_sizes.get(expr)
        return substitute(expr, self._fresh) if one is None else one


def _group_function(
    group: GroupPlan, params: Sequence[Node], outputs: Sequence[Node], rename: _Renaming
) -> TVMFunction:
    """Return the closed function of a group, over fresh symbols and variables."""
    # A constant with two uses is two parameters: as a weight it may have a different layout.
    made_vars: dict[Node, Any] = {}
    args = []
    for k, p in enumerate(params):
        shape = [rename(d) for d in p.shape]
        var = relax.Var(f"p{k}", relax.TensorType(shape, p.dtype))
        args.append(var)
        made_vars[p] = var
    if rename.made:
        args.append(relax.Var("dims", relax.ShapeType(rename.made)))
    bindings = []
    for k, node in enumerate(group.nodes()):
        ty = relax.TensorType([rename(d) for d in node.shape], node.dtype)
        var = relax.Var(f"v{k}", ty)
        call = _rename_call(node, rename, made_vars)
        relax.expr._update_type(call, ty)
        bindings.append(relax.VarBinding(var, call))
        made_vars[node] = var
    results = [made_vars[o] for o in outputs]
    if len(results) > 1:
        tuple_expr = relax.Tuple(results)
        out = relax.Var("out", relax.TupleType([r.ty for r in results]))
        _give_type(tuple_expr, out.ty)
        bindings.append(relax.VarBinding(out, tuple_expr))
    else:
        out = results[0]
    constants = [k for k, p in enumerate(params) if p.op == "const"]
    attrs: dict[str, object] = {
        "disc.kind": group.kind,
        "disc.constants": constants,
        "Primitive": True,
    }
    if group.kind != "loop":
        attrs["disc.anchor"] = group.nodes().index(group.anchor)
    body = relax.SeqExpr([relax.BindingBlock(bindings)], out)
    return relax.Function(args, body, out.ty, True, tvm.ir.make_node("ir.DictAttrs", **attrs))


def _rename_call(node: Node, rename: _Renaming, made_vars: Mapping[Node, object]) -> Expr:
    operands = (made_vars.get(x, x.expr) for x in node.inputs)
    call = node.expr
    args = [_rename_arg(a, rename, operands) for a in call.args]
    return tvm.ir.Call(call.op, args, call.attrs, call.ty_args)


def _rename_arg(arg: Expr, rename: _Renaming, operands: Iterator[Any]) -> Expr:
    """Return an argument of a call, with its tensors replaced by the next items of `operands`."""
    if isinstance(arg, relax.ShapeExpr):
        return relax.ShapeExpr([rename(d) for d in arg.values])
    if isinstance(arg, tvm.ir.Tuple):
        return relax.Tuple([_rename_arg(f, rename, operands) for f in arg.fields])
    return next(operands) if is_tensor(arg.ty) else rename(arg)


def _order(
    bindings: Sequence[Binding],
    node_of: Mapping[Var, Node],
    plan: FusionPlan,
    outputs: Mapping[int, Sequence[Node]],
) -> list[GroupPlan | Binding]:
    """Return groups and remaining bindings in an order that respects all dependences."""
    made_by: dict[Node, Any] = {}
    for g in plan.groups:
        for node in outputs[id(g)]:
            made_by.setdefault(node, g)
    inside = {n for g in plan.groups for n in g.members}
    items: list[Any] = []
    for b in bindings:
        node = node_of[b.var]
        if node not in inside:
            items.append(b)
            made_by[node] = b
    items.extend(plan.groups)
    position = {id(i): _position(i, node_of) for i in items}
    items.sort(key=lambda i: position[id(i)])
    done: set[int] = set()
    result: list[Any] = []

    def place(item: object) -> None:
        stack = [(item, iter(_needs(item, node_of)))]
        done.add(id(item))
        while stack:
            current, needs = stack[-1]
            for need in needs:
                maker = made_by.get(need)
                if maker is not None and id(maker) not in done:
                    done.add(id(maker))
                    stack.append((maker, iter(_needs(maker, node_of))))
                    break
            else:
                result.append(current)
                stack.pop()

    for item in items:
        if id(item) not in done:
            place(item)
    return result


def _position(item: GroupPlan | Binding, node_of: Mapping[Var, Node]) -> int:
    if isinstance(item, GroupPlan):
        return max(n.index for n in item.members)
    return node_of[item.var].index


def _needs(item: Any, node_of: Mapping[Var, Node]) -> list[Node]:
    group = isinstance(item, GroupPlan)
    nodes = item.nodes() if group else [node_of[item.var]]
    needs = [x for n in nodes for x in n.inputs if not group or x not in item]
    return needs + [x for n in nodes for x in n.after]


def _mentioned(node: Node) -> list[Any]:
    """Return the symbols in a node's type and scalar operands."""
    prims = [x for p in node.prims for x in (p if isinstance(p, tuple) else (p,))]
    return free_symbols([*node.shape, *prims])


def _dims_of(ty: TVMType) -> Sequence[Expr] | None:
    shape = ty.shape if is_tensor(ty) else ty
    return shape.values if isinstance(shape, relax.ShapeExpr | relax.ShapeType) else None


def _link_numbers(
    bindings: Sequence[Binding], node_of: Mapping[Var, Node], outer: Iterable[Node]
) -> None:
    """Set ``after`` of every node to the bindings that define the symbols used by the node."""
    readers = _number_readers(bindings, node_of, outer)
    for node in node_of.values() if readers else ():
        found = dict.fromkeys(readers[s] for s in _mentioned(node) if s in readers)
        node.after = tuple(x for x in found if x is not node)


def _number_readers(
    bindings: Sequence[Binding], node_of: Mapping[Var, Node], outer: Iterable[Node]
) -> dict[Var, Node]:
    """Return for each symbol that a ``match_cast`` introduces the node of that binding.

    A node that uses the symbol must come after the binding, even if it does not read its result.
    """
    if not any(isinstance(b, relax.MatchCast) for b in bindings):
        return {}
    seen = {s for node in outer for s in _mentioned(node)}
    readers: dict[Any, Node] = {}
    for binding in bindings:
        node = node_of[binding.var]
        if isinstance(binding, relax.MatchCast) and (dims := _dims_of(binding.ty)) is not None:
            fresh = [s for s in free_symbols(dims) if s not in seen]
            readers.update(dict.fromkeys(fresh, node))
        seen.update(_mentioned(node))
    return readers
