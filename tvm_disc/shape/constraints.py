"""The user's constraint language.

    constraint := relation | "likely(" sum "," "[" int, ... "]" ")"
    relation   := sum (("==" | "!=" | "<=" | "<" | ">=" | ">") sum)+
    sum        := product (("+" | "-") product)*
    product    := factor (("*" | "//" | "%") factor)*
    factor     := int | name | name "." axis | ("min" | "max") "(" sum, ... ")" | "-" factor
                | "(" sum ")"

`1 <= b <= 64`, `s % 8 == 0`, `ids.1 == mask.1` (input name . axis), `h == w`. Constraints are
kept as they were written and quoted in every message, as in JAX's `shape_poly`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from tvm import tirx

from tvm_disc.errors import BadInput, ParseError, shown

_TOKEN = re.compile(
    r"\s*(?:([0-9]+)|([A-Za-z_][\w:]*(?:\.[A-Za-z_][\w:/]*)*(?:\.\d+)?)|(==|!=|<=|>=|//|[-+*%<>(),\[\]]))"
)
_RELATIONS: dict[str, Any] = {
    "==": tirx.EQ, "!=": tirx.NE, "<=": tirx.LE, "<": tirx.LT, ">=": tirx.GE, ">": tirx.GT,
}  # fmt: skip


@dataclass(frozen=True)
class Likely:
    """`likely(expr, values)`."""

    expr: Any
    values: tuple[int, ...]


_DEEPEST = 50  # parentheses and signs inside each other


def check_constraints(constraints: object) -> tuple[str, ...]:
    """The texts of constraints.

    Raises:
        BadInput: they are no sequence of texts.
    """
    texts = tuple(constraints) if isinstance(constraints, list | tuple | set) else (None,)
    for text in texts:
        if not isinstance(text, str):
            found = repr(constraints if text is None else text)[:80]
            raise BadInput(
                f'constraints: expected a list of texts such as "1 <= b <= 64", found {found}'
            )
    return texts


def parse_constraint(
    text: str, resolve: Callable[[str], Any], names: Iterable[str] | None = None
) -> Any:
    """The TVM condition (or `Likely`) that `text` states.

    `resolve` maps a name, such as `s` or `ids.1`, to a dim, or None. Raises `ParseError` that
    quotes the text and points at the column.
    """
    if not isinstance(text, str):
        raise BadInput(f"parse_constraint: expected a text such as 'n > 1', found {shown(text)}")
    if not callable(resolve):
        raise BadInput(f"parse_constraint: expected a function of names, found {shown(resolve)}")
    if names is None:
        owner = getattr(resolve, "__self__", None)
        names = getattr(owner, "known_names", lambda: ())()
    return _Parser(text, resolve, sorted(names)).constraint()


class _Parser:
    def __init__(self, text: str, resolve: Callable[[str], Any], names: list[str]) -> None:
        self.text = text
        self.resolve = resolve
        self.names = names
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        self.depth = 0
        self._tokenize()

    def _tokenize(self) -> None:
        pos = 0
        while self.text[pos:].strip():
            match = _TOKEN.match(self.text, pos)
            if match is None:
                column = pos + len(self.text[pos:]) - len(self.text[pos:].lstrip())
                self._fail(f"unexpected '{self.text[column]}'", column)
            kind = ("int", "name", "op")[(match.lastindex or 1) - 1]
            if kind == "int" and (len(match[1]) > 19 or int(match[1]) >= 1 << 63):
                self._fail("expected a number less than 2**63", match.start(1))
            self.tokens.append(
                (kind, match.group(match.lastindex or 1), match.start(match.lastindex or 1))
            )
            pos = match.end()
        self.tokens.append(("end", "", len(self.text.rstrip())))

    def _fail(self, problem: str, column: int | None = None) -> NoReturn:
        column = self.tokens[self.at][2] if column is None else column
        pointer = " " * column + "^"
        raise ParseError(
            f"constraint '{self.text}', column {column + 1}: {problem}\n  {self.text}\n  {pointer}"
        )

    def _peek(self) -> str:
        kind, value, _ = self.tokens[self.at]
        return value if kind == "op" else ""

    def _next(self) -> tuple[str, str, int]:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def _expect(self, op: str) -> None:
        if self._peek() != op:
            self._fail(f"expected '{op}', found {self._found()}")
        self.at += 1

    def _found(self) -> str:
        kind, value, _ = self.tokens[self.at]
        return "the end" if kind == "end" else f"'{value}'"

    def constraint(self) -> Any:
        """The whole text."""
        if self.tokens[0][1] == "likely" and len(self.tokens) > 1 and self.tokens[1][1] == "(":
            self.at = 1
            out: Any = self._likely()
        else:
            out = self._relation()
        if self.tokens[self.at][0] != "end":
            self._fail(f"expected the end, found {self._found()}")
        return out

    def _likely(self) -> Likely:
        self._expect("(")
        expr = self._sum()
        self._expect(",")
        self._expect("[")
        values = [self._integer()]
        while self._peek() == ",":
            self.at += 1
            values.append(self._integer())
        self._expect("]")
        self._expect(")")
        return Likely(expr, tuple(values))

    def _integer(self) -> int:
        kind, value, _ = self.tokens[self.at]
        if kind != "int":
            self._fail(f"expected an integer, found {self._found()}")
        self.at += 1
        return int(value)

    def _relation(self) -> Any:
        left = self._sum()
        if self._peek() not in _RELATIONS:
            self._fail(f"expected ==, !=, <=, <, >= or >, found {self._found()}")
        out = None
        while self._peek() in _RELATIONS:
            relation = _RELATIONS[self._next()[1]]
            right = self._sum()
            part = relation(left, right)
            out = part if out is None else tirx.And(out, part)
            left = right
        return out

    def _sum(self) -> Any:
        out = self._product()
        while self._peek() in ("+", "-"):
            op = self._next()[1]
            right = self._product()
            out = out + right if op == "+" else out - right
        return out

    def _product(self) -> Any:
        out = self._factor()
        while self._peek() in ("*", "//", "%"):
            _, op, column = self._next()
            right = self._factor()
            if op != "*" and isinstance(right, tirx.IntImm) and int(right.value) == 0:
                self._fail(f"'{op}' by 0", column)
            if op == "*":
                out = out * right
            else:
                out = tirx.floordiv(out, right) if op == "//" else tirx.floormod(out, right)
        return out

    def _factor(self) -> Any:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail("nested too deeply")
        found = self._inner_factor()
        self.depth -= 1
        return found

    def _inner_factor(self) -> Any:
        if self._peek() == "-":
            self.at += 1
            return tirx.IntImm("int64", 0) - self._factor()
        if self._peek() == "(":
            self.at += 1
            out = self._sum()
            self._expect(")")
            return out
        kind, value, column = self.tokens[self.at]
        if kind == "int":
            self.at += 1
            return tirx.IntImm("int64", int(value))
        if kind != "name":
            self._fail(f"expected a dim, found {self._found()}")
        self.at += 1
        if value in ("min", "max") and self._peek() == "(":
            return self._extremum(tirx.min if value == "min" else tirx.max)
        dim = self.resolve(value)
        if dim is None:
            self._unknown(value, column)
        return tirx.IntImm("int64", dim) if isinstance(dim, int) else dim

    def _extremum(self, join: Callable[[Any, Any], Any]) -> Any:
        self._expect("(")
        out = self._sum()
        while self._peek() == ",":
            self.at += 1
            out = join(out, self._sum())
        self._expect(")")
        return out

    def _unknown(self, name: str, column: int) -> None:
        close = difflib.get_close_matches(name, self.names, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        known = f"; known names: {', '.join(self.names)}" if self.names else ""
        self._fail(f"no dim is called '{name}'{hint}{known}", column)
