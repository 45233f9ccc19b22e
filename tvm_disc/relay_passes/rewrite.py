"""Rewrite graphs in one forward walk over a list of bindings with explicit types.

TVM's mutators infer every type again and lose shapes that only this compiler can prove. With this
driver, a rewritten value keeps its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.core_ops import CORE
from tvm_disc.graph.nodes import Node, is_tensor, like_blocks, link_users, read_call
from tvm_disc.relay.expressions import variables
from tvm_disc.shape import Solver
from tvm_disc.support.limits import FoldBudget
from tvm_disc.typing import Binding, Expr, GlobalVar, SeqExpr, TVMFunction, TVMModule, Var

DEEPEST = 16  # maximum nesting of rules: a rule emits calls, to which rules are applied again


class Sequence_:
    """A list of bindings that is being built.

    Invariant: every node in ``lookup`` is a parameter, or bound in an outer sequence or in
    ``bindings``.
    """

    def __init__(
        self,
        solver: Solver,
        outer: Mapping[Var, Node],
        folding: FoldBudget | None = None,
        rules: Sequence[Any] = (),
    ) -> None:
        self.solver = solver
        self.rules = rules  # applied to every call, also to those that rules emit
        self._nested = 0
        self.folding = folding or FoldBudget()
        self.lookup: dict[Any, Node] = dict(outer)
        self.bindings: list[Any] = []
        self.nodes: list[Node] = []
        self.renamed: dict[Any, Any] = {}  # old variable -> expression that replaces it
        self.renamed_nodes: dict[Node, Node] = {}
        self.results: list[Any] = []  # variables that the sequence returns
        self.tuples: dict[object, Any] = {}  # variables bound to a tuple of known fields

    def emit(self, call: Any, shape: Sequence[Any], dtype: str, like: Node | None = None) -> Node:
        """Bind ``call`` to a new variable; return its node, or its replacement by a rule."""
        ty = relax.TensorType(list(shape), dtype)
        name = like.name if like is not None and like.var is not None else "v"
        span = like.var.span if like is not None and like.var is not None else None
        var = relax.Var(name, ty, span)
        relax.expr._update_type(call, ty)
        node = read_call(var, call, self.lookup)
        replacement = self.rewritten(node)
        if replacement is not None:
            return replacement
        self.bindings.append(relax.VarBinding(var, call))
        self.lookup[var] = node
        self.nodes.append(node)
        return node

    def rewritten(self, node: Node) -> Node | None:
        """Return the replacement of a call by the first rule that applies, or None."""
        if self._nested == DEEPEST:
            return None
        self._nested += 1
        try:
            for rule in self.rules:
                replacement: Node | None = rule(self, node)
                if replacement is not None:
                    return replacement
        finally:
            self._nested -= 1
        return None

    def keep(self, binding: Any, call: Expr) -> Node:
        """Bind a call to its old variable."""
        if call is not binding.value:
            relax.expr._update_type(call, binding.var.ty)
            binding = relax.VarBinding(binding.var, call)
        self.bindings.append(binding)
        node = read_call(binding.var, binding.value, self.lookup)
        self.lookup[binding.var] = node
        self.nodes.append(node)
        return node

    def substitute(self, replaced: Mapping[Any, Any]) -> None:
        """Replace variables in the values of all bindings, and rebuild the nodes."""
        self.renamed.update(replaced)
        old, self.bindings = self.bindings, []
        self.nodes = []
        for binding in old:
            if is_core(binding):
                self._again(binding, replaced)
            else:
                value = binding.value
                if isinstance(value, relax.If):
                    # Bindings inside of the branches may read the replaced variables.
                    value = relax.If(
                        self.rename(value.cond),
                        _substituted(value.true_branch, self),
                        _substituted(value.false_branch, self),
                    )
                    relax.expr._update_type(value, binding.var.ty)
                    self.bindings.append(relax.VarBinding(binding.var, value))
                else:
                    self.bindings.append(_renamed_binding(self, binding))
        self.results = [self.rename(r) for r in self.results]

    def _again(self, binding: Binding, replaced: Mapping[Var, Expr]) -> None:
        call = binding.value
        args = [self.rename(a) for a in call.args]
        if any(a is not b for a, b in zip(args, call.args, strict=True)):
            call = tvm.ir.Call(call.op, args, call.attrs, call.ty_args)
            relax.expr._update_type(call, binding.var.ty)
            binding = relax.VarBinding(binding.var, call)
        node = read_call(binding.var, call, self.lookup)
        self.lookup[binding.var] = node
        self.nodes.append(node)
        self.bindings.append(binding)

    def rename(self, expr: Expr) -> Any:
        """Return an operand with the replacements of variables so far."""
        if isinstance(expr, tvm.ir.Var):
            return self.renamed.get(expr, expr)
        if isinstance(expr, tvm.ir.Tuple):
            fields = [self.rename(f) for f in expr.fields]
            if all(a is b for a, b in zip(fields, expr.fields, strict=True)):
                return expr
            return relax.Tuple(fields)
        return expr


def operand_expr(node: Node) -> Expr:
    """Return the Relax expression of a node as an operand."""
    found: Expr = node.expr if node.op == "const" else node.var
    return found


def with_operands(node: Node, tensors: Sequence[Expr], attrs: object = None) -> Expr:
    """Return the node's call with its tensor operands replaced by ``tensors``.

    Other operands, such as the limits of clip, are kept; the attributes, too, unless ``attrs`` are
    given.
    """
    left = iter(tensors)

    def renewed(arg: Expr) -> Expr:
        if isinstance(arg, tvm.ir.Tuple) and all(is_tensor(f.ty) for f in arg.fields):
            return relax.Tuple([next(left) for _ in arg.fields])
        return next(left) if is_tensor(arg.ty) else arg

    call = node.expr
    args = [renewed(a) for a in call.args]
    return tvm.ir.Call(call.op, args, call.attrs if attrs is None else attrs, call.ty_args)


def reduce_call(node: Node, operand: Expr, axes: Sequence[int], keepdims: bool) -> Expr:
    """Return the call of a reduction on another operand, along other axes."""
    build = getattr(R, node.op.removeprefix("relax."))
    one = node.op in ("relax.argmax", "relax.argmin")
    call: Expr = build(operand, axes[0] if one else list(axes), keepdims)
    return call


def same_dims(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Return whether two shapes have the same rank and structurally equal dims."""
    return len(a) == len(b) and all(
        bool(tvm_ffi.structural_equal(x, y)) for x, y in zip(a, b, strict=True)
    )


