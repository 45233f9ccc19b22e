"""Convert the loops of a program that becomes ragged, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tvm
from tvm import relax

from tvm_disc.graph.nodes import Node, const_node
from tvm_disc.relay_passes.loops.form import StepLoop
from tvm_disc.relay_passes.ragged.forms import Dense, Form
from tvm_disc.relay_passes.ragged.recurrence import NotRagged, Recurrence, Result
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.typing import Binding, Expr, GlobalVar, TVMFunction, TVMModule, Var


class RecurrentLoops:
    """The loops that the main function calls.

    Attributes:
        functions: the converted loops.
        counts: scalars that only loops read, and the values from which they are computed -> the
            dim whose size they contain.
    """

    def __init__(
        self, mod: TVMModule, bindings: Sequence[Binding], old: Mapping[Expr, Node]
    ) -> None:
        self.old = old
        self.functions: dict[GlobalVar, TVMFunction] = {}
        self._calls: dict[Expr, StepLoop] = {}
        self._fields: dict[Expr, tuple[Expr, int]] = {}  # variable -> (loop, result position)
        self._results: dict[tuple[Expr, int], Result] = {}
        for binding in bindings:
            self._read(mod, binding)
        self.counts = self._counts()

    def _read(self, mod: TVMModule, binding: Binding) -> None:
        value = binding.value
        if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            found = StepLoop.read(mod[value.op], value)
            if found is not None:
                self._calls[binding.var] = found
        elif isinstance(value, tvm.ir.TupleGetItem) and value.tuple_value in self._calls:
            self._fields[binding.var] = (value.tuple_value, int(value.index))
        elif isinstance(binding, relax.MatchCast) and value in self._fields:
            self._fields[binding.var] = self._fields[value]

    def _counts(self) -> dict[Node, Expr]:
        found: dict[Node, Expr] = {}
        for arg in (x for loop in self._calls.values() for x in loop.call.args):
            node = self.old.get(arg)
            chain: list[Node] = []
            while node is not None and node.op == "relax.reshape" and not node.shape:
                chain, node = [*chain, node], node.inputs[0]
            if node is None or node.op != "relax.shape_to_tensor":
                continue
            if not chain or chain[0].users:  # a vector of sizes, or a scalar with other readers
                continue
            alone = all(len(x.users) == 1 for x in (*chain[1:], node))
            if alone and not any(x.is_output for x in (*chain, node)):
                found.update(dict.fromkeys((*chain, node), node.prims[0][0]))
        return found

    def binds(self, var: Expr) -> bool:
        """Return whether a variable is bound to a loop."""
        return var in self._calls

    def is_result(self, var: Expr) -> bool:
        """Return whether a variable is a result of a loop."""
        return var in self._fields

    def convert(self, values: Values, var: Var, operand: Callable[[Node], Form]) -> None:
        """Convert the loop to which a variable is bound, and emit its call.

        Raises:
            NotRagged: the loop is not a recurrent layer.
        """
        loop = self._calls[var]
        forms = [self._form(x, operand) for x in loop.call.args]
        wanted = {k for v, (of, k) in self._fields.items() if of.same_as(var) and self._is_read(v)}
        made = Recurrence(values, loop, forms, wanted)
        gv, func, results = made.converted(f"{loop.call.op.name_hint}_ragged")
        self.functions[gv] = func
        self._results.update({(var, k): result for k, result in results.items()})

    def _form(self, x: Expr, operand: Callable[[Node], Form]) -> Form | Expr:
        if isinstance(x, tvm.ir.GenericConst):
            return Dense(const_node(x))
        node = self.old[x]
        return self.counts[node] if node in self.counts else operand(node)

    def _is_read(self, var: Expr) -> bool:
        node = self.old.get(var)
        return node is not None and (bool(node.users) or node.is_output)

    def form(self, values: Values, node: Node) -> Form:
        """Return the form of a result of a loop."""
        found = self._results[self._fields[node.var]]
        return found.form(values, node)


__all__ = ["NotRagged", "RecurrentLoops"]
