"""Branches and loops as Relay has them: functions of what they read.

What a branch or a turn reads from outside becomes an argument, so that it is computed once and
before; inside it is a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeAlias

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calc import Calc, Dim, Expr, const, op
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt

Exprs: TypeAlias = "list[Expr]"
Branch: TypeAlias = Callable[[Exprs], Exprs]
More: TypeAlias = Callable[[Exprs, Exprs], Expr]
Turn: TypeAlias = Callable[[Exprs, Exprs], "tuple[Exprs, Exprs]"]

_NUMBERS = count()


def choose(n: Calc, cond: Expr, reads: Sequence[Expr], then: Branch, other: Branch) -> list[Expr]:
    """The results of one of two branches, which are given what they read."""
    params = [ast.Var(f"read_{k}") for k in range(len(reads) + 1)]
    for var, value in zip(params, (cond, *reads), strict=True):
        n.infer.stands_for(var, value)
    made = []
    for branch in (then, other):
        with n.infer.scope():
            made.append(branch(list(params[1:])))
    many = len(made[0])
    if len(made[1]) != many:
        raise TypeMismatch(f"the branches give {many} and {len(made[1])} results")
    for k, (a, b) in enumerate(zip(*made, strict=True)):
        made[0][k], made[1][k] = _alike(n, a, b)
    bodies = [ast.Tuple(tuple(b)) if many != 1 else b[0] for b in made]
    func = ast.Function(params, ast.If(params[0], bodies[0], bodies[1]))
    found = ast.Call(func, (cond, *reads))
    return [found] if many == 1 else [ast.TupleGetItem(found, k) for k in range(many)]


def _alike(n: Calc, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Two results, single numbers in the form of the greater rank."""
    x, y = n.literals(a), n.literals(b)
    ones = all(d == 1 for d in (*x, *y))
    if len(x) == len(y) or not ones:
        return a, b
    dims: list[Dim] = [1] * max(len(x), len(y))
    return n.reshape(a, dims), n.reshape(b, dims)


class UnknownRows(Unsupported):
    """Nothing before a loop says what dims the rows have that it gathers."""


