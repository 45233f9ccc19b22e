"""State that the components of the importer share during one walk over a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import tvm
from tvm import relax, tirx

from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.importer.inputs import identifier
from tvm_disc.relay.importer.kinds import Kinds
from tvm_disc.relay.importer.scopes import Bottom, Captured, Frame, Scope, TailCall
from tvm_disc.relay.importer.tensor import Boxed, Closure, Tensor
from tvm_disc.relay.importer.values import value_of
from tvm_disc.relay.module import IRModule
from tvm_disc.typing import Binding, Expr, GlobalVar, TVMFunction


class Evaluator(Protocol):
    """Evaluates expressions for components whose constructs contain other expressions."""

    def evaluate(self, expr: ast.Expr, scope: Scope) -> Any:
        """Return the value of an expression."""


class ModuleWalk:
    """One walk over a module.

    Attributes:
        source: the module.
        ctx: receives the bindings.
        kinds: unification state of boxed values.
        frame: the function being built.
        functions: the Relax functions built so far, by ``GlobalVar``.
        entries: the specializations of functions that are called.
        object_ops: number of operations on boxed values emitted.
    """

    def __init__(self, source: IRModule, ctx: Emitter, kinds: Kinds) -> None:
        self.source, self.ctx, self.kinds, self.solver = source, ctx, kinds, ctx.solver
        self.frame = Frame()
        self.functions: dict[GlobalVar, TVMFunction] = {}
        self.entries: list[Any] = []
        self.object_ops = 0
        self._named = 0
        # depth of the solver's scope of the function being built. Symbols of captured values belong
        # to this scope, even if a branch of the function captures the value
        self._depth = self.solver.depth

    def at(self, node: object, text: str) -> str:
        """Return ``text`` with the source location of ``node``."""
        span = getattr(node, "span", None) or self.ctx.span
        return f"{text} at {span}" if span is not None else text

    def scope(self, parent: Scope | None) -> Scope:
        """Return a new scope of the function being built."""
        return Scope(parent, self.frame)

    def fresh(self, name: str) -> Expr:
        """Return a new symbol for a dim of a loop or a local function."""
        return self.solver.symbol(name, "a dim of a loop or a local function", self._depth)

    def function_name(self, closure: Closure) -> str:
        """Return a unique name for a Relax function built from ``closure``."""
        self._named += 1
        return f"{identifier(closure.name)}_{self._named}"

    def mark(self) -> Callable[[], None]:
        """Return a function that undoes all additions to the walk after this call."""
        functions, entries, undo = dict(self.functions), list(self.entries), self.ctx.mark()

        def discard() -> None:
            self.functions, self.entries[:] = functions, entries
            undo()

        return discard

    # -- functions being built -----------------------------------------------------------------

    @contextmanager
    def making(self, frame: Frame, captured: Iterable[Captured]) -> Iterator[list[Binding]]:
        """Bind into the body of a new function; yields the list of its bindings.

        ``captured`` are the outer values that an earlier import of the body read.
        """
        outer, self.frame = (self.frame, self._depth), frame
        try:
            frame.captures, known = {}, list(captured)
            with self.ctx.nested_in(()) as bindings:
                self._depth = self.solver.depth
                for c in known:
                    inner = self.parameter_like(c.original)
                    frame.captures[id(c.original)] = Captured(c.original, c.owner, inner)
                yield bindings
        finally:
            self.frame, self._depth = outer

    def seen_from_here(self, value: Boxed | Tensor, owner: Frame) -> object:
        """Return the form of a value in the current function: a value of an outer function becomes
        an extra parameter.
        """
        if owner is self.frame or isinstance(value, Closure | Bottom | TailCall):
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

    def parameter_like(self, value: Boxed | Tensor) -> Boxed | Tensor:
        """Return a new parameter of the current function for an outer value."""
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
