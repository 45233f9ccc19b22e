"""Comparison of two exports of one module: one for general sizes, one with small fixed sizes.

Library code branches on ``size > 1`` even if both branches compute the same function. The exporter
records the taken branch as a guard, and the program would refuse sizes of 0 and 1. The guard is
dropped if the exports for size 0 and for size 1 compute the same as the general export. If only the
export for size 1 does, ``size >= 1`` replaces the guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from tvm_disc.frontends.torch.conditions import (
    Recorded,
    code_of,
    environment_of,
    recorded_guards,
)
from tvm_disc.frontends.torch.memory import written
from tvm_disc.frontends.torch.values import dim_of, is_number
from tvm_disc.typing import ExportedProgram, FxNode, SymExpr, SymInt

# Operators that are the identity if the result has the operand's shape.
_SLICE = "aten.slice.Tensor"
_SELECTING = (_SLICE, "aten.expand.default", "aten.alias.default")
# Returns a contiguous tensor. Tracing omits the operator if the strides are contiguous already,
# which depends on axes of size 1. It is the identity unless the operand or the copy is written.
_COPYING = "aten.contiguous.default"
# Maximum number of exports for fixed sizes. Guards are kept if dropping them needs more exports.
_MOST_EXPORTS = 8
# A mapping from symbols of PyTorch to integers or expressions that replace them.
Values = Mapping[Any, Any]
# (number of the user's input, axis).
Place = tuple[int, int]
# Exports the module for given sizes of axes that become fixed, and for given sizes of other axes
# of the example, which remain dynamic. Returns None if the export fails.
Special = Callable[[Mapping[Place, int], Mapping[Place, int]], ExportedProgram | None]


def excluding_one(guards: Sequence[Recorded]) -> dict[SymExpr, list[Recorded]]:
    """Return, by symbol, the guards that exclude size 1, or 0 and 1.

    Guards that only concern strides or broadcasting (``tests_only_one``) are omitted.
    """
    found: dict[Any, list[Recorded]] = {}
    for guard in guards:
        small = _excluded(guard.expr)
        if guard.code and not guard.tests_only_one and small is not None and 1 in small[1]:
            found.setdefault(small[0], []).append(guard)
    return found


def _excluded(expr: SymExpr) -> tuple[SymExpr, list[int]] | None:
    """Return the symbol of a condition and the sizes for which it fails, if no size above 1 fails.

    Only linear conditions on one symbol are analyzed: an inequality that holds for 2 but not for 1
    holds for all larger sizes, and "not equal" fails for one size only. Returns None for others.
    """
    import sympy

    if len(expr.free_symbols) != 1 or not isinstance(expr, sympy.Rel | sympy.Ne):
        return None
    (symbol,) = expr.free_symbols
    line = (expr.lhs - expr.rhs).as_poly(symbol)
    if isinstance(expr, sympy.Eq) or line is None or line.degree() != 1:
        return None
    fails = [size for size in (0, 1) if expr.subs(symbol, size) == False]  # noqa: E712
    if not fails or expr.subs(symbol, 2) != True:  # noqa: E712
        return None
    return symbol, fails


class Agreement:
    """Finds guards on sizes of 0 and 1 that are unnecessary, by exports for these sizes.

    Args:
        program: an exported program.
        special: exports the same module with some axes of fixed size, see ``Special``.
    """

    def __init__(self, program: ExportedProgram, special: Special) -> None:
        self.program = program
        self.guards = recorded_guards(program)
        self._example = _example_sizes(program)
        self._special = special
        self._equal = _replacements(program)
        self._sizes = _sizes_of_axes(program)
        self._made: dict[frozenset[tuple[Place, int]], object] = {}

    def settled(self) -> dict[str, str]:
        """Return the texts of unnecessary guards, each with the weaker guard that replaces it.

        The weaker guard is "" if no guard is required.

        The symbols are treated one after another, because a proof may use only guards that have
        not been removed by an earlier proof.
        """
        import sympy

        found: dict[str, str] = {}
        left = [(g.code, g.expr) for g in self.guards]
        for symbol, guards in excluding_one(self.guards).items():
            size = self._equal.get(symbol, symbol)
            conditions = [expr for _, expr in left]
            if not self._agrees({size: 1}, conditions):
                continue
            at_zero = any(0 in (_excluded(g.expr) or (symbol, []))[1] for g in guards)
            # PyTorch declares its symbols positive, so sympy would evaluate this to true.
            weaker = sympy.Ge(symbol, 1, evaluate=False)
            text = ""
            if at_zero and not self._agrees({size: 0}, conditions):
                text = code_of(weaker, environment_of(self.program))
            codes = {g.code for g in guards}
            left = [(code, expr) for code, expr in left if code not in codes]
            left += [(text, weaker)] if text else []
            found |= dict.fromkeys(codes, text)
        return found

    def _agrees(self, fixed: Mapping[object, int], conditions: Sequence[SymExpr]) -> bool:
        """Return whether the program is valid for the sizes ``fixed`` if the conditions hold.

        If the export for these sizes excludes a size of 0 or 1 of another symbol, the export with
        both sizes fixed is compared too.
        """
        special = self._export(fixed, conditions)
        if special is None:
            return False
        required = {c.subs(self._equal).subs(fixed) for c in conditions} - {False}
        needed = unmet(self.program, special, fixed, required)
        for condition in [False] if needed is None else needed:
            small = _excluded(condition) if condition != False else None  # noqa: E712
            if small is None:
                return False
            symbol, sizes = small
            for size in sizes:
                ruled_out = any(c.subs(symbol, size) == False for c in required)  # noqa: E712
                if not ruled_out and not self._agrees({**fixed, symbol: size}, conditions):
                    return False
        return True

    def _export(
        self, fixed: Mapping[object, int], conditions: Sequence[SymExpr]
    ) -> ExportedProgram | None:
        """Return the export in which the symbols of ``fixed`` have these sizes.

        Other axes of the example are narrowed if the conditions require it. For example, a module
        branches on whether the length of a mask is that of the cache plus that of the tokens.

        Returns None if the export fails, or if the size of an axis is an expression of a fixed
        symbol: no example has that size.
        """
        places: dict[Place, int] = {}
        for symbol, size in fixed.items():
            reading = self._reading(symbol)
            if not reading:
                return None
            places |= dict.fromkeys(reading, size)
        key = frozenset(places.items())
        if key not in self._made:
            if len(self._made) == _MOST_EXPORTS:
                return None
            narrowed: dict[Place, int] = {}
            known = [c.subs(self._equal) for c in conditions]
            for symbol, size in narrowed_sizes(self._example, fixed, known).items():
                narrowed |= dict.fromkeys(self._reading(symbol), size)
            self._made[key] = self._special(places, narrowed)
        return self._made[key]

    def _reading(self, symbol: SymExpr) -> list[Place]:
        """Return the axes whose size is ``symbol``, or none if another size is computed from it."""
        found = {p: d for p, d in self._sizes.items() if symbol in getattr(d, "free_symbols", ())}
        return list(found) if all(d == symbol for d in found.values()) else []


def narrowed_sizes(
    example: Mapping[SymExpr, int], fixed: Mapping[SymExpr, int], conditions: Sequence[SymExpr]
) -> dict[SymExpr, int]:
    """Return smaller sizes for some symbols, with which the example satisfies the conditions.

    For each linear condition that fails, the size of one symbol is reduced until both sides are
    equal.

    Args:
        example: the sizes of the example, by symbol.
        fixed: sizes that replace those of the example.
        conditions: the conditions, as sympy expressions.
    """
    import sympy

    sizes = {**example, **fixed}
    found: dict[SymExpr, int] = {}
    for condition in conditions:
        if not isinstance(condition, sympy.Rel) or condition.subs(sizes) != False:  # noqa: E712
            continue
        difference = condition.lhs - condition.rhs
        for symbol in sorted(difference.free_symbols - set(fixed), key=str):
            rest = {s: size for s, size in sizes.items() if s != symbol}
            line = difference.subs(rest).as_poly(symbol)
            if line is None or line.degree() != 1 or abs(line.LC()) != 1:
                continue
            size = -line.eval(0) / line.LC()
            if size.is_Integer and 0 <= size < sizes.get(symbol, 0):
                sizes[symbol] = found[symbol] = int(size)
                break
    return found


def unmet(
    general: ExportedProgram,
    special: ExportedProgram,
    fixed: Mapping[object, int],
    required: Set[SymExpr],
) -> list[SymExpr] | None:
    """Return the conditions under which ``special`` computes the same as ``general``.

    Returns None if the programs differ.

    Args:
        general: an exported program.
        special: the same module, exported with fixed sizes of some symbols.
        fixed: these sizes, by symbol of ``general``.
        required: conditions that every call satisfies; they are not returned.
    """
    renamed = _renamed(general, special, fixed)
    if renamed is None or not _same_inputs(general, special):
        return None
    equal = _replacements(special)
    found: list[Any] = []
    for guard in recorded_guards(special):
        needed = guard.expr.subs(equal).subs(renamed)
        free = guard.tests_only_one or guard.tests_only_zero
        if not free and needed != True and needed not in required:  # noqa: E712
            found.append(needed)
    mine, other = _Walk(general, fixed), _Walk(special, renamed)
    return found if mine.steps() == other.steps() else None


def _replacements(program: ExportedProgram) -> Values:
    """Return the symbols that the exporter has replaced by others, with their replacements.

    Recorded guards contain the original symbols, but shapes contain the replacements.
    """
    env = environment_of(program)
    return {} if env is None else dict(env.replacements)


def _renamed(
    general: ExportedProgram, special: ExportedProgram, ones: Values
) -> dict[SymExpr, SymExpr] | None:
    """Return the size in ``general`` of each symbol of ``special``, or None if inputs differ."""
    found: dict[Any, Any] = {}
    for a, b in zip(_inputs(general), _inputs(special), strict=True):
        shapes = [getattr(n.meta.get("val"), "shape", ()) for n in (a, b)]
        if len(shapes[0]) != len(shapes[1]):
            return None
        for mine, other in zip(*shapes, strict=True):
            size, name = _replaced(dim_of(mine), ones), dim_of(other)
            if getattr(name, "is_symbol", False):
                found.setdefault(name, size)
            elif name != size:
                return None
    return found


def _inputs(program: ExportedProgram) -> list[FxNode]:
    return [n for n in program.graph.nodes if n.op == "placeholder"]


def user_inputs(program: ExportedProgram) -> list[FxNode]:
    """Return the nodes of the leaves of the user's arguments."""
    specs = program.graph_signature.input_specs
    pairs = zip(_inputs(program), specs, strict=True)
    return [node for node, spec in pairs if spec.kind.name == "USER_INPUT"]


