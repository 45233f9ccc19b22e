"""Converters of loops, conditionals, maps and optimization barriers."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_disc.frontends.calc import Expr
from tvm_disc.frontends.loop import TensorLoop, choose, counted
from tvm_disc.frontends.stablehlo.blocks import results_of
from tvm_disc.frontends.stablehlo.node import StableHLONode
from tvm_disc.frontends.stablehlo.operators.stacks import NotStacked, Stacks
from tvm_disc.frontends.stablehlo.table import OperationRow
from tvm_disc.relay import expr as ast


def _while(n: StableHLONode) -> list[Expr]:
    """Convert a loop.

    Loop values that no iteration changes become values that the iterations read. Tensors to which
    the iterations write rows are collected, see :class:`Stacks`.
    """
    pairs = zip(n.block(1).arguments, results_of(n.block(1)), strict=True)
    constant = {k for k, (a, b) in enumerate(pairs) if a == b}
    stacks = Stacks.of(n, constant)
    try:
        return _Iterations(n, constant, stacks).run()
    except NotStacked:
        return _Iterations(n, constant, None).run()


class _Iterations:
    """Conversion of one loop.

    Attributes:
        unchanged: the indices of loop values that no iteration changes.
        changing: the indices of loop values that iterations change, except stacked tensors.
        sizes: the MLIR values that the loop reads and that are dims.
        tensors: the other values that the loop reads.
        lines: vectors that carry sizes into the loop, as their lengths. A scalar would not do:
            inside the body, a dim can be proved equal to an outer dim only if it is part of a
            shape.
        places: the (tensor, axis) that has each size, see :meth:`_carriers`.
    """

    def __init__(self, n: StableHLONode, constant: set[int], stacks: Stacks | None) -> None:
        self.n, self.stacks = n, stacks
        self.unchanged = sorted(constant)
        stacked = set() if stacks is None else set(stacks.rows)
        self.changing = [k for k in range(len(n)) if k not in constant and k not in stacked]
        reads = n.outer(0, 1)
        for k in self.unchanged:
            for region in (0, 1):
                reads[n.block(region).arguments[k]] = n[k]
        self.literals = {v: x for v, x in reads.items() if isinstance(x, ast.Constant)}
        reads = {v: x for v, x in reads.items() if v not in self.literals}
        self.sizes = [v for v, x in reads.items() if _is_size(n, x)]
        self.tensors = {v: x for v, x in reads.items() if v not in self.sizes}
        self.kinds = [n.dtype(reads[v]) for v in self.sizes]
        self.lines, self.places = self._carriers([reads[v] for v in self.sizes])

    def _carriers(self, sizes: list[Expr]) -> tuple[list[Expr], list[tuple[int, int]]]:
        """Return the tensors whose shapes carry the sizes into the loop.

        The results are new vectors, and for each size (index, axis) of a tensor that has it. The
        index counts the tensors that the loop reads, then the new vectors. A vector is created only
        if no tensor has the size.
        """
        n, lines = self.n, list[Expr]()
        known = [(n.formulas(x), k) for k, x in enumerate(self.tensors.values())]
        places = []
        for size in sizes:
            wanted = n.infer.formula_of(n.cast(size, "int64"))
            found = [(k, a) for dims, k in known for a, d in enumerate(dims) if n.same(d, wanted)]
            if not found:
                line = n.full(False, [n.cast(size, "int64")], "bool")
                found = [(len(self.tensors) + len(lines), 0)]
                known.append((n.formulas(line), found[0][0]))
                lines.append(line)
            places.append(found[0])
        return lines, places

    def run(self) -> list[Expr]:
        """Return the results of the loop."""
        n = self.n
        fixed = [*self.tensors.values(), *self.lines]
        state = [n[k] for k in self.changing]
        if self.stacks is None:
            last, _ = TensorLoop(n, fixed, state).run(self._more, self._step)
            rows = {}
        else:
            times = n.cast(self.stacks.limit, "int64")
            last, made = counted(n, times, fixed, state, lambda t, f, s: self._step(f, s))
            pairs = zip(self.stacks.rows, made, strict=True)
            rows = {k: self.stacks.whole(k, x) for k, x in pairs}
        found = dict(zip(self.changing, last, strict=True)) | rows
        return [found.get(k, n[k]) for k in range(len(n))]

    def _bound(self, fixed: list[Expr]) -> dict[Any, Expr]:
        """Return the expressions of outer values in a region; ``fixed`` are the variables."""
        n = self.n
        found = dict(zip(self.tensors, fixed, strict=False)) | self.literals
        for v, (k, axis), dtype in zip(self.sizes, self.places, self.kinds, strict=True):
            found[v] = n.cast(n.scalar(n.size(fixed[k], axis)), dtype)
        return found

    def _given(self, region: int, fixed: list[Expr], state: list[Expr]) -> list[Expr]:
        """Return the arguments of a region, for the read tensors and the state."""
        bound, found = self._bound(fixed), dict(zip(self.changing, state, strict=True))
        arguments = self.n.block(region).arguments
        if self.stacks is not None:
            found |= self.stacks.variables
        found |= {k: bound[arguments[k]] for k in self.unchanged}
        return [found[k] for k in range(len(self.n))]

    def _more(self, fixed: list[Expr], state: list[Expr]) -> Expr:
        cond: Expr = self.n.run(0, self._given(0, fixed, state), self._bound(fixed))[0]
        return cond

    def _step(self, fixed: list[Expr], state: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        stacks = self.stacks
        if stacks is None:
            results = self.n.run(1, self._given(1, fixed, state), self._bound(fixed))
            return [results[k] for k in self.changing], []
        stacks.begin(state[self.changing.index(stacks.counter)])
        self.n.walk.stacks.append(stacks)
        try:
            results = self.n.run(1, self._given(1, fixed, state), self._bound(fixed))
        finally:
            self.n.walk.stacks.pop()
        new = [results[k] for k in self.changing]
        return new, stacks.end(results, new)


def _is_size(n: StableHLONode, x: Expr) -> bool:
    """Return whether a value is a nonnegative integer scalar that is computed from dims."""
    if n.rank(x) or not n.dtype(x).startswith(("int", "uint")):
        return False
    return n.infer.is_formula(x) and n.infer.is_natural(x)


def _if(n: StableHLONode) -> list[Expr]:
    cond = n.reshape(n[0], [])
    known = n.known(cond)
    if known is not None:
        return n.run(0 if known.item() else 1, [])
    reads = n.outer(0, 1)

    def branch(region: int, given: list[Expr]) -> list[Expr]:
        return n.run(region, [], dict(zip(reads, given, strict=True)))

    return choose(n, cond, list(reads.values()), partial(branch, 0), partial(branch, 1))


def _case(n: StableHLONode) -> list[Expr]:
    """Convert case; an index that is out of range selects the last region."""
    count = len(list(n.op.regions))
    index = n.reshape(n[0], [])
    known = n.known(index)
    if known is not None:
        chosen = int(known.item())
        return n.run(chosen if 0 <= chosen < count else count - 1, [])
    return _inner(n, n.outer(*range(count)), index, 0, count)


def _inner(
    n: StableHLONode, bound: dict[object, Expr], index: Expr, first: int, count: int
) -> list[Expr]:
    """Return the results of the region ``index``, which is at least ``first``, as nested Ifs.

    ``bound`` are the expressions of the outer values that regions read.
    """
    if first == count - 1:
        return n.run(first, [], bound)
    keys, values = list(bound), [*bound.values(), index]

    def here(given: list[Expr]) -> list[Expr]:
        return n.run(first, [], dict(zip(keys, given, strict=False)))

    def rest(given: list[Expr]) -> list[Expr]:
        return _inner(n, dict(zip(keys, given, strict=False)), given[-1], first + 1, count)

    return choose(n, n.equal(index, n.like(first, index)), values, here, rest)


ROWS: tuple[OperationRow, ...] = (
    OperationRow("while", _while),
    OperationRow("if", _if),
    OperationRow("case", _case),
    # The operators of the region are element-wise, so it is applied to whole tensors.
    OperationRow("map", lambda n: n.run(0, n.inputs)),
    OperationRow("optimization_barrier", lambda n: list(n.inputs)),
)
