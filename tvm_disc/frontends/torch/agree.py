"""Comparison of two exports of one module: one for general sizes, one with an axis of size 1.

Library code branches on ``size > 1`` even if both branches compute the same. The exporter records
the taken branch as a guard, and the program would refuse a size of 1. The guard is dropped if the
export with size 1 computes the same as the general export.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm_disc.frontends.torch.conditions import Recorded, environment_of, recorded_guards
from tvm_disc.frontends.torch.values import dim_of
from tvm_disc.typing import ExportedProgram, FxNode, SymExpr, SymInt

# Operators that are the identity if the result has the operand's shape.
_SELECTING = ("aten.slice.Tensor", "aten.expand.default", "aten.alias.default")
# Makes strides contiguous. It is not called if they are, as strides of an axis of size 1 may be.
_COPYING = "aten.contiguous.default"
# A symbol of PyTorch, and what replaces it.
Values = Mapping[Any, Any]


def excluding_one(guards: Sequence[Recorded]) -> dict[SymExpr, list[Recorded]]:
    """Return the guards of one size each that exclude 1 and change results, by their symbol."""
    found: dict[Any, list[Recorded]] = {}
    for guard in guards:
        symbols = guard.expr.free_symbols
        if guard.code and len(symbols) == 1 and not guard.tests_only_one:
            (symbol,) = symbols
            if guard.expr.subs(symbol, 1) == False and guard.expr.subs(symbol, 2) == True:  # noqa: E712
                found.setdefault(symbol, []).append(guard)
    return found


def same_program(
    general: ExportedProgram, special: ExportedProgram, symbol: SymExpr, guards: Sequence[Recorded]
) -> bool:
    """Return whether ``special`` computes the same as ``general`` if ``symbol`` is 1.

    Args:
        general: an exported program.
        special: the same module exported with 1 for every axis of size ``symbol``.
        symbol: a symbol of ``general``.
        guards: the guards of ``general`` that callers have to meet. Those of ``special`` must be
            among them.
    """
    ones = {symbol: 1}
    renamed = _renamed(general, special, ones)
    if renamed is None or not _same_inputs(general, special):
        return False
    equal, equal_special = _replacements(general), _replacements(special)
    required = {g.expr.subs(equal).subs(ones) for g in guards}
    for guard in recorded_guards(special):
        free = guard.tests_only_one or guard.tests_only_zero
        needed = guard.expr.subs(equal_special).subs(renamed)
        if not free and needed != True and needed not in required:  # noqa: E712
            return False
    mine, other = _Walk(general, ones), _Walk(special, renamed)
    return mine.steps() == other.steps()


def _replacements(program: ExportedProgram) -> Values:
    """Return the symbols that the exporter found equal to others, with their replacements.

    Recorded guards contain the original symbols; shapes contain the replacements.
    """
    env = environment_of(program)
    return {} if env is None else dict(env.replacements)


def _renamed(
    general: ExportedProgram, special: ExportedProgram, ones: Values
) -> dict[SymExpr, SymExpr] | None:
    """Return the sizes of ``general`` by the symbols of ``special``; None if inputs differ."""
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


def _same_inputs(general: ExportedProgram, special: ExportedProgram) -> bool:
    """Return whether inputs and results have the same roles, and constants the same elements."""
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
    """The steps of one program, without names and with some symbols replaced."""

    def __init__(self, program: ExportedProgram, values: Values) -> None:
        self.program, self.values = program, values
        # A copy is the identity unless its operand or the copy is written to.
        self.whole = _SELECTING if _writes(program) else (*_SELECTING, _COPYING)
        self.places: dict[Any, int] = {}

    def steps(self) -> list[Any]:
        """Return what every node that makes tensors does; sizes occur as arguments only."""
        found: list[Any] = []
        for node in self.program.graph.nodes:
            if self._is_size(node) or _is_assertion(node):
                continue
            if self._changes_nothing(node):
                self.places[node] = self.places[node.args[0]]
                continue
            self.places[node] = len(found)
            found.append(self._step(node))
        return found

    def _step(self, node: FxNode) -> Any:
        if node.op == "placeholder":
            return "input"
        if node.op == "get_attr":  # a graph of a branch or loop: not compared
            return object()
        target = None if node.op == "output" else node.target
        return target, self._value(node.args), self._value(sorted(node.kwargs.items()))

    def _is_size(self, node: FxNode) -> bool:
        import torch

        kinds = torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool
        return node.op == "call_function" and isinstance(node.meta.get("val"), kinds)

    def _changes_nothing(self, node: FxNode) -> bool:
        """Return whether a node selects or copies all of its operand; PyTorch omits some."""
        if node.op != "call_function" or str(node.target) not in self.whole:
            return False
        if str(node.target) == _COPYING:
            return True
        step = node.args[4] if len(node.args) > 4 else 1
        mine, operand = (n.meta["val"].shape for n in (node, node.args[0]))
        return bool(step == 1 and self._shape(mine) == self._shape(operand))

    def _shape(self, shape: Any) -> list[int]:
        return [_replaced(dim_of(size), self.values) for size in shape]

    def _value(self, value: Any) -> Any:
        if hasattr(value, "graph") and hasattr(value, "meta"):
            if self._is_size(value):
                return _replaced(_expression(value.meta["val"]), self.values)
            return "node", self.places[value]
        if isinstance(value, list | tuple):
            return [self._value(v) for v in value]
        if isinstance(value, slice):
            return "slice", self._value([value.start, value.stop, value.step])
        return value


def _writes(program: ExportedProgram) -> bool:
    """Return whether an operator of a program writes to an operand."""
    schemas = [getattr(n.target, "_schema", None) for n in program.graph.nodes]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def _is_assertion(node: FxNode) -> bool:
    return node.op == "call_function" and str(node.target).startswith("aten._assert_")


def _expression(value: SymInt) -> SymExpr:
    return value.node.expr if hasattr(value, "node") else value


def _replaced(value: SymExpr | int, values: Values) -> int:
    made = value.subs(values) if hasattr(value, "subs") else value
    return int(made) if getattr(made, "is_Integer", False) else made


def one_by_one(
    program: ExportedProgram,
) -> Iterator[tuple[Any, list[Recorded], list[tuple[int, int]] | None]]:
    """Yield symbols that guards keep from being 1, those guards, and the axes of that size.

    The axes are pairs of an input among those of the user and an axis; None if the size of another
    axis is computed from the symbol, which an example of size 1 cannot reach.
    """
    specs = program.graph_signature.input_specs
    users = [n for n, s in zip(_inputs(program), specs, strict=True) if s.kind.name == "USER_INPUT"]
    sizes = {
        (leaf, axis): dim_of(size)
        for leaf, node in enumerate(users)
        for axis, size in enumerate(getattr(node.meta.get("val"), "shape", ()))
    }
    equal = _replacements(program)
    for symbol, guards in excluding_one(recorded_guards(program)).items():
        symbol = equal.get(symbol, symbol)
        reading = {p: d for p, d in sizes.items() if symbol in getattr(d, "free_symbols", ())}
        plain = all(d == symbol for d in reading.values())
        yield symbol, guards, list(reading) if plain and reading else None


__all__ = ["excluding_one", "one_by_one", "same_program"]