def is_core(binding: Binding) -> bool:
    """Return whether a binding calls a core operator and has a known shape."""
    value = binding.value
    return (
        isinstance(binding, relax.VarBinding)
        and isinstance(value, tvm.ir.Call)
        and isinstance(value.op, tvm.ir.Op)
        and str(value.op.name) in CORE
        and is_tensor(binding.var.ty)
        and binding.var.ty.shape is not None
    )


def drop_dead(out: Sequence_) -> None:
    """Remove unused tuples and calls of core operators without effects."""
    used: set[object] = {*out.results}
    kept = []
    for binding in reversed(out.bindings):
        node = out.lookup.get(binding.var)
        pure = isinstance(binding.value, tvm.ir.Tuple) or (
            node is not None and node.row is not None and not node.row.extends
        )
        if pure and binding.var not in used:
            out.lookup.pop(binding.var, None)
            continue
        used.update(variables(binding.value))
        kept.append(binding)
    out.bindings = list(reversed(kept))
    alive = {b.var for b in out.bindings}
    out.nodes = [n for n in out.nodes if n.var in alive]


def map_functions(mod: Any, change: Callable[[Any], object]) -> object:
    """Return the module with ``change`` applied to every Relax function."""
    functions = {
        gv: change(func) if isinstance(func, relax.Function) else func
        for gv, func in mod.functions_items()
    }
    return with_functions(mod, functions)


def with_functions(mod: Any, functions: Mapping[GlobalVar, object]) -> TVMModule:
    """Return the module with its functions replaced by ``functions``."""
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def with_main(mod: TVMModule, main: TVMFunction) -> TVMModule:
    """Return the module with its function ``main`` replaced."""
    made = with_functions(mod, dict(mod.functions_items()))
    made.update_func(made.get_global_var("main"), main)
    return made


def returning(function: TVMFunction, variables: Sequence[Var]) -> TVMFunction:
    """Return a function whose result is a tuple: its result, and ``variables`` that it binds."""
    parts = [function.body.body, *variables]
    result, ty = relax.Tuple(parts), relax.TupleType([p.ty for p in parts])
    if result.ty.is_missing():
        relax.expr._update_type(result, ty)
    out = relax.Var("returned", ty)
    blocks = [*function.body.blocks, relax.BindingBlock([relax.VarBinding(out, result)])]
    body = relax.SeqExpr(blocks, out)
    if body.ty.is_missing():
        relax.expr._update_type(body, ty)
    return relax.Function(function.params, body, None, function.is_pure, function.attrs)


def bindings_of(expr: object) -> Iterator[Any]:
    """Yield every binding of a function or sequence, including those of its branches."""
    body = expr.body if isinstance(expr, relax.Function) else expr
    if not isinstance(body, relax.SeqExpr):
        return
    for block in body.blocks:
        for binding in block.bindings:
            yield binding
            if isinstance(binding.value, relax.If):
                yield from bindings_of(binding.value.true_branch)
                yield from bindings_of(binding.value.false_branch)


def is_call(value: object, name: str) -> bool:
    """Return whether an expression calls the Relax operator ``name``."""
    return isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") == f"relax.{name}"


def counted_size(count: Expr, values: Mapping[Expr, Expr]) -> Expr | None:
    """Return the dim that a number is read from, through casts and reshapes, or None."""
    while isinstance(count, tvm.ir.Var) and count in values:
        count = values[count]
        if is_call(count, "shape_to_tensor"):
            dims = count.args[0]
            dims = values.get(dims, dims)
            single = isinstance(dims, relax.ShapeExpr) and len(dims.values) == 1
            return dims.values[0] if single else None
        if not any(is_call(count, name) for name in ("astype", "reshape", "squeeze")):
            return None
        count = count.args[0]
    return None