class Loop:
    """A loop whose state are tensors, and that may gather a row of each turn.

    Dims that are proved equal before the loop are one dim inside, as long as a turn keeps them.

    Attributes:
        fixed: tensors that every turn reads.
        state: tensors that every turn replaces; the first values.
    """

    def __init__(self, n: Calc, fixed: Sequence[Expr], state: Sequence[Expr]) -> None:
        self.n, self.fixed, self.state = n, list(fixed), list(state)
        self.outer: list[tuple[Any, rt.Any, Dim]] = []  # formula, name and length of a dim
        self.fixed_types = [self._named(x) for x in fixed]
        self.types = [self._named(x) for x in state]

    def _named(self, x: Expr) -> rt.TensorType:
        """The type of a tensor, each dim that is no number with a name."""
        ty = self.n.type(x)
        dims: list[rt.Dim] = list(ty.shape)
        for axis, formula in enumerate(self.n.infer.dims_of(x)):
            if not isinstance(dims[axis], int):
                dims[axis] = self._name(x, axis, formula)
        return rt.TensorType(tuple(dims), ty.dtype)

    def _name(self, x: Expr, axis: int, formula: Any) -> rt.Any:
        for known, name, _ in self.outer:
            if self.n.infer.same(known, formula):
                return name
        made = rt.Any(f"loop_{next(_NUMBERS)}")
        self.outer.append((formula, made, self.n.size(x, axis)))
        return made

    def run(self, more: More, turn: Turn) -> tuple[list[Expr], list[Expr]]:
        """(the last state, the rows of all turns).

        Turns go on while ``more(fixed, state)`` holds; ``turn(fixed, state)`` gives the next
        state, and rows. What a turn does to dims is found by trying.
        """
        rows: list[tuple[Expr, rt.TensorType]] = []
        while True:
            fixed = [ast.Var(f"fixed_{k}", t) for k, t in enumerate(self.fixed_types)]
            state = [ast.Var(f"state_{k}", t) for k, t in enumerate(self.types)]
            with self.n.infer.scope():
                for var in (*fixed, *state):
                    self.n.infer.declare(var)
                cond = more(list(fixed), list(state))
                new, gathered = turn(list(fixed), list(state))
                wider = [
                    self._kept(var, x, k) for k, (var, x) in enumerate(zip(state, new, strict=True))
                ]
                settled = all(a is b for a, b in zip(wider, self.types, strict=True))
                if settled:
                    rows = [self._blank(x, (*fixed, *state)) for x in gathered]
                    return self._call(fixed, state, cond, (new, gathered), rows)
            self.types = wider

    def _kept(self, var: ast.Var, new: Expr, k: int) -> rt.TensorType:
        """The type of a state that holds before a turn and after it."""
        old, found = self.types[k], self.n.type(new)
        if old.dtype != found.dtype or len(old.shape) != len(found.shape):
            raise TypeMismatch(f"state {k} of a loop is {old} before a turn and {found} after it")
        pairs = zip(self.n.infer.dims_of(var), self.n.infer.dims_of(new), strict=True)
        same = [self.n.infer.same(a, b) for a, b in pairs]
        dims = [
            d if s or (isinstance(d, rt.Any) and d.name is None) else rt.Any()
            for d, s in zip(old.shape, same, strict=True)
        ]
        unchanged = all(a is b or a == b for a, b in zip(dims, old.shape, strict=True))
        return old if unchanged else rt.TensorType(tuple(dims), old.dtype)

    def _blank(self, row: Expr, inside: Sequence[ast.Var]) -> tuple[Expr, rt.TensorType]:
        """Nothing yet of rows, whose dims are those of what the loop reads."""
        ty = self.n.type(row)
        names = {d.name: size for _, d, size in self.outer}
        known: list[tuple[Any, rt.Any]] = []
        for var in inside:
            assert isinstance(var.type_annotation, rt.TensorType)
            for d, formula in zip(
                var.type_annotation.shape, self.n.infer.dims_of(var), strict=True
            ):
                if isinstance(d, rt.Any) and d.name in names:
                    known.append((formula, d))
        sizes: list[Dim] = [0]
        dims: list[rt.Dim] = [rt.Any()]
        for d, formula in zip(ty.shape, self.n.infer.dims_of(row), strict=True):
            name = next((x for f, x in known if self.n.infer.same(f, formula)), None)
            if not isinstance(d, int) and name is None:
                raise UnknownRows("what a loop gathers must have dims that are known before it")
            sizes.append(d if isinstance(d, int) else names[name.name])  # type: ignore[union-attr]
            dims.append(d if isinstance(d, int) else name)  # type: ignore[arg-type]
        return self.n.full(0, sizes, ty.dtype), rt.TensorType(tuple(dims), ty.dtype)

    def _call(
        self,
        fixed: list[ast.Var],
        state: list[ast.Var],
        cond: Expr,
        made: tuple[list[Expr], list[Expr]],
        rows: list[tuple[Expr, rt.TensorType]],
    ) -> tuple[list[Expr], list[Expr]]:
        """The loop as a function that calls itself last."""
        loop = ast.Var("loop")
        done = [ast.Var(f"rows_{k}", t) for k, (_, t) in enumerate(rows)]
        grown = [self.n.concat([d, self._line(x)], 0) for d, x in zip(done, made[1], strict=True)]
        again = ast.Call(loop, (*fixed, *made[0], *grown))
        body = ast.If(cond, again, ast.Tuple((*state, *done)))
        params = [ast.Var(f"first_{k}") for k in range(len(fixed) + len(state) + len(done))]
        func = ast.Function((*fixed, *state, *done), body)
        whole = ast.Function(params, ast.Let(loop, func, ast.Call(loop, params)))
        found = ast.Call(whole, (*self.fixed, *self.state, *(blank for blank, _ in rows)))
        results: list[Expr] = [ast.TupleGetItem(found, k) for k in range(len(state) + len(done))]
        return results[: len(state)], results[len(state) :]

    def _line(self, row: Expr) -> Expr:
        return self.n.expand(row, 0)


def counted(
    n: Calc, times: Dim, fixed: Sequence[Expr], state: Sequence[Expr], turn: Callable[..., Any]
) -> tuple[list[Expr], list[Expr]]:
    """As :meth:`Loop.run`, of ``turn(t, fixed, state)`` for t from 0 up to ``times``.

    The state keeps its shape, and so do rows; a turn may not show it.
    """
    try:
        return _counted(n, times, fixed, state, turn)
    except UnknownRows:
        first = turn(const(0, "int64"), list(fixed), list(state))[1]
        shapes = [op("dyn.full", const(False), n.shape(r), shape=None, dtype="bool") for r in first]

    def steady(t: Expr, given: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        new, rows = turn(t, given[: len(fixed)], now)
        return _laid(n, new, now), _laid(n, rows, given[len(fixed) :])

    return _counted(n, times, [*fixed, *shapes], state, steady)


def _laid(n: Calc, items: Sequence[Expr], like: Sequence[Expr]) -> list[Expr]:
    """Tensors under the shapes of others."""
    return [
        n.reshape(x, n.sizes(y)) if n.rank(x) == n.rank(y) else x
        for x, y in zip(items, like, strict=True)
    ]


def _counted(
    n: Calc, times: Dim, fixed: Sequence[Expr], state: Sequence[Expr], turn: Callable[..., Any]
) -> tuple[list[Expr], list[Expr]]:
    loop = Loop(n, [n.scalar(times), *fixed], [const(0, "int64"), *state])

    def more(given: list[Expr], now: list[Expr]) -> Expr:
        return n.less(now[0], given[0])

    def next_(given: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        new, rows = turn(now[0], given[1:], now[1:])
        return [n.add(now[0], 1), *new], rows

    last, rows = loop.run(more, next_)
    return last[1:], rows


__all__ = ["Loop", "UnknownRows", "choose", "counted"]
