"""Relax branches for ``if`` and ``match``."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.forms import Forms
from tvm_disc.relay.importer.scopes import BOTTOM, FAILED, Bottom, TailCall
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.walk import ModuleWalk
from tvm_disc.relay.object_ops import object_call
from tvm_disc.typing import UNSET, Binding, Expr


class Branches:
    """Emitter of Relax branches, which merges the values of both branches."""

    def __init__(self, walk: ModuleWalk, forms: Forms) -> None:
        self.walk, self.forms = walk, forms
        self.ctx, self.kinds, self.solver = walk.ctx, walk.kinds, walk.solver

    def _branch(self, run: Callable[[], object]) -> tuple[list[Binding], Any]:
        with self.ctx.nested_in(self.ctx.sequences) as bindings:
            return bindings, run()

    def choose(
        self, cond: Expr, then: Callable[[], object], otherwise: Callable[[], object], failure: str
    ) -> Any:
        """Emit a Relax ``If`` on ``cond`` and return its value.

        ``failure`` is the run-time error message of a branch that cannot return.
        """
        outer = len(self.solver.symbols())
        found = [self._branch(then), self._branch(otherwise)]
        values = [v for _, v in found if not isinstance(v, Bottom | TailCall)]
        if not values:
            bottoms = [v for _, v in found if isinstance(v, Bottom)]
            return BOTTOM if any(v is not FAILED for v in bottoms) or not bottoms else FAILED
        calls = [v for _, v in found if isinstance(v, TailCall)]
        for call in calls:
            call.others += values
        recurs = bool(calls)
        joint = self._joint(values[0], values[-1])
        # If a branch is a recursive call, dims of the result may belong to a later iteration. The
        # type of the result then has literal dims only.
        inner = {v for v, _ in self.solver.symbols()[outer:]}
        erased = self.forms.erased(values[0]) if recurs else self._joined(joint, values[-1], inner)
        branches = []
        for bindings, value in found:
            self.ctx.sequences.append(bindings)
            if isinstance(value, Bottom):
                text = tvm.ir.StringImm(failure)
                # BOTTOM occurs only in an import that infers a result type and is then discarded.
                self.walk.object_ops += value is FAILED
                out = self.ctx.bind(object_call("fail", text), erased)
            else:
                out = self.forms.tied_result(self._as(value, joint))
            branches.append(relax.SeqExpr([relax.BindingBlock(self.ctx.sequences.pop())], out))
        var = self.ctx.bind(relax.If(cond, *branches), erased)
        return self.forms.reopened(var, erased, joint)

    def _joint(
        self,
        a: tuple[Boxed | Tensor, ...] | Boxed | Tensor,
        b: tuple[Boxed | Tensor, ...] | Boxed | Tensor,
    ) -> Any:
        """Return the value form that both branch values are converted to; two different functions
        become run-time closures.
        """
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self._joint(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, Closure) and isinstance(b, Closure) and a.identity == b.identity:
            return a
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return a
        kind = self.forms.kind_of(a)
        self.kinds.unify(
            kind, self.forms.kind_of(b), self.walk.at(None, "the branches of an if or match")
        )
        return Boxed(kind, UNSET)

    def _as(self, value: object, joint: tuple[Tensor, ...] | Boxed | Tensor) -> object:
        """Return ``value`` converted to the common form ``joint``."""
        if isinstance(joint, tuple) and isinstance(value, tuple):
            return tuple(self._as(v, j) for v, j in zip(value, joint, strict=True))
        if isinstance(joint, Closure):
            return ()
        if isinstance(joint, Boxed):
            return self.forms.converted(value, joint.kind, "the branches of an if or match")
        return value

    def _joined(
        self, a: tuple[Boxed | Tensor, ...] | Boxed | Tensor, b: Any, inner: Container[Any]
    ) -> Any:
        """Return a type of both values, without shape if a dim may differ or contains ``inner``.

        Raises:
            TypeMismatch: the dtypes or ranks differ.
        """
        if isinstance(a, tuple):
            fields = [self._joined(x, y, inner) for x, y in zip(a, b, strict=True)]
            return relax.TupleType(fields)
        if isinstance(a, Closure):
            return relax.TupleType([])
        if isinstance(a, Boxed):
            return relax.ObjectType()
        if a.dtype != b.dtype or a.rank != b.rank:
            raise TypeMismatch(
                f"if: expected branches of the same type, found {a.dtype} of rank {a.rank} and "
                f"{b.dtype} of rank {b.rank}"
            )
        dims = [self._outer_dim(x, y, inner) for x, y in zip(a.dims, b.dims, strict=True)]
        if any(d is None for d in dims):
            return relax.TensorType(None, a.dtype, ndim=a.rank)
        return relax.TensorType(dims, a.dtype)

    def _outer_dim(self, a: Expr, b: Expr, inner: Container[object]) -> object:
        """Return the common dim of both branches.

        Returns None if the dims are not proved equal, or if only inner symbols express them.
        """
        if not self.ctx.same(a, b):
            return None
        for dim in map(self.solver.simplify, (a, b)):
            literal = isinstance(dim, tirx.IntImm)
            if literal or not any(v in inner for v in tirx.analysis.undefined_vars(dim)):
                return dim
        return None
