"""Conditionals and loops as Relay functions.

A value from outside that a branch or an iteration reads becomes an argument of the function. It is
computed once, before the branch or loop; the body reads it through a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Generic, TypeAlias

from tvm_disc.errors import TypeMismatch
from tvm_disc.frontends.calls import Calls, D, T, UnknownRows
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt

_NUMBERS = count()
_OWN = ("the iteration number",)
_Shape: TypeAlias = "tuple[str, list[tuple[rt.Dim, Callable[[], Any]]]]"


def _itself(x: object) -> object:
    return x


def choose(
    n: Calls[T, D],
    cond: T,
    reads: Sequence[T],
    then: Callable[[list[T]], list[T]],
    other: Callable[[list[T]], list[T]],
) -> list[T]:
    """Return the results of an If of two branches.

    ``then`` and ``other`` receive one parameter for each tensor of ``reads``.
    """
    params = [n.variable(f"read_{k}", x) for k, x in enumerate((cond, *reads))]
    made = []
    for branch in (then, other):
        with n.scope():
            made.append(branch(params[1:]))
    many = len(made[0])
    if len(made[1]) != many:
        raise TypeMismatch(
            "expected the same number of results from both branches, found "
            f"{many} and {len(made[1])}"
        )
    with n.scope():  # facts that a branch requires are not valid outside of it
        for k, (a, b) in enumerate(zip(*made, strict=True)):
            made[0][k], made[1][k] = _alike(n, a, b)
    fields = [[n.expr(x) for x in b] for b in made]
    bodies = [ast.Tuple(tuple(b)) if many != 1 else b[0] for b in fields]
    variables = [_variable(n, p) for p in params]
    func = ast.Function(variables, ast.If(variables[0], bodies[0], bodies[1]))
    found = ast.Call(func, tuple(n.expr(x) for x in (cond, *reads)))
    results = [found] if many == 1 else [ast.TupleGetItem(found, k) for k in range(many)]
    return [_result(n, x, like) for x, like in zip(results, made[0], strict=True)]


def _variable(n: Calls[T, D], x: T) -> ast.Var:
    found = n.expr(x)
    assert isinstance(found, ast.Var)
    return found


def _result(n: Calls[T, D], expr: ast.Expr, like: T) -> T:
    return n.made(expr, lambda: n.sizes(like), like)


def _alike(n: Calls[T, D], a: T, b: T) -> tuple[T, T]:
    """Return ``a`` and ``b``; if both have one element, they are reshaped to the same rank."""
    x, y = n.literals(a), n.literals(b)
    ones = all(d == 1 for d in (*x, *y))
    if len(x) == len(y) or not ones:
        return a, b
    dims: list[Any] = [1] * max(len(x), len(y))
    return n.reshape(a, dims), n.reshape(b, dims)


class TensorLoop(Generic[T, D]):
    """A loop that carries tensors as state, and may collect one row per iteration.

    Dims that are proved equal before the loop have one symbol in the body, unless an iteration
    changes them.

    Attributes:
        fixed: tensors that every iteration reads and none changes.
        state: initial values of the tensors that every iteration replaces.
        own: names, for messages, of the first entries of ``state``, which the model does not have.
        outer: for each unknown dim of these tensors its formula, its name in the body, and its
            size outside.
    """

    def __init__(
        self, n: Calls[T, D], fixed: Sequence[T], state: Sequence[T], own: Sequence[str] = ()
    ) -> None:
        self.n, self.fixed, self.state, self.own = n, list(fixed), list(state), own
        self.outer: list[tuple[object, rt.Any, D]] = []
        self.fixed_types = [self._named(x) for x in fixed]
        self.types = [self._named(x) for x in state]

    def _named(self, x: T) -> rt.TensorType:
        """Return the type of a tensor, with a name for each dim that is not a literal."""
        dims = [
            self._name(x, axis, formula) if known is None else known
            for axis, (known, formula) in enumerate(
                zip(self.n.literals(x), self.n.formulas(x), strict=True)
            )
        ]
        return rt.TensorType(tuple(dims), self.n.dtype(x))

    def _name(self, x: T, axis: int, formula: object) -> rt.Any:
        for known, name, _ in self.outer:
            if self.n.same(known, formula):
                return name
        made = rt.Any(f"loop_{next(_NUMBERS)}")
        self.outer.append((formula, made, self.n.size(x, axis)))
        return made

    def run(
        self,
        more: Callable[[list[T], list[T]], T],
        step: Callable[[list[T], list[T]], tuple[list[T], list[T]]],
        like: Sequence[T] | None = None,
    ) -> tuple[list[T], list[T]]:
        """Return the state after the last iteration, and the concatenated rows of all iterations.

        The loop runs while ``more(fixed, state)`` holds; ``step(fixed, state)`` returns the next
        state and one row for each collected result. The body is converted repeatedly, until the
        types of the state no longer change.

        Args:
            like: tensors with the shapes of the rows, which give the dims that are not known
                before the loop.

        Raises:
            UnknownRows: a dim of a row is not known before the loop, and ``like`` is None.
        """
        n = self.n
        while True:
            fixed, state = self._variables("fixed", True), self._variables("state", False)
            with n.scope():
                cond = more(list(fixed), list(state))
                new, rows = step(list(fixed), list(state))
                wider = [
                    self._kept(var, x, k) for k, (var, x) in enumerate(zip(state, new, strict=True))
                ]
                settled = all(a is b for a, b in zip(wider, self.types, strict=True))
                lines = [n.expand(x, 0) for x in rows]
                known: Sequence[T | None] = like or [None] * len(rows)
                inside = (*fixed, *state)
                shapes = [
                    self._shape(x, inside, y) for x, y in zip(rows, known, strict=True) if settled
                ]
            if settled:
                return self._call(fixed, state, cond, (new, lines), shapes)
            self.types = wider

    def _variables(self, name: str, fixed: bool) -> list[T]:
        """Return the body's variables for the fixed tensors if ``fixed``, else for the state."""
        values, types = (self.fixed, self.fixed_types) if fixed else (self.state, self.types)
        pairs = zip(values, types, strict=True)
        return [self.n.variable(f"{name}_{k}", x, t) for k, (x, t) in enumerate(pairs)]

    def _kept(self, var: T, new: T, k: int) -> rt.TensorType:
        """Return the type of state ``k`` before and after an iteration; changed dims are Any."""
        n, old = self.n, self.types[k]
        if old.dtype != n.dtype(new) or len(old.shape) != n.rank(new):
            name = [*self.own, f"state {k - len(self.own)}"][min(k, len(self.own))]
            raise TypeMismatch(
                f"{name} of a loop: expected {old.dtype} of rank {len(old.shape)} after an "
                f"iteration, as before it, found {n.dtype(new)} of rank {n.rank(new)}"
            )
        same = [n.same(a, b) for a, b in zip(n.formulas(var), n.formulas(new), strict=True)]
        dims = [
            d if s or (isinstance(d, rt.Any) and d.name is None) else rt.Any()
            for d, s in zip(old.shape, same, strict=True)
        ]
        unchanged = all(a is b or a == b for a, b in zip(dims, old.shape, strict=True))
        return old if unchanged else rt.TensorType(tuple(dims), old.dtype)

    def _shape(self, row: T, inside: Sequence[T], like: T | None) -> _Shape:
        """Return the element type of a row, and for each dim its type in the body and a function
        that returns its size outside.
        """
        names = {d.name: size for _, d, size in self.outer}
        known: list[tuple[Any, rt.Any]] = []
        for var in inside:
            ty = _variable(self.n, var).type_annotation
            assert isinstance(ty, rt.TensorType)
            for d, formula in zip(ty.shape, self.n.formulas(var), strict=True):
                if isinstance(d, rt.Any) and d.name in names:
                    known.append((formula, d))
        found: list[tuple[rt.Dim, Callable[[], Any]]] = []
        first = self.n.literals(row if like is None else like)
        for axis, (literal, formula) in enumerate(
            zip(self.n.literals(row), self.n.formulas(row), strict=True)
        ):
            name = next((x for f, x in known if self.n.same(f, formula)), None)
            if literal is not None:
                found.append((literal, partial(_itself, literal)))
            elif name is not None:
                found.append((name, partial(_itself, names[name.name])))
            elif like is None:
                found.append((rt.Any(), partial(self.n.outside, formula)))
            else:
                dim = first[axis]
                found.append((rt.Any() if dim is None else dim, partial(self.n.size, like, axis)))
        return self.n.dtype(row), found

    def _call(
        self,
        fixed: list[T],
        state: list[T],
        cond: T,
        made: tuple[list[T], list[T]],
        shapes: list[_Shape],
    ) -> tuple[list[T], list[T]]:
        """Emit the loop as a call of a tail-recursive function and return its results."""
        n = self.n
        loop = ast.Var("loop")
        done, blank, grown = [], [], []
        for k, (line, (dtype, shape)) in enumerate(zip(made[1], shapes, strict=True)):
            sizes: list[Any] = [0, *(size() for _, size in shape)]
            blank.append(n.full(0, sizes, dtype))
            dims = (rt.Any(), *(d for d, _ in shape))
            done.append(ast.Var(f"rows_{k}", rt.TensorType(dims, dtype)))
            joined = ast.Tuple((done[-1], n.expr(line)))
            grown.append(n.call("concatenate", joined, axis=0))
        given, held = ([_variable(n, x) for x in xs] for xs in (fixed, state))
        again = ast.Call(loop, (*given, *(n.expr(x) for x in made[0]), *grown))
        body = ast.If(n.expr(cond), again, ast.Tuple((*held, *done)))
        params = [ast.Var(f"first_{k}") for k in range(len(given) + len(held) + len(done))]
        func = ast.Function((*given, *held, *done), body)
        whole = ast.Function(params, ast.Let(loop, func, ast.Call(loop, params)))
        found = ast.Call(whole, tuple(n.expr(x) for x in (*self.fixed, *self.state, *blank)))
        fields = [ast.TupleGetItem(found, k) for k in range(len(held) + len(done))]
        last = [_result(n, x, s) for x, s in zip(fields, state, strict=False)]
        return last, [
            n.made(x, partial(self._grown, b), b)
            for x, b in zip(fields[len(held) :], blank, strict=True)
        ]

    def _grown(self, blank: T) -> list[Any]:
        """Return the dims of the collected rows; the first, the number of rows, is None."""
        return [None, *self.n.sizes(blank)[1:]]