def _same_inputs(general: ExportedProgram, special: ExportedProgram) -> bool:
    """Return whether the signatures have equal kinds and targets, and the constants are equal."""
    import torch

    signatures = [p.graph_signature for p in (general, special)]
    roles = [
        (
            [(s.kind, s.target) for s in found.input_specs],
            [(s.kind, s.target) for s in found.output_specs],
        )
        for found in signatures
    ]
    if roles[0] != roles[1] or general.constants.keys() != special.constants.keys():
        return False
    pairs = [(x, special.constants[name]) for name, x in general.constants.items()]
    return all(
        isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b)
        for a, b in pairs
    )


class _Walk:
    """A program in a form that can be compared: without node names, and with symbols replaced."""

    def __init__(self, program: ExportedProgram, values: Values) -> None:
        self.program, self.values = program, values
        self.written = written(program)
        self.places: dict[object, int] = {}

    def steps(self) -> list[Any]:
        """Return the operator and arguments of every node that returns tensors.

        Nodes that compute sizes, assertions, and operators that are the identity are omitted.
        """
        found: list[Any] = []
        for node in self.program.graph.nodes:
            if _is_size(node) or _is_assertion(node):
                continue
            if self._changes_nothing(node):
                self.places[node] = self.places[node.args[0]]
                continue
            self.places[node] = len(found)
            found.append(self._step(node))
        return found

    def _step(self, node: FxNode) -> object:
        if node.op == "placeholder":
            return "input"
        if node.op == "get_attr":  # the graph of a branch or loop, which differs from every other
            return object()
        target = None if node.op == "output" else node.target
        return target, self._value(self._arguments(node)), self._value(sorted(node.kwargs.items()))

    def _arguments(self, node: FxNode) -> list[object]:
        """Return the positional arguments of a node; the bounds of a slice are normalized."""
        given: list[Any] = list(node.args)
        if str(node.target) != _SLICE:
            return given
        defaults: list[Any] = [0, None, None, 1]
        operand, axis, start, end, step = given + defaults[len(given) - 1 :]
        size = self._shape(operand.meta["val"].shape)[axis]
        start, end = (self._value(bound) for bound in (start, end))
        if end is None or (isinstance(end, int) and isinstance(size, int) and end > size):
            end = size
        return [operand, axis, start or 0, end, step]

    def _changes_nothing(self, node: FxNode) -> bool:
        """Return whether a node is the identity. PyTorch emits these nodes only for some sizes."""
        name = str(node.target)
        if node.op != "call_function" or name not in (*_SELECTING, _COPYING):
            return False
        if name == _COPYING:
            return node not in self.written
        step = node.args[4] if len(node.args) > 4 else 1
        mine, operand = (n.meta["val"].shape for n in (node, node.args[0]))
        return bool(step == 1 and self._shape(mine) == self._shape(operand))

    def _shape(self, shape: Any) -> list[int]:
        return [_replaced(dim_of(size), self.values) for size in shape]

    def _value(self, value: object) -> Any:
        if hasattr(value, "graph") and hasattr(value, "meta"):
            if _is_size(value):
                return _replaced(_expression(value.meta["val"]), self.values)
            return "node", self.places[value]
        if isinstance(value, list | tuple):
            return [self._value(v) for v in value]
        if isinstance(value, slice):
            return "slice", self._value([value.start, value.stop, value.step])
        return value