def rewrite_function(
    func: Any, solver: Solver, rules: Sequence[object], finish: Sequence[object] = ()
) -> TVMFunction:
    """Apply ``rules`` to every core call of a function, then each ``finish`` step per sequence."""
    lookup: dict[Any, Node] = {}
    for p in func.params:
        if is_tensor(p.ty) and p.ty.shape is not None:
            lookup[p] = Node("param", (), tuple(p.ty.shape.values), str(p.ty.dtype), var=p)
    body = _rewrite_sequence(func.body, solver, lookup, {}, rules, finish)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def _rewrite_sequence(
    seq: Expr,
    solver: Solver,
    outer: Mapping[Var, Node],
    renamed: Mapping[Any, Any],
    rules: Sequence[Any],
    finish: Sequence[Any],
) -> SeqExpr:
    out = Sequence_(solver, outer, rules=rules)
    out.renamed.update(renamed)
    for block in seq.blocks:
        for binding in block.bindings:
            if is_core(binding):
                _rewrite_call(out, binding)
            else:
                _rewrite_other(out, binding, rules, finish)
    body = out.rename(seq.body)
    out.rules = ()  # no rules are applied to calls that the `finish` steps emit
    for step in finish:
        out.results = [*variables(body)]
        link_users([*out.lookup.values(), *_literals(out.nodes)])
        for var in out.results:
            if var in out.lookup:
                out.lookup[var].is_output = True
        step(out)
        body = out.rename(body)
    return relax.SeqExpr(like_blocks(seq.blocks, out.bindings), body)


def _substituted(seq: Expr, outer: Sequence_) -> Expr:
    """Return a branch with outer variables replaced."""
    inner = Sequence_(outer.solver, outer.lookup, outer.folding)
    inner.renamed.update(outer.renamed)
    inner.bindings = [b for block in seq.blocks for b in block.bindings]
    for binding in inner.bindings:
        ty = binding.var.ty
        if is_tensor(ty) and ty.shape is not None:
            shape = tuple(ty.shape.values)
            inner.lookup[binding.var] = Node("external", (), shape, str(ty.dtype), var=binding.var)
    inner.substitute({})
    return relax.SeqExpr(like_blocks(seq.blocks, inner.bindings), inner.rename(seq.body))


def _literals(nodes: Sequence[Node]) -> list[Node]:
    return list({x: None for n in nodes for x in n.inputs if x.op == "const"})


def _rewrite_call(out: Sequence_, binding: Binding) -> None:
    call = binding.value
    args = [out.rename(a) for a in call.args]
    if any(a is not b for a, b in zip(args, call.args, strict=True)):
        call = tvm.ir.Call(call.op, args, call.attrs, call.ty_args)
        relax.expr._update_type(call, binding.var.ty)
    node = read_call(binding.var, call, out.lookup)
    replacement = out.rewritten(node)
    if replacement is not None:
        out.renamed[binding.var] = operand_expr(replacement)
        return
    out.lookup[binding.var] = node
    out.nodes.append(node)
    if call is binding.value:
        out.bindings.append(binding)
    else:
        out.bindings.append(relax.VarBinding(binding.var, call))


def _rewrite_other(
    out: Sequence_, binding: Any, rules: Sequence[object], finish: Sequence[object]
) -> None:
    value = binding.value
    if isinstance(value, tvm.ir.TupleGetItem) and value.tuple_value in out.tuples:
        # A field of a known tuple is replaced by its value.
        out.renamed[binding.var] = out.tuples[value.tuple_value].fields[int(value.index)]
        return
    if isinstance(value, relax.If):
        branches = [
            _rewrite_sequence(b, out.solver, out.lookup, out.renamed, rules, finish)
            for b in (value.true_branch, value.false_branch)
        ]
        value = relax.If(out.rename(value.cond), *branches)
        relax.expr._update_type(value, binding.var.ty)
        binding = relax.VarBinding(binding.var, value)
    else:
        binding = _renamed_binding(out, binding)
        if isinstance(binding.value, tvm.ir.Tuple):
            out.tuples[binding.var] = binding.value
    out.bindings.append(binding)
    ty = binding.var.ty
    if is_tensor(ty) and ty.shape is not None:
        shape = tuple(ty.shape.values)
        out.lookup[binding.var] = Node("external", (), shape, str(ty.dtype), var=binding.var)


def _renamed_binding(out: Sequence_, binding: Binding) -> object:
    value = binding.value
    if isinstance(value, tvm.ir.Call):
        args = [out.rename(a) for a in value.args]
        new: Expr = tvm.ir.Call(value.op, args, value.attrs, value.ty_args)
    elif isinstance(value, tvm.ir.TupleGetItem):
        new = relax.TupleGetItem(out.rename(value.tuple_value), int(value.index))
    else:
        new = out.rename(value)
    if isinstance(binding, relax.MatchCast):
        return relax.MatchCast(binding.var, new, binding.ty)
    if new.ty.is_missing():
        relax.expr._update_type(new, binding.var.ty)
    return relax.VarBinding(binding.var, new)
