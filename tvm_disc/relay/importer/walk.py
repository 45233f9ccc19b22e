"""What the parts of the importer share while they walk over a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import tvm
from tvm import relax, tirx

from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.importer.inputs import identifier
from tvm_disc.relay.importer.kinds import Kinds
from tvm_disc.relay.importer.scopes import Bottom, Captured, Frame, Scope, Tail
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.values import value_of
from tvm_disc.relay.module import IRModule


class Evaluator(Protocol):
    """Evaluates expressions for the parts whose constructs have others inside."""

    def evaluate(self, expr: ast.Expr, scope: Scope) -> Any:
        """The value of an expression."""


class ModuleWalk:
    """One walk over a module.

    Attributes:
        source: the module.
        ctx: where bindings go.
        kinds: what is known of boxed values.
        frame: the function being made.
        functions: the Relax functions made so far, by their ``GlobalVar``.
        object_ops: how many operations on boxed values were made.
    """

    def __init__(self, source: IRModule, ctx: Emitter, kinds: Kinds) -> None:
        self.source, self.ctx, self.kinds, self.solver = source, ctx, kinds, ctx.solver
        self.frame = Frame()
        self.functions: dict[Any, Any] = {}
        self.object_ops = 0
        self._named = 0

    def at(self, node: Any, text: str) -> str:
        """``text`` with the place of ``node`` in the source."""
        span = getattr(node, "span", None) or self.ctx.span
        return f"{text} at {span}" if span is not None else text

    def scope(self, parent: Scope | None) -> Scope:
        """A scope of the function being made."""
        return Scope(parent, self.frame)

    def fresh(self, name: str) -> Any:
        """A new symbol for a dim that only a local function knows."""
        return self.solver.symbol(name, "a dim inside a local function")

    def function_name(self, closure: Closure) -> str:
        """A name for a Relax function made of ``closure``."""
        self._named += 1
        return f"{identifier(closure.name)}_{self._named}"

    # -- functions being made ------------------------------------------------------------------

    @contextmanager
    def making(self, frame: Frame, captured: Iterable[Captured]) -> Iterator[list[Any]]:
        """Bind into the body of a function, given to the caller.

        ``captured`` is what an earlier import of the body found that it reads from outside.
        """
        outer, self.frame = self.frame, frame
        try:
            frame.captures, known = {}, list(captured)
            for c in known:
                inner = self.parameter_like(c.original)
                frame.captures[id(c.original)] = Captured(c.original, c.owner, inner)
            with self.ctx.nested_in(()) as bindings:
                yield bindings
        finally:
            self.frame = outer

    def seen_from_here(self, value: Any, owner: Frame) -> Any:
        """A value of another function: it becomes an extra parameter of this one."""
        if owner is self.frame or isinstance(value, Closure | Bottom | Tail):
            return value
        if isinstance(value, tuple):
            return tuple(self.seen_from_here(v, owner) for v in value)
        if isinstance(value, Tensor) and _is_literal(value):
            return value
        known = self.frame.captures.get(id(value))
        if known is None:
            known = Captured(value, owner, self.parameter_like(value))
            self.frame.captures[id(value)] = known
        return known.inner

    def parameter_like(self, value: Any) -> Any:
        """A parameter of the function being made that stands for a value outside of it."""
        name = f"captured_{len(self.frame.captures)}"
        if isinstance(value, Boxed):
            return Boxed(value.kind, relax.Var(name, relax.ObjectType()))
        dims = tuple(d if isinstance(d, tirx.IntImm) else self.fresh("c") for d in value.dims)
        var = relax.Var(name, relax.TensorType(list(dims), value.dtype))
        return Tensor(dims, value.dtype, var)


def _is_literal(value: Tensor) -> bool:
    if value.constant is not None:
        return True
    literal = value_of(value)
    return literal is not None and all(not isinstance(x, tvm.ir.Expr) for x in literal.flat)
