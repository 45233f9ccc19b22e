"""Dims of the results of a loop: those that no iteration changes, and those that grow by a constant
in a loop that counts.

    loop(t, n, x[b, 8], rows[r, 8]) = if t < n { loop(t + 1, n, f(x), concatenate(rows, g(x))) }
                                      else { (x, rows) }

By induction, b of the result is that of the initial x. If g returns one row, r of the result is the
initial r plus ``max(n - t, 0)`` for the initial t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import as_expr, value_of
from tvm_disc.typing import Expr, Var


class Invariants:
    """What is proved of the dims of a loop.

    Args:
        func: the function in tail-recursive form.
        args: the initial values of its parameters.
        state: the parameters, with a symbol for each dim that is not a literal.
        after: the arguments of every recursive call.
    """

    def __init__(
        self,
        ctx: Emitter,
        func: ast.Function,
        args: Sequence[Tensor],
        state: Sequence[Tensor],
        after: Sequence[Sequence[Tensor]],
    ) -> None:
        self.ctx, self.func, self.args, self.state, self.after = ctx, func, args, state, after
        self.final: dict[Expr, Expr] = {}
        places = self._places()
        for symbol, found in places.items():
            if all(self.ctx.same(d, symbol) for at in found for d in self._next(at)):
                self.final[symbol] = self._initial(found[0])
        kept, trips = list(self.final), self.trips()
        for symbol, found in places.items():
            step = None if trips is None or symbol in self.final else self._step(found, kept)
            if trips is not None and step is not None:
                grown = self._initial(found[0]) + self._first(step) * trips
                self.final[symbol] = self.ctx.simplify(grown)

    def dims(self, value: Any) -> Any:
        """Return the known dims of a result, None for others; tuples as tuples."""
        if isinstance(value, tuple):
            return tuple(self.dims(v) for v in value)
        if not isinstance(value, Tensor):
            return None
        return [self._known(d) for d in value.dims]

    def _known(self, dim: Expr) -> Expr | None:
        if any(symbol not in self.final for symbol in tirx.analysis.undefined_vars(dim)):
            return None
        known: Expr = self.ctx.simplify(self._first(dim))
        return known

    def _first(self, expr: Expr) -> Expr:
        """Return an expression with symbols replaced by their values after the loop."""

        def one(v: Var) -> Expr:
            return self.final.get(v, v)

        mapped: Expr = tvm_ffi.structural_map(expr, (tvm.ir.Var, one), order="post")
        return mapped

    def _places(self) -> Mapping[Var, list[tuple[int, int]]]:
        """Return where each symbol is a dim of a parameter."""
        found: dict[Var, list[tuple[int, int]]] = {}
        for k, x in enumerate(self.state):
            for axis, d in enumerate(x.dims):
                if isinstance(d, tirx.Var):
                    found.setdefault(d, []).append((k, axis))
        return found

    def _initial(self, at: tuple[int, int]) -> Expr:
        dim: Expr = self.args[at[0]].dims[at[1]]
        return dim

    def _next(self, at: tuple[int, int]) -> list[Expr]:
        return [values[at[0]].dims[at[1]] for values in self.after]

    def _step(self, places: Sequence[tuple[int, int]], kept: Sequence[Expr]) -> Expr | None:
        """Return by how much a dim grows in each iteration, None if this is not known."""
        if len(places) != 1 or len(self.after) != 1:
            return None
        [(k, axis)] = places
        [dim] = self._next(places[0])
        step = self.ctx.simplify(dim - self.state[k].dims[axis])
        return step if all(s in kept for s in tirx.analysis.undefined_vars(step)) else None

    def trips(self) -> Expr | None:
        """Return the number of iterations, None if the loop does not count from a known number to
        a known limit.
        """
        body = self.func.body
        if not isinstance(body, ast.If):
            return None
        cond, again = body.cond, body.true_branch
        if not isinstance(cond, ast.Call) or not _is_call(cond, "less"):
            return None
        if not isinstance(again, ast.Call):
            return None
        number, limit = (self._place(x) for x in cond.args)
        if number is None or limit is None or len(again.args) != len(self.args):
            return None
        if self._place(again.args[limit]) != limit or not self._counts(again.args[number], number):
            return None
        first, last = (value_of(self.args[k]) for k in (number, limit))
        if first is None or last is None or first.size != 1 or last.size != 1:
            return None
        trips = as_expr(last.reshape(-1)[0]) - as_expr(first.reshape(-1)[0])
        known: Expr = self.ctx.simplify(tirx.max(trips, i64(0)))
        return known

    def _place(self, expr: ast.Expr) -> int | None:
        """Return the number of the parameter that an expression is."""
        return next((k for k, p in enumerate(self.func.params) if p is expr), None)

    def _counts(self, expr: ast.Expr, number: int) -> bool:
        """Return whether an expression is the parameter of this number plus one."""
        if not isinstance(expr, ast.Call) or not _is_call(expr, "add"):
            return False
        a, b = expr.args
        one = b if self._place(a) == number else a
        return (
            number in (self._place(a), self._place(b))
            and isinstance(one, ast.Constant)
            and one.data.size == 1
            and one.data.reshape(-1)[0] == 1
        )


def _is_call(expr: ast.Expr, name: str) -> bool:
    return isinstance(expr, ast.Call) and getattr(expr.op, "name", "") == name


__all__ = ["Invariants"]
