"""Shape assertions of exported JAX functions, as constraints or as checks in the program.

JAX computes each condition from the dims of the inputs and passes it to a custom call. A condition
that is arithmetic on dims becomes a constraint, as text: the compiler proves it or emits a guard.
For any other condition, the program computes and checks it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_disc.errors import BadInput
from tvm_disc.frontends.calls import Expr, placed, refusal
from tvm_disc.frontends.stablehlo.blocks import symbol_of
from tvm_disc.frontends.stablehlo.formulas import Functions, division
from tvm_disc.frontends.stablehlo.node import direction, owner, short_name
from tvm_disc.relay import expr as ast
from tvm_disc.relay.infer import Inference

_SIGNS = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}
_BINARY = {"add": "+", "subtract": "-", "multiply": "*"}
_CALLS = {"floor_divide": "//", "floor_mod": "%"}
_SAME = frozenset(["convert", "reshape", "broadcast_in_dim"])


class Texts:
    """Converts scalars that ``main`` computes from dims to text of the constraint language.

    Attributes:
        sizes: the text of each dim, by (argument of ``main``, axis).
        function: returns a function of the module by its name.
    """

    def __init__(self, sizes: Mapping[tuple[object, int], str], function: Functions) -> None:
        self.sizes, self.function = sizes, function

    def of(self, value: Any) -> str | None:
        """Return the text of a value, or None if the value is not arithmetic on dims."""
        op_ = owner(value)
        if op_ is None:
            return None
        name = short_name(op_)
        if name == "get_dimension_size":
            axis = int(op_.attributes["dimension"].value)
            return self.sizes.get((op_.operands[0], axis))
        if name == "constant":
            number = np.array(op_.attributes["value"]).reshape(-1)
            return str(int(number[0])) if number.size == 1 else None
        if name in _SAME:
            return self.of(op_.operands[0])
        sign = _BINARY.get(name)
        if name == "compare":
            sign = _SIGNS[direction(op_)]
        if name == "call":
            callee = self.function(symbol_of(op_.attributes["callee"]))
            sign = _CALLS.get(division(callee, self.function) or "")
        if sign is None:
            return None
        a, b = (self.of(v) for v in list(op_.operands)[-2:])
        return None if a is None or b is None else f"({a}) {sign} ({b})"


def split(
    conditions: Sequence[tuple[object, Expr, str]], texts: Texts, infer: Inference
) -> tuple[list[str], list[tuple[Expr, str]]]:
    """Return the constraints, and the other conditions, which the program must check.

    Raises:
        BadInput: a condition is known to be false.
    """
    constraints: dict[str, None] = {}
    checks = []
    for value, cond, message in conditions:
        known = infer.value_of(cond)
        if known is not None:
            if not known.all():
                raise BadInput(f"the module requires a condition that is always false: {message}")
            continue
        text = texts.of(value)
        if text is None:
            checks.append((cond, message))
        elif not _is_trivial(text):
            constraints[_plain(text)] = None
    return list(constraints), checks


def _plain(text: str) -> str:
    """Return a simplified text: without parentheses around a single name or number, and with
    ``x >= 3`` for ``x + -3 >= 0``.
    """
    while True:
        shorter = re.sub(r"\((-?[\w.]+)\)", r"\1", text)
        shorter = re.sub(r"^\((.*) \+ -(\d+)\) (>=|==|>) 0$", r"\1 \3 \2", shorter)
        if shorter == text:
            return text
        text = shorter


def _is_trivial(text: str) -> bool:
    a, sign, b = _plain(text).partition(" == ")
    return bool(sign) and a == b


def checked(body: Expr, checks: Sequence[tuple[Expr, str]]) -> Expr:
    """Return ``body``, preceded by checks that refuse a call if a condition is false."""
    for cond, message in reversed(checks):
        with placed(f"the condition that JAX describes as: {message}"):
            body = ast.Let(ast.Var("checked"), refusal(cond), body)
    return body


__all__ = ["Texts", "checked", "split"]