def _is_size(node: FxNode) -> bool:
    return node.op == "call_function" and is_number(node.meta.get("val"))


def _is_assertion(node: FxNode) -> bool:
    return node.op == "call_function" and str(node.target).startswith("aten._assert_")


def _expression(value: SymInt) -> SymExpr:
    return value.node.expr if hasattr(value, "node") else value


def _replaced(value: SymExpr | int, values: Values) -> int:
    made = value.subs(values) if hasattr(value, "subs") else value
    return int(made) if getattr(made, "is_Integer", False) else made


def _example_sizes(program: ExportedProgram) -> dict[SymExpr, int]:
    """Return the example's size of each symbol that is the size of an input's axis."""
    found: dict[SymExpr, int] = {}
    for node in _inputs(program):
        for size in getattr(node.meta.get("val"), "shape", ()):
            if getattr(dim_of(size), "is_Symbol", False) and size.node.hint is not None:
                found[dim_of(size)] = int(size.node.hint)
    return found


def _sizes_of_axes(program: ExportedProgram) -> dict[Place, SymExpr | int]:
    """Return the size of every axis of the user's inputs."""
    return {
        (leaf, axis): dim_of(size)
        for leaf, node in enumerate(user_inputs(program))
        for axis, size in enumerate(getattr(node.meta.get("val"), "shape", ()))
    }


__all__ = ["Agreement", "excluding_one", "narrowed_sizes", "unmet", "user_inputs"]