def counted(
    n: Calls[T, D], times: D, fixed: Sequence[T], state: Sequence[T], step: Callable[..., Any]
) -> tuple[list[T], list[T]]:
    """Return the results of :meth:`TensorLoop.run` for ``step(t, fixed, state)`` with t in
    [0, times).

    The shapes of the state and of the rows must be the same in all iterations. If this cannot be
    inferred, both are reshaped to the shapes of iteration 0.
    """
    try:
        return _counted(n, times, fixed, state, step)
    except UnknownRows:
        first = step(n.literal(0, "int64"), list(fixed), list(state))[1]
        shapes = [n.full(0, n.sizes(r), "bool") for r in first]

    def steady(t: T, given: list[T], now: list[T]) -> tuple[list[T], list[T]]:
        new, rows = step(t, given[: len(fixed)], now)
        return _laid(n, new, now), _laid(n, rows, given[len(fixed) :])

    return _counted(n, times, [*fixed, *shapes], state, steady)


def _laid(n: Calls[T, D], items: Sequence[T], like: Sequence[T]) -> list[T]:
    """Return ``items``, each reshaped to the shape of its tensor in ``like`` if the ranks agree."""
    return [
        n.reshape(x, n.sizes(y)) if n.rank(x) == n.rank(y) else x
        for x, y in zip(items, like, strict=True)
    ]


def _counted(
    n: Calls[T, D], times: D, fixed: Sequence[T], state: Sequence[T], step: Callable[..., Any]
) -> tuple[list[T], list[T]]:
    loop = TensorLoop(n, [n.scalar(times), *fixed], [n.literal(0, "int64"), *state], _OWN)

    def more(given: list[T], now: list[T]) -> T:
        return now[0] < given[0]

    def next_(given: list[T], now: list[T]) -> tuple[list[T], list[T]]:
        new, rows = step(now[0], given[1:], now[1:])
        return [now[0] + 1, *new], rows

    last, rows = loop.run(more, next_)
    return last[1:], rows


__all__ = ["TensorLoop", "choose", "counted"]
