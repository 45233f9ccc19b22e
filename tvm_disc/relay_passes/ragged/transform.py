"""``RaggedBatches``: a program over ``[b, s, ...]`` becomes one over packed rows ``[t, ...]``.

    before   x[b, s, 768];  y = matmul(x, w) + bias;  z = attention(y, y, y)
    after    x[t, 768], offsets[b + 1];  y = matmul(x, w) + bias
             z = pack(attention(unpack(y), unpack(y), unpack(y)))

``unpack`` and ``pack`` are index maps of the attention kernel, which computes one item at a time.
All other kernels see one dense matrix of t rows. The result for an item equals the result of the
model on this item alone.

needs: the passes before it have reduced the main function to core operators of known shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import tvm
from tvm import relax

from tvm_disc.errors import Unsupported, WhyNot
from tvm_disc.graph.attention import Attention, find_attention
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_tensor, like_blocks, link_users, read_call
from tvm_disc.relay.expressions import variables
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay.kernel_ops import CHECKED
from tvm_disc.relay_passes.layout_rules import FILLED
from tvm_disc.relay_passes.module_facts import RAGGED, solver_of
from tvm_disc.relay_passes.propagation.finish import return_type
from tvm_disc.relay_passes.ragged.dense import dense_reason
from tvm_disc.relay_passes.ragged.derived import derive_dims
from tvm_disc.relay_passes.ragged.forms import (
    MERGED,
    Dense,
    Form,
    Packed,
    Padded,
    RaggedDim,
    RaggedDims,
)
from tvm_disc.relay_passes.ragged.inputs import RaggedInputs, settle_guards
from tvm_disc.relay_passes.ragged.items import reduced_everywhere
from tvm_disc.relay_passes.ragged.loops import NotRagged, RecurrentLoops
from tvm_disc.relay_passes.ragged.rules import filled, ragged_form
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    is_core,
    map_functions,
    operand_expr,
    with_operands,
)
from tvm_disc.relay_passes.simplify import Simplify
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show_shape
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Binding, Call, Expr, PassContext, TVMFunction, TVMModule, TVMType, Var

if TYPE_CHECKING:
    from tvm.transform import Pass


def RaggedBatches(ragged: Mapping[str, int], solver: Solver | None = None) -> Pass:
    """Return a module pass for the inputs ``ragged``, whose axis 1 differs between items.

    The attribute ``disc.ragged`` of the main function has three lists: (input, offsets input) of
    every ragged input; the name of the offsets of every result, empty for a dense result; and the
    names of computed offsets, which the function returns as further results.

    Raises:
        BadInput: an input does not exist, or has no such axis.
        Unsupported: an operator cannot be ragged; the message has its name and the reason.
    """

    def transform(mod: TVMModule, ctx: PassContext) -> object:
        if not ragged:
            return mod
        main, known = mod["main"], solver_of(mod, solver)
        rewriter = _Rewriter(mod, ragged, known)
        changed = rewriter.function()
        found = cast("TVMModule", map_functions(mod, lambda f: changed if f.same_as(main) else f))
        for gv, func in rewriter.loops.functions.items():
            found[gv] = func
        return found

    made = tvm.transform.module_pass(transform, opt_level=0, name="RaggedBatches")
    return tvm.transform.Sequential(
        [made, cast("Pass", Simplify())], opt_level=0, name="RaggedBatches"
    )


class _Rewriter:
    """Rewrites the main function."""

    def __init__(self, mod: TVMModule, ragged: Mapping[str, int], solver: Solver) -> None:
        self.main, self.solver = mod["main"], solver
        main = self.main
        self.out = Sequence_(solver, {})
        self.inputs = RaggedInputs(main, ragged, self.out)
        self.dims = RaggedDims(self.inputs.dims, solver)
        self.bindings = [b for block in main.body.blocks for b in block.bindings]
        self.old = self._nodes()
        self.loops = RecurrentLoops(mod, self.bindings, self.old)
        self.attentions, refused = self._attentions()
        self.values = Values(self.out, self.dims, refused)
        self.forms: dict[Node, Form] = {
            self.old[var]: form for var, form in self.inputs.forms.items()
        }
        derive_dims(self.values, self.old.values())
        self.checks = self._checks()
        self.tuples: dict[Expr, Expr] = {}
        self.renamed: dict[Var, Var] = {}  # new variables of bindings that are not core operators

    def _nodes(self) -> dict[Expr, Node]:
        """Return the nodes of the model by variable."""
        found: dict[Expr, Node] = {}
        for p in self.main.params:
            shape = tuple(p.ty.shape.values) if is_tensor(p.ty) and p.ty.shape else ()
            found[p] = Node("param", (), shape, str(getattr(p.ty, "dtype", "")), var=p)
        for binding in self.bindings:
            var = binding.var
            if is_core(binding):
                found[var] = read_call(var, binding.value, cast("dict[Var, Node]", found))
            elif is_tensor(var.ty) and var.ty.shape is not None:
                shape = tuple(var.ty.shape.values)
                found[var] = Node("external", (), shape, str(var.ty.dtype), var=var)
        link_users(found.values())
        for var in variables(self.main.body.body):
            if var in found:
                found[var].is_output = True
        return found

    def _attentions(self) -> tuple[dict[Node, Attention], dict[Node, str]]:
        """Return the attention of each node that is part of one, and why other matmuls have
        none.
        """
        parts: dict[Node, Attention] = {}
        refused: dict[Node, str] = {}
        for node in self.old.values():
            if node.cls is not OpClass.DOT:
                continue
            found = find_attention(node, self.solver)
            if isinstance(found, WhyNot):
                refused[node] = found.reason
            elif found is not None and self.dims.axes_of(found.scores.shape[-2:]):
                parts.update(dict.fromkeys(found.nodes(), found))
        return parts, refused

    def _checks(self) -> set[Node]:
        """Return the extremes of all elements of a value that only checks of elements read."""
        found: set[Node] = set()
        pending = [
            self.old[arg]
            for call in map(_checked, self.bindings)
            if call is not None
            for arg in call.args[1:-1]
        ]
        while pending:
            node = pending.pop()
            if all(user in found for user in node.users):
                found.add(node)
                pending += node.inputs if node.cls is OpClass.VIEW else []
        return found

    def function(self) -> TVMFunction:
        """Return the function over packed rows."""
        for binding in self.bindings:
            if is_core(binding):
                node = self.old[binding.var]
                if node not in self.loops.counts:
                    self.forms[node] = self._form(node)
            else:
                self._other(binding)
        results = self._results()
        computed = self._computed()
        results += [operand_expr(d.offsets) for d in computed]
        body = results[0] if len(results) == 1 else relax.Tuple(results)
        if not isinstance(body, tvm.ir.Var):
            var = relax.Var("results", tvm.ir.TupleType([v.ty for v in results]))
            self.out.bindings.append(relax.VarBinding(var, body))
            body = var
        seq = relax.SeqExpr(like_blocks(self.main.body.blocks, self.out.bindings), body)
        # The body defines the number of items; the type may use dims of parameters only.
        items: dict[Expr, Expr] = {d.items: d.offsets.shape[0] - 1 for d in self.dims.dims}
        params = self.inputs.params
        ty = return_type(params, cast("TVMType", substitute(body.ty, items)))
        made = relax.Function(params, seq, ty, self.main.is_pure, self.main.attrs)
        settle_guards(self.inputs)
        inputs = [[n, d.offsets_name] for d in self.dims.dims for n in d.inputs]
        changed: TVMFunction = made.with_attr(
            RAGGED, [inputs, self.offsets, [d.offsets_name for d in computed]]
        )
        return changed

    def _form(self, node: Node) -> Form:
        forms = [self._operand(x) for x in node.inputs]
        if node in self.attentions:
            return self._attention(node, forms)
        if node in self.checks and isinstance(forms[0], Packed) and node.cls is OpClass.REDUCE:
            return reduced_everywhere(self.values, node, forms[0])
        if all(isinstance(f, Dense) for f in forms):
            return self._dense(node, forms)
        found = ragged_form(self.values, node, forms)
        if isinstance(found, str):
            raise self._refused(node, found)
        return found

    def _operand(self, node: Node) -> Form:
        if node.op == "const":
            return Dense(node)
        if node not in self.forms and self.loops.is_result(node.var):
            self.forms[node] = self.loops.form(self.values, node)
        return self.forms[node]

    def _dense(self, node: Node, forms: list[Form]) -> Form:
        packed = filled(self.values, node) if node.op in FILLED else None
        if packed is not None:
            return packed
        reason = dense_reason(node, self.dims)
        if reason is not None:
            raise self._refused(node, reason)
        call = with_operands(node, [operand_expr(f.node) for f in forms])
        return Dense(self.values.emit(call, node.shape, node))

    def _attention(self, node: Node, forms: list[Form]) -> Form:
        """Return the form of a node of an attention, which is computed one item at a time."""
        operands = [self.values.padded(f, x) for f, x in zip(forms, node.inputs, strict=True)]
        if node.cls is OpClass.VIEW:
            call = reshape_call(operand_expr(operands[0]), list(node.shape))
        else:
            call = with_operands(node, [operand_expr(x) for x in operands])
        made = self.values.emit(call, node.shape, node)
        return self.values.settled(Padded(made, node is self.attentions[node].result))

    def _refused(self, node: Node, reason: str) -> Unsupported:
        return Unsupported(f"ragged: {WhyNot(node.label, reason)}")

    def _other(self, binding: Binding) -> None:
        """Convert a loop, a tuple of results or a check of elements; refuse other control
        flow and calls.
        """
        value = binding.value
        if self.loops.binds(binding.var):
            self._loop(binding)
        elif self.loops.is_result(binding.var):
            return
        elif isinstance(value, tvm.ir.Tuple | tvm.ir.Var):
            self.tuples[binding.var] = value
        elif _checked(binding) is not None:
            self._check(binding)
        else:
            raise Unsupported(
                f"ragged: {binding.var.name}: control flow, functions and sizes read from data are "
                "not supported in a ragged program"
            )

    def _loop(self, binding: Binding) -> None:
        """Emit a recurrent layer."""
        try:
            self.loops.convert(self.values, binding.var, self._operand)
        except NotRagged as reason:
            name = binding.value.op.name_hint
            raise Unsupported(f"ragged: {WhyNot(f'the loop {name}', str(reason))}") from None

    def _check(self, binding: Binding) -> None:
        """Keep a check of the elements of a packed or dense value."""
        call = binding.value
        data, *numbers = (self._operand(self.old[x]) for x in call.args[:-1])
        limits = list(call.args[-1].values)
        if isinstance(data, Padded) or self.dims.sizes_in(limits):
            raise self._refused(self.old[binding.var], "a run-time check reads its elements")
        operands = [operand_expr(f.node) for f in (data, *numbers)]
        changed = tvm.ir.Call(call.op, [*operands, call.args[-1]], call.attrs)
        relax.expr._update_type(changed, data.node.var.ty)
        var = relax.Var(str(binding.var.name), data.node.var.ty, binding.var.span)
        self.out.bindings.append(relax.VarBinding(var, changed))
        node = Node("external", (), data.node.shape, data.node.dtype, var=var)
        self.out.lookup[var] = node
        form = Packed(node, data.dim, data.at) if isinstance(data, Packed) else Dense(node)
        self.forms[self.old[binding.var]] = form

    def _computed(self) -> list[RaggedDim]:
        """Return the derived dims of results; the program returns their offsets."""
        return [d for d in self.dims.dims if d.root and d.offsets_name in self.offsets]

    def _results(self) -> list[Expr]:
        """Return the results, and set ``offsets`` to the name of the offsets of each result."""
        body: Expr = self.main.body.body
        while body in self.tuples:
            body = self.tuples[body]
        fields = list(body.fields) if isinstance(body, tvm.ir.Tuple) else [body]
        self.offsets: list[str] = []
        found = []
        for k, field in enumerate(fields):
            if field not in self.old:
                raise Unsupported(f"ragged: result {k}: expected a tensor in a flat tuple")
            form = self._operand(self.old[field])
            found.append(operand_expr(form.node))
            if isinstance(form, Dense):
                self.offsets.append("")
                if self.dims.axes_of(form.node.shape):
                    raise Unsupported(
                        f"ragged: result {k} is padded to the largest length, but depends on no "
                        "ragged input"
                    )
                continue
            fits = isinstance(form, Packed) and form.at in ((0, 1), (0, MERGED))
            if not fits or not isinstance(form, Packed):
                shape = show_shape(self.old[field].shape)
                raise Unsupported(
                    f"ragged: result {k}: expected the item axis and the ragged axis first, found "
                    f"{shape}"
                )
            self.offsets.append(form.dim.offsets_name)
        return found


def _checked(binding: Binding) -> Call | None:
    """Return the call of a check of elements, or None."""
    value = binding.value
    is_call = isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op)
    return value if is_call and value.op.name == CHECKED else None


__all__ = ["RaggedBatches"]
