"""Normal forms of programs: with names for all results, for shared results only, or for none."""

from __future__ import annotations

from collections.abc import Callable

from tvm_disc.relay.expr import (
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Var,
)
from tvm_disc.relay.visit import children, post_order, with_children

UNNAMED = (Var, GlobalVar, Op, Constructor)


class NamingScope:
    """The body of a function, a branch, a clause or a let, with the names bound in it.

    ``block`` is the scope shared by all lets of a chain.
    """

    def __init__(self, parent: NamingScope | None, of_let: bool = False) -> None:
        self.parent = parent
        self.block: NamingScope = parent.block if parent is not None and of_let else self
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.bindings: list[tuple[Var, Expr]] = []

    def closed(self, result: Expr) -> Expr:
        """Return ``result`` under all bindings of the body."""
        for var, value in reversed(self.bindings):
            result = Let(var, value, result)
        return result


def _common(a: NamingScope, b: NamingScope) -> NamingScope:
    """Return the innermost scope that encloses both."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a


def _opens(node: Expr, position: int) -> bool:
    """Return whether a part of a node is a body with its own scope."""
    if isinstance(node, Function):
        return position == len(node.params)
    if isinstance(node, Let):
        return position == 2
    return isinstance(node, (If, Match)) and position > 0


class _Scopes:
    """The scope of each node: the innermost scope that encloses all of its uses."""

    def __init__(self, root: Expr) -> None:
        self.order = post_order(root)
        self.of: dict[Expr, NamingScope] = {root: NamingScope(None)}
        self.bodies: dict[Expr, list[NamingScope]] = {}
        self._at: dict[Expr, set[NamingScope]] = {}
        self.users: dict[Expr, int] = {}
        for node in reversed(self.order):
            scope, bodies = self.of[node], self.bodies.setdefault(node, [])
            for position, part in enumerate(children(node)):
                self.users[part] = self.users.get(part, 0) + 1
                where = scope
                if _opens(node, position):
                    where = NamingScope(scope, isinstance(node, Let))
                    bodies.append(where)
                self._used(part, where)

    def _used(self, part: Expr, where: NamingScope) -> None:
        known = self.of.get(part)
        self.of[part] = where if known is None else _common(known, where)
        self._at.setdefault(part, set()).add(where)

    def lifted(self, node: Expr) -> bool:
        """Return whether a node is used in several blocks."""
        return len({scope.block for scope in self._at.get(node, ())}) > 1


def _bound(root: Expr, named: Callable[[Expr, _Scopes], bool]) -> Expr:
    """Return ``root`` with a name for each result that satisfies ``named``."""
    scopes = _Scopes(root)
    # A value that only a let uses already has a name.
    given = {n.value for n in scopes.order if isinstance(n, Let) and scopes.users[n.value] == 1}
    done: dict[Expr, Expr] = {}
    count = 0
    for node in scopes.order:
        scope, bodies = scopes.of[node], scopes.bodies.get(node, [])
        if isinstance(node, Let):
            scope.bindings += [(node.var, done[node.value]), *bodies[0].bindings]
            done[node] = done[node.body]
            continue
        done[node] = made = _with_bodies(node, done, bodies)
        whole = node is root and isinstance(node, Function)
        if whole or node in given or isinstance(node, UNNAMED) or not named(node, scopes):
            continue
        done[node] = var = Var(f"x_{count}")
        count += 1
        scope.bindings.append((var, made))
    return scopes.of[root].closed(done[root])


def _with_bodies(node: Expr, done: dict[Expr, Expr], bodies: list[NamingScope]) -> Expr:
    """Return ``node`` with its rewritten parts, and with the bindings of each body added."""
    parts = []
    remaining = iter(bodies)
    for position, part in enumerate(children(node)):
        made = done[part]
        parts.append(next(remaining).closed(made) if _opens(node, position) else made)
    return with_children(node, tuple(parts)) if parts else node


def to_a_normal_form(expr: Expr) -> Expr:
    """Return ``expr`` in A-normal form: every result has a name, and operands are names."""
    return _bound(expr, lambda _node, _scopes: True)


def to_basic_block_normal_form(expr: Expr) -> Expr:
    """Return ``expr`` with a name for each result used in several bodies.

    The name is bound in the innermost body that encloses these bodies.
    """
    return _bound(expr, lambda node, scopes: scopes.lifted(node))


def to_graph_normal_form(expr: Expr) -> Expr:
    """Return ``expr`` with let bindings inlined.

    Bindings of recursive functions, and of values that create, read or write references, are kept.
    """
    lets = [n for n in post_order(expr) if isinstance(n, Let) and _can_go(n)]
    values = {let.var: let.value for let in lets}
    dropped = set(lets)

    def parts_of(node: Expr) -> tuple[Expr, ...]:
        if isinstance(node, Let) and node in dropped:
            return (node.body,)
        return (values[node],) if isinstance(node, Var) and node in values else children(node)

    done: dict[Expr, Expr] = {}
    stack = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        parts = parts_of(node)
        if ready or not parts:
            new = tuple(done[p] for p in parts)
            gone = node in dropped or node in values
            done[node] = new[0] if gone else with_children(node, new) if parts else node
        else:
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(parts))
    return done[expr]


def _can_go(let: Let) -> bool:
    """Return whether the value of a let may be inlined at its uses."""
    inside = post_order(let.value)
    return not any(n is let.var or isinstance(n, (RefCreate, RefRead, RefWrite)) for n in inside)


__all__ = ["to_a_normal_form", "to_basic_block_normal_form", "to_graph_normal_form"]
