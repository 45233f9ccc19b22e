"""Loops that write one row of a tensor in each iteration, such as JAX's ``jax.lax.scan``.

JAX's loop starts with a tensor of zeros, and iteration i replaces its row i. If every row is
written, the converted loop collects the rows, and no iteration copies the tensor. A loop that runs
backwards writes row ``limit - 1 - i``.
"""

from __future__ import annotations

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Expr, op
from tvm_disc.frontends.stablehlo.blocks import results_of
from tvm_disc.frontends.stablehlo.node import StableHLONode, direction, owner, short_name
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.visit import post_order


class NotStacked(Unsupported):
    """Raised if a loop does not write exactly one row of a stacked tensor, or reads the tensor."""


class Stacks:
    """The tensors of a loop of which each iteration writes one row.

    Attributes:
        counter: the index of the loop value that counts iterations from 0.
        limit: the number of iterations.
        variables: for each stacked tensor, the variable that represents it in the body.
        rows: a mapping whose keys are the indices of the stacked loop values.
    """

    def __init__(self, n: StableHLONode, counter: int, limit: Expr, stacked: list[int]) -> None:
        self.n, self.counter, self.limit = n, counter, limit
        self.variables: dict[int, Expr] = {}
        self.rows: dict[int, Expr | None] = dict.fromkeys(stacked)
        self._index: Expr | None = None
        self._backwards: dict[int, bool] = {}
        self._written: dict[int, Expr] = {}
        self._replaced: dict[int, Expr] = {}

    @staticmethod
    def of(n: StableHLONode, constant: set[int]) -> Stacks | None:
        """Return the tensors of a loop that may be stacked, or None if there are none.

        The loop must count up to a limit, and the first dim of the tensors must be this limit.
        ``constant`` are the indices of loop values that no iteration changes.
        """
        found = _counter(n)
        if found is None:
            return None
        counter, limit = found
        wanted = n.infer.formula_of(n.cast(limit, "int64"))
        if wanted is None:
            return None
        others = [k for k in range(len(n)) if k not in constant and k != counter]
        stacked = [k for k in others if n.rank(n[k]) and n.same(n.formulas(n[k])[0], wanted)]
        return Stacks(n, counter, limit, stacked) if stacked else None

    def begin(self, index: Expr) -> None:
        """Start the conversion of the body; ``index`` is the expression of the iteration."""
        n = self.n
        self._index, self._written = index, {}
        for k in self.rows:
            ty = rt.TensorType(
                tuple(rt.Any() if d is None else d for d in n.literals(n[k])), n.dtype(n[k])
            )
            self.variables[k] = n.variable(f"stack_{k}", n[k], ty)
            self._replaced[k] = n.variable(f"stacked_{k}", n[k], ty)

    def write(self, tensor: Expr, update: Expr, starts: list[Expr]) -> Expr | None:
        """Record the row that the iteration writes to ``tensor``, if it is stacked.

        Returns the variable that represents the tensor after the write, or None if ``tensor`` is
        not stacked.

        Raises:
            NotStacked: the update is not exactly the row of the iteration.
        """
        n = self.n
        for k, variable in self.variables.items():
            if tensor is not variable:
                continue
            rest = all(n.is_zero(s) for s in starts[1:])
            backwards = self._is_last(starts[0])
            if not (backwards or starts[0] is self._index):
                raise NotStacked("expected an update of the row at the index of the iteration")
            if n.literals(update)[0] != 1 or not rest or not self._covers(k, update):
                raise NotStacked("expected an update of one complete row")
            self._backwards[k] = backwards
            self._written[k] = n.squeeze(update, [0])
            return self._replaced[k]
        return None

    def _covers(self, k: int, update: Expr) -> bool:
        """Return whether the known dims of a row agree with those of the stacked tensor."""
        pairs = zip(self.n.literals(update)[1:], self.n.literals(self.n[k])[1:], strict=True)
        return all(a is None or b is None or a == b for a, b in pairs)

    def _is_last(self, start: Expr) -> bool:
        """Return whether an index is ``limit - index - 1``."""
        n = self.n
        inner = _difference(start)
        one = None if inner is None else n.known(inner[1])
        if inner is None or one is None or one.item() != 1:
            return False
        pair = _difference(inner[0])
        return pair is not None and pair[1] is self._index and n.equal_values(pair[0], self.limit)

    def whole(self, k: int, rows: Expr) -> Expr:
        """Return the stacked tensor ``k`` after the loop, from the collected rows."""
        n = self.n
        made = n.reshape(rows, n.sizes(n[k]))
        return op("reverse", made, axis=0) if self._backwards[k] else made

    def end(self, results: list[Expr], new: list[Expr]) -> list[Expr]:
        """Return the rows that the iteration has written, one for each stacked tensor.

        ``results`` are all results of the body, ``new`` those that are not stacked.

        Raises:
            NotStacked: a stacked tensor is not written, or is read.
        """
        rows = []
        for k in self.rows:
            if results[k] is not self._replaced[k]:
                raise NotStacked("expected a row that is written to each tensor")
            rows.append(self._written[k])
        own = {id(v) for v in (*self.variables.values(), *self._replaced.values())}
        if _reads([*new, *rows], own):
            raise NotStacked("the loop reads a tensor whose rows it writes")
        return rows


def _counter(n: StableHLONode) -> tuple[int, Expr] | None:
    """Return (index, limit) if a loop value counts 0, 1, ... while it is less than a limit."""
    cond, body = n.block(0), n.block(1)
    compare = owner(results_of(cond)[0])
    if compare is None or short_name(compare) != "compare" or direction(compare) != "LT":
        return None
    index = next((k for k, a in enumerate(cond.arguments) if a == compare.operands[0]), None)
    if index is None or len(list(cond.operations)) != 2:
        return None
    known = n.known(n[index])
    if known is None or known.any():
        return None
    step = owner(results_of(body)[index])
    if step is None or short_name(step) != "add" or step.operands[0] != body.arguments[index]:
        return None
    one = n.walk.value(step.operands[1]) if step.operands[1] in n.walk.values else None
    value = None if one is None else n.known(one)
    if value is None or value.size != 1 or value.item() != 1:
        return None
    limit = compare.operands[1]
    return (index, n.walk.value(limit)) if limit in n.walk.values else None


def _difference(x: Expr) -> tuple[Expr, Expr] | None:
    """Return the operands of a subtraction, or None for any other expression."""
    if isinstance(x, ast.Call) and getattr(x.op, "name", "") == "subtract":
        return x.args[0], x.args[1]
    return None


def _reads(exprs: list[Expr], own: set[int]) -> bool:
    """Return whether the expressions contain a variable whose ``id`` is in ``own``."""
    return any(id(x) in own for x in post_order(*exprs))


__all__ = ["NotStacked", "Stacks"]
