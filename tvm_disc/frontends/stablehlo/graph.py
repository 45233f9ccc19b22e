"""Conversion of the functions of a StableHLO module: every operation becomes Relay expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import Expr, converting
from tvm_disc.frontends.stablehlo.attributes import (
    complex_constant,
    constant,
    dtype_of,
    is_complex,
    part_of,
    tensor_type,
)
from tvm_disc.frontends.stablehlo.blocks import symbol_of
from tvm_disc.frontends.stablehlo.node import StableHLONode, short_name
from tvm_disc.frontends.stablehlo.operators.complex_numbers import PASSED
from tvm_disc.frontends.stablehlo.operators.complex_numbers import converted as complex_converted
from tvm_disc.frontends.stablehlo.pairs import ComplexPair
from tvm_disc.frontends.stablehlo.rows import REFUSED, ROWS
from tvm_disc.relay import expr as ast
from tvm_disc.relay.infer import Inference
from tvm_disc.relay.ops.algebra import building
from tvm_disc.support.limits import MOST_DEPTH, MOST_NODES

SMALL = 64  # maximum number of elements of a result that becomes a constant
_LOCATED = "stablehlo.", "chlo.", "func."  # how messages with a location begin
_ENDS = frozenset(["func.return", "return"])


class ModuleConversion:
    """Converts functions and regions of a module to Relay expressions.

    Attributes:
        functions: the functions of the module by name.
        values: the expressions of MLIR values.
        conditions: conditions that every call of the program must satisfy: the MLIR value, its
            expression, and JAX's message.
        stacks: the ``Stacks`` of the loops whose bodies are being converted.
    """

    def __init__(self, infer: Inference, module: Any) -> None:
        self.infer = infer
        functions = [f for f in module.body if f.operation.name == "func.func"]
        self.functions = {symbol_of(f.attributes["sym_name"]): f for f in functions}
        self.values: dict[object, Expr] = {}
        self.conditions: list[tuple[object, Expr, str]] = []
        self.stacks: list[object] = []
        self._converted, self._depth = 0, 0
        self._constants: dict[object, ast.Constant] = {}

    def function(self, name: str) -> Any:
        """Return a function by name.

        Raises:
            Unsupported: the module has no function of this name.
        """
        if name not in self.functions:
            raise Unsupported(f"the module has no function @{name}")
        return self.functions[name]

    def call(self, name: str, given: Sequence[Expr]) -> list[Expr]:
        """Convert the body of a function for given arguments; return its results."""
        return self.run(self.function(name).regions[0].blocks[0], given)

    def value(self, value: Expr) -> Expr:
        """Return the expression of an MLIR value."""
        return self.values[value]

    def note_condition(self, cond: object, message: str) -> None:
        """Record a condition that every call of the program must satisfy."""
        self.conditions.append((cond, self.values[cond], message))

    def run(
        self, block: Any, given: Sequence[Expr], reads: Mapping[object, Expr] | None = None
    ) -> list[Expr]:
        """Convert a block for the arguments ``given`` and return its results.

        ``reads`` are the expressions of outer values inside the block.

        Raises:
            Unsupported: blocks and calls are nested too deep, or too many operations have been
                converted.
        """
        outer, self.values = self.values, {**self.values, **(reads or {})}
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise Unsupported(
                f"regions and calls are nested more than {MOST_DEPTH} deep; reduce the nesting "
                "(a function cannot call itself)"
            )
        try:
            self.values.update(zip(block.arguments, given, strict=True))
            for op in block.operations:
                if short_name(op.operation) in _ENDS:
                    return [self.values[v] for v in op.operation.operands]
                self._convert(op.operation)
        finally:
            self._depth -= 1
            self.values = outer
        return []

    def _convert(self, op: Any) -> None:
        """Convert an operation and store its results.

        Raises:
            DiscError: the conversion failed; the message names the operator and its location.
        """
        self._converted += 1
        if self._converted > MOST_NODES:
            raise Unsupported(
                f"more than {MOST_NODES} operations have been converted, because a function is "
                "converted for each call, and the body of a loop several times"
            )
        if op.name == "stablehlo.constant":
            with converting(title(op), "", _LOCATED):
                self.values[op.results[0]] = self._constant(op)
            return
        with converting(title(op), "", _LOCATED):
            node = StableHLONode(self.infer, op, [self.values[v] for v in op.operands], self)
            with building(node):
                results = _converted(node)
        results = results if isinstance(results, list) else [results]
        for value, made in zip(op.results, results, strict=True):
            self.values[value] = self._settled(made)

    def _constant(self, op: Any) -> ast.Constant | ComplexPair:
        """Return a constant; constants with the same MLIR attribute share one array."""
        if part_of(tensor_type(op.results[0].type)):
            return ComplexPair(tuple(map(ast.Constant, complex_constant(op))))
        dtype_of(tensor_type(op.results[0].type))
        key = op.attributes["value"], op.results[0].type
        if key not in self._constants:
            self._constants[key] = ast.Constant(constant(op))
        return self._constants[key]

    def _settled(self, value: Expr) -> Expr:
        """Return ``value`` as a constant if its elements are known and few, else unchanged."""
        if isinstance(value, ComplexPair):
            return ComplexPair(tuple(map(self._settled, value.fields)))
        if isinstance(value, ast.Constant):
            return value
        self.infer.type_of(value)
        known = self.infer.value_of(value)
        return ast.Constant(known) if known is not None and known.size <= SMALL else value


def _converted(node: StableHLONode) -> object:
    """Return the results of an operation.

    Raises:
        Unsupported: the operator has no converter; the message has the reason.
    """
    ends = [*node.op.operands, *node.op.results]
    row = ROWS.get(node.name)
    if node.name not in PASSED and any(is_complex(v.type) for v in ends):
        return complex_converted(node, None if row is None else row.convert)
    if row is None:
        raise Unsupported(REFUSED.get(node.name, "the operator has no converter"))
    return row.convert(node)


def title(op: Any) -> str:
    """Return the operator and its source location, for messages."""
    location = str(op.location).removeprefix("loc(").removesuffix(")")
    if len(location) > 200:
        location = location[:200] + "..."
    return f"{op.name} at {location}" if location != "unknown" else str(op.name)


__all__ = ["ModuleConversion", "title"]
