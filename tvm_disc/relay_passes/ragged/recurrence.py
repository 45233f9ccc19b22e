"""Recurrent layers: each step of the loop computes only the items that are longer than the step.

    before   loop(t < s):  h[b, w] = f(x[t], h);  rows = concat(rows, h)
    after    loop(t < s):  n = counts[t];  h[n, w] = f(x[first[:n] + t], h[:n])
                           rows[begins[t] :][:n] = h, in place

No step computes an element after the end of an item (``steps.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.graph.nodes import Node
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay_passes.loops.buffers import append, blank, read_sizes
from tvm_disc.relay_passes.loops.form import StepLoop, branch_of, loop_call
from tvm_disc.relay_passes.ragged.forms import Dense, Form, Packed, Padded, RaggedDim
from tvm_disc.relay_passes.ragged.item_axes import ItemAxes
from tvm_disc.relay_passes.ragged.steps import Steps
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import Sequence_, operand_expr, with_operands
from tvm_disc.shape import Solver
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr, GlobalVar, TVMFunction, TVMType, Var

STEPS_FIRST = (1, 0)  # the axes of items and of steps in ``[s, b, ...]``
_COMBINES = "it combines the steps or items in another way than a recurrent layer"


class NotRagged(Exception):
    """Raised with the reason why a loop cannot be ragged."""


@dataclass(frozen=True)
class Result:
    """A result of a converted loop: the rows of step 0, then those of step 1, and so on.

    Attributes:
        ends: whether the result of the model is the last row of each item. In this case, the
            initial states precede the rows of the steps, one row per item.
    """

    rows: Node
    dim: RaggedDim
    ends: bool

    def form(self, values: Values, node: Node) -> Form:
        """Return the form of the result ``node`` of the model."""
        steps, rows = Steps(values, self.dim), operand_expr(self.rows)
        if self.ends:
            call = R.take(rows, operand_expr(steps.last()), 0, "clip")
            return Dense(values.emit(call, [self.dim.items, *node.shape[1:]], node))
        call = R.take(rows, operand_expr(steps.places()), 0, "clip")
        stored = values.dims.stored(node.shape, self.dim, STEPS_FIRST)
        return Packed(values.emit(call, stored, node), self.dim, STEPS_FIRST)


class Recurrence:
    """Converts one loop.

    Args:
        forms: the forms of the arguments; an expression for a scalar that is computed from
            lengths.
        wanted: the positions of the results that the program reads.

    Raises:
        NotRagged: the loop is not a recurrent layer over a ragged input; :meth:`converted` also
            raises it.
    """

    def __init__(
        self, values: Values, loop: StepLoop, forms: Sequence[Form | Expr], wanted: set[int]
    ) -> None:
        self.values, self.loop, self.forms = values, loop, forms
        self.solver: Solver = values.dims.solver
        self.dim = self._dim()
        self.steps = Steps(values, self.dim)
        self.sequences = [k for k, f in enumerate(forms) if isinstance(f, Packed)]
        rows = {k: loop.appended(k) for k in range(len(forms))}
        self.grown = {k: row for k, row in rows.items() if row is not None}
        self.items = [k for k, f in enumerate(forms) if self._has_items(k, f)]
        self.wanted = {k: loop.results[k] for k in wanted}
        self.symbols = self._item_symbols()
        self.axes = ItemAxes(self.symbols, self.solver)
        self._check()

    # -- kinds of parameters -----------------------------------------------------------------------

    def _dim(self) -> RaggedDim:
        count = self.forms[self.loop.limit]
        dim = None if isinstance(count, Dense | Packed | Padded) else self.values.dims.of(count)
        if dim is None or dim.root is not None or self._literal(self.loop.counter) != 0:
            raise NotRagged("its number of iterations is not the length of an item")
        return dim

    def _literal(self, k: int) -> float | None:
        form = self.forms[k]
        node = form.node if isinstance(form, Dense) else None
        return None if node is None or node.value is None else float(node.value)

    def _has_items(self, k: int, form: Form | Expr) -> bool:
        """Return whether axis 0 of an argument is the axis of items."""
        known = self.values.dims
        if not isinstance(form, Dense) or k in self.grown or not form.node.shape:
            return False
        return bool(known.solver.known_eq(form.node.shape[0], self.dim.items))

    def _item_symbols(self) -> list[Expr]:
        places = [(k, 1) for k in (*self.sequences, *self.grown)] + [(k, 0) for k in self.items]
        found = [self.loop.params[k].ty.shape.values[axis] for k, axis in places]
        return [d for d in found if isinstance(d, tirx.Var)]

    def _check(self) -> None:
        """Check the arguments and the operators of an iteration."""
        loop = self.loop
        if not loop.is_core:
            raise NotRagged("an iteration contains more than operators on tensors")
        for k, form in enumerate(self.forms):
            if isinstance(form, Packed):
                fits = form.dim is self.dim and form.at == STEPS_FIRST and loop.is_fixed(k)
            elif isinstance(form, Dense):
                fits = k == loop.counter or k in self.items or self._is_shared(k, form)
                fits = fits or (k in self.grown and self._is_empty(form))
            else:
                fits = loop.is_fixed(k) and tvm.ir.is_prim_expr(form)
            if not fits:
                raise NotRagged(_COMBINES)
        for k in self.wanted.values():
            if k not in self.items and k not in self.grown:
                raise NotRagged(
                    "a result is neither a state of each item nor a value of each step, and the "
                    "number of steps differs between items"
                )

    def _is_shared(self, k: int, form: Dense) -> bool:
        dims = self.values.dims
        used = any(s.same_as(self.dim.items) for s in free_symbols(form.node.shape))
        return self.loop.is_fixed(k) and not used and not dims.axes_of(form.node.shape)

    def _is_empty(self, form: Dense) -> bool:
        return bool(self.solver.known_eq(form.node.shape[0], i64(0)))

    # -- the converted loop ------------------------------------------------------------------------

    def converted(self, name: str) -> tuple[GlobalVar, TVMFunction, dict[int, Result]]:
        """Emit the call; return the name and the function of the loop, and the results by
        position.
        """
        gv = relax.GlobalVar(name)
        body = LoopBody(self, gv)
        func = body.function()
        relax.expr._update_type(gv, func.ty)
        out, ty = self.values.out, func.ret_ty
        whole = relax.Var("steps", ty)
        out.bindings.append(relax.VarBinding(whole, loop_call(gv, body.arguments, ty)))
        found = {}
        for number, (k, ends) in enumerate(body.kept):
            item = tvm.ir.TupleGetItem(whole, number)
            field = relax.Var("field", ty.fields[number])
            out.bindings.append(relax.VarBinding(field, item))
            rows = self.dim.rows + self.dim.items if ends else self.dim.rows
            known = relax.TensorType([rows, *body.rest(k)], str(ty.fields[number].dtype))
            var = relax.Var("rows", known)
            out.bindings.append(relax.MatchCast(var, field, known))
            node = Node("external", (), tuple(known.shape.values), str(known.dtype), var=var)
            out.lookup[var] = node
            found.update(
                {r: Result(node, self.dim, ends) for r, p in self.wanted.items() if p == k}
            )
        return gv, func, found


class LoopBody:
    """The function of a converted loop.

    Attributes:
        arguments: the arguments of the call.
        kept: pairs (parameter whose rows the loop returns, whether it is a state).
    """

    def __init__(self, of: Recurrence, gv: GlobalVar) -> None:
        self.of, self.gv, self.loop, self.values = of, gv, of.loop, of.values
        self.kept = [(k, k in of.items) for k in dict.fromkeys(of.wanted.values())]
        self.params: list[Var] = []
        self.arguments: list[Expr] = []
        self.out = Sequence_(of.solver, {})
        self.made: dict[Node, Node] = {}  # value of the model -> its rows that have this step
        self.rows: dict[int, Var] = {}
        self.first: dict[bool, Node] = {}  # is backward -> row of each item at the first step
        self._parameters()

    def rest(self, k: int) -> list[Expr]:
        """Return the dims of one row of parameter ``k``."""
        return list(self.loop.params[k].ty.shape.values)[1 if k in self.of.items else 2 :]

    def function(self) -> TVMFunction:
        """Return the loop."""
        ty = tvm.ir.TupleType(
            [
                relax.TensorType(None, str(v.ty.dtype), ndim=len(v.ty.shape.values))
                for v in self.rows.values()
            ]
        )
        test = self.out.emit(R.less(self.params[1], self.params[0]), [], "bool")
        again = self._iteration(ty)
        done = relax.Tuple(list(self.rows.values()))
        branches = [again, branch_of([], done, ty)]
        chosen = relax.If(test.var, *branches)
        relax.expr._update_type(chosen, ty)
        var = relax.Var("results", ty)
        bindings = [*self.out.bindings, relax.VarBinding(var, chosen)]
        body = relax.SeqExpr([relax.BindingBlock(bindings)], var)
        made = relax.Function(self.params, body, ty, True)
        named: TVMFunction = made.with_attr("global_symbol", str(self.gv.name_hint))
        return named

    # -- parameters --------------------------------------------------------------------------------

    def _parameters(self) -> None:
        of, steps = self.of, self.of.steps
        count = self.values.out.emit(
            R.reshape(operand_expr(self._length()), relax.ShapeExpr([])), [], "int64"
        )
        self._parameter("steps", count)
        self.step = self._parameter("step", of.forms[self.loop.counter].node)
        self.counts = self._parameter("counts", steps.counts())
        self.begins = self._parameter("begins", steps.begins())
        self.first = {back: self._parameter("first", steps.first(back)) for back in self._ways()}
        for k, form in enumerate(of.forms):
            old = self.loop.nodes[self.loop.params[k]]
            if k in of.items:
                self.made[old] = self._parameter("state", self._in_order(form.node))
            elif isinstance(form, Packed) or (isinstance(form, Dense) and of._is_shared(k, form)):
                self.made[old] = self._parameter("given", form.node)
        for k, ends in self.kept:
            self.rows[k] = self._parameter("rows", self._memory(k, ends)).var

    def _length(self) -> Node:
        call = R.shape_to_tensor(relax.ShapeExpr([self.of.dim.size]))
        return self.values.out.emit(call, [i64(1)], "int64")

    def _memory(self, k: int, ends: bool) -> Node:
        """Emit a buffer for the rows of all steps; if ``ends``, it begins with the initial
        states.
        """
        out, dtype = self.values.out, str(self.loop.params[k].ty.dtype)
        dim, rest = self.of.dim, self.rest(k)
        rows = dim.rows + dim.items if ends else dim.rows
        buffer = blank(out, [rows, *rest], dtype, len(out.bindings))
        if not ends:
            return buffer
        return append(out, buffer, self._in_order(self.of.forms[k].node), i64(0))

    def _in_order(self, node: Node) -> Node:
        call = R.take(operand_expr(node), operand_expr(self.of.steps.order()), 0, "clip")
        return self.values.emit(call, node.shape, node)

    def _ways(self) -> list[bool]:
        """Return the directions in which the iteration reads sequences; True means backward."""
        reads = [n for n in self.loop.nodes.values() if self._sequence(n) is not None]
        return list(dict.fromkeys(self._backward(n.inputs[1]) for n in reads))

    def _parameter(self, name: str, given: Node) -> Node:
        solver = self.of.solver
        dims = [
            d if isinstance(d, tirx.IntImm) else solver.symbol(f"{name}_{k}", "a dim of a loop")
            for k, d in enumerate(given.shape)
        ]
        if name == "rows":
            dims[0] = solver.symbol("rows", "a dim of a loop")
        var = relax.Var(name, relax.TensorType(dims, given.dtype))
        node = Node("param", (), tuple(dims), given.dtype, var=var)
        self.out.lookup[var] = node
        self.params.append(var)
        self.arguments.append(operand_expr(given))
        return node

    # -- an iteration ------------------------------------------------------------------------------

    def _iteration(self, ty: TVMType) -> Expr:
        out = Sequence_(self.of.solver, self.out.lookup)
        self.inner = out
        self.going, self.before = self._going()
        for k in self.of.items:
            old = self.loop.nodes[self.loop.params[k]]
            self.made[old] = self._begin(self.made[old])
        self.made[self.loop.nodes[self.loop.params[self.loop.counter]]] = self.step
        self.places = {back: self._place(back) for back in self.first}
        for binding in self.loop.body:
            self._value(self.loop.nodes[binding.var])
        return branch_of(out.bindings, loop_call(self.gv, self._next(), ty), ty)

    def _going(self) -> list[Var]:
        """Emit the number of items that have this step, and the number of rows of earlier steps."""
        out, step = self.inner, operand_expr(self.step)
        found = [
            out.emit(R.take(operand_expr(table), step, 0, "clip"), [], "int64")
            for table in (self.counts, self.begins)
        ]
        return read_sizes(out, found, ["going", "before"])

    def _begin(self, node: Node) -> Node:
        """Return the entries of the items that have this step."""
        call = R.strided_slice(operand_expr(node), [0], [0], [self.going], [1], assume_inbound=True)
        return self.inner.emit(call, [self.going, *node.shape[1:]], node.dtype)

    def _place(self, backward: bool) -> Node:
        """Return for each item the row of its element at this step."""
        first, step = operand_expr(self._begin(self.first[backward])), operand_expr(self.step)
        call = R.subtract(first, step) if backward else R.add(first, step)
        return self.inner.emit(call, [self.going], "int64")

    def _sequence(self, node: Node) -> int | None:
        """Return the position of the sequence parameter that a node reads at one step, or None."""
        known = node.inputs[0] if node.op == "relax.take" else None
        return next(
            (k for k in self.of.sequences if self.loop.nodes[self.loop.params[k]] is known), None
        )

    def _backward(self, index: Node) -> bool:
        """Return whether an index counts from the last element.

        Raises:
            NotRagged: the index counts neither from the last element nor from the first.
        """
        counter = self.loop.nodes[self.loop.params[self.loop.counter]]
        if index is counter:
            return False
        last = None
        if index.op == "relax.subtract" and index.inputs[1] is counter:
            places = {self.loop.nodes[p]: k for k, p in enumerate(self.loop.params)}
            last = places.get(index.inputs[0])
        form = None if last is None else self.of.forms[last]
        if form is None or not tvm.ir.is_prim_expr(form):
            raise NotRagged(_COMBINES)
        if not self.of.solver.known_eq(form, self.of.dim.size - 1):
            raise NotRagged(_COMBINES)
        return True

    def _value(self, node: Node) -> None:
        """Emit the value of an iteration for the items that have this step."""
        of, nodes = self.of, self.loop.nodes
        sequence = self._sequence(node)
        if sequence is not None:
            table = operand_expr(self.made[nodes[self.loop.params[sequence]]])
            place = operand_expr(self.places[self._backward(node.inputs[1])])
            shape = [self.going, *node.shape[1:]]
            if int(node.attrs["axis"] or 0) != 0 or node.inputs[1].shape:
                raise NotRagged(_COMBINES)
            self.made[node] = self.inner.emit(R.take(table, place, 0, "clip"), shape, node.dtype)
            return
        if any(node is nodes.get(self.loop.again[k]) for k in of.grown) or self._only_counts(node):
            return
        reason = of.axes.reason(node)
        if reason is not None:
            raise NotRagged(f"{node.label}: {reason}")
        operands = []
        for x in node.inputs:
            if x.op != "const" and x not in self.made:
                raise NotRagged(_COMBINES)
            operands.append(operand_expr(x if x.op == "const" else self.made[x]))
        replaced: dict[Expr, Expr] = dict.fromkeys(of.symbols, self.going)
        call = with_operands(node, operands)
        args = [substitute(a, replaced) if isinstance(a, relax.ShapeExpr) else a for a in call.args]
        call = tvm.ir.Call(call.op, args, call.attrs, call.ty_args)
        shape = [substitute(d, replaced) for d in node.shape]
        self.made[node] = self.inner.emit(call, shape, node.dtype, node)

    def _only_counts(self, node: Node) -> bool:
        """Return whether a value is used only as the index of a sequence."""
        users = [n for n in self.loop.nodes.values() if node in n.inputs]
        again = any(self.loop.nodes.get(x) is node for x in self.loop.again)
        reads = bool(users) and all(self._sequence(n) is not None for n in users)
        return reads and not again and not node.shape

    def _next(self) -> list[Expr]:
        """Return the arguments of the next iteration."""
        loop, of = self.loop, self.of
        found: list[Expr] = list(self.params)
        places = {p: k for k, p in enumerate(self.params)}
        counter = self.made[loop.nodes[loop.again[loop.counter]]]
        found[places[self.step.var]] = operand_expr(counter)
        states = [p for p in self.params if str(p.name) == "state"]
        for k, param in zip(of.items, states, strict=True):
            found[places[param]] = operand_expr(self._new(loop.again[k]))
        items = next(iter(self.first.values())).shape[0]
        for k, ends in self.kept:
            row = self._new(loop.again[k]) if ends else self._flat(k)
            buffer = self.inner.lookup[self.rows[k]]
            begin = self.before + items if ends else self.before
            made = append(self.inner, buffer, row, begin)
            found[places[self.rows[k]]] = operand_expr(made)
        return found

    def _new(self, expr: Expr) -> Node:
        old = self.loop.nodes.get(expr)
        if old is None or old not in self.made:
            raise NotRagged(_COMBINES)
        return self.made[old]

    def _flat(self, k: int) -> Node:
        """Return the rows that an iteration appends to parameter ``k``, one per item."""
        row = self.made[self.of.grown[k]]
        shape = [self.going, *self.rest(k)]
        return self.inner.emit(reshape_call(operand_expr(row), shape), shape, row.dtype)


__all__ = ["NotRagged", "Recurrence", "Result"]
