"""The constraint language, in which users and front ends state conditions on dims.

    constraint  := choice | "likely(" sum "," "[" int, ... "]" ")"
    choice      := disjunction ("if" disjunction "else" choice)?
    disjunction := conjunction ("or" conjunction)*
    conjunction := negation ("and" negation)*
    negation    := "not" negation | relation
    relation    := sum (("==" | "!=" | "<=" | "<" | ">=" | ">") sum)*
    sum         := product (("+" | "-") product)*
    product     := factor (("*" | "/" | "//" | "%" | "<<" | ">>") factor)*
    factor      := "-" factor | atom ("**" int)?
    atom        := int | float | name | name "." axis | "(" choice ")"
                 | ("min" | "max") "(" choice, ... ")"
                 | ("abs" | "ceil" | "float" | "floor" | "int" | "round" | "sqrt" | "trunc")
                   "(" choice ")"

`1 <= b <= 64`, `s % 8 == 0`, `ids.1 == mask.1` (input name . axis), `h == w`,
`trunc(0.2 * float(n)) == 1`. The whole text must be a condition, not a number. Operators have
Python's meaning and precedence, except that a shift has the precedence of a product. Messages quote
the text of a constraint, as in JAX's `shape_poly`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import NoReturn, TypeAlias

from tvm_disc.errors import BadInput, ParseError, shown
from tvm_disc.typing import Expr, Size

from .arithmetic import (
    BINARY,
    EXTREMA,
    FUNCTIONS,
    RELATIONS,
    Mistyped,
    chosen,
    condition,
    integer,
    joined,
    literal,
    negated,
    real,
    related,
)

_TOKEN = re.compile(
    r"\s*(?:(\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)|([0-9]+)"
    r"|([A-Za-z_][\w:]*(?:\.[A-Za-z_][\w:/]*)*(?:\.\d+)?)"
    r"|(==|!=|<=|>=|//|\*\*|<<|>>|[-+*/%<>(),\[\]]))"
)
_KINDS = ("float", "int", "name", "op")
_WORDS = frozenset(["and", "else", "if", "not", "or"])


# Returns the dim of that name, or None.
Resolve: TypeAlias = Callable[[str], Size | None]


@dataclass(frozen=True)
class Likely:
    """The hint `likely(expr, values)`."""

    expr: Expr
    values: tuple[int, ...]


_DEEPEST = 50  # maximum nesting of parentheses and signs


def check_constraints(constraints: object) -> tuple[str, ...]:
    """Return the constraints as a tuple of texts.

    Raises:
        BadInput: the argument is not a sequence of strings.
    """
    texts = tuple(constraints) if isinstance(constraints, list | tuple | set) else (None,)
    for text in texts:
        if not isinstance(text, str):
            found = repr(constraints if text is None else text)[:80]
            raise BadInput(
                f'constraints: expected a list of strings such as "1 <= b <= 64", found {found}'
            )
    return texts


def parse_constraint(
    text: str, resolve: Resolve, names: Iterable[str] | None = None
) -> Expr | Likely:
    """Return the TVM condition (or `Likely`) that `text` states.

    Args:
        resolve: maps a name, such as `s` or `ids.1`, to a dim, or to None if it is unknown.
        names: the known names, for messages; by default those of the object whose method
            `resolve` is.

    Raises:
        ParseError: the text is invalid; the message quotes it and shows the column.
        BadInput: an argument has a wrong type.
    """
    if not isinstance(text, str):
        raise BadInput(f"parse_constraint: expected a string such as 'n > 1', found {shown(text)}")
    if not callable(resolve):
        raise BadInput(
            f"parse_constraint: expected a function that takes names, found {shown(resolve)}"
        )
    if names is None:
        owner = getattr(resolve, "__self__", None)
        names = getattr(owner, "known_names", lambda: ())()
    return _Parser(text, resolve, sorted(names)).constraint()


def _all(conditions: Iterable[Expr], last: Expr | None = None) -> Expr:
    found = [*conditions] if last is None else [*conditions, last]
    return reduce(lambda a, b: joined("and", a, b), found)


class _Parser:
    def __init__(self, text: str, resolve: Resolve, names: list[str]) -> None:
        self.text = text
        self.resolve = resolve
        self.names = names
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        self.depth = 0
        # Conditions under which the parsed text has a value: each divisor is not 0.
        self.defined: list[Expr] = []
        self._tokenize()

    def _tokenize(self) -> None:
        pos = 0
        while self.text[pos:].strip():
            match = _TOKEN.match(self.text, pos)
            if match is None:
                column = pos + len(self.text[pos:]) - len(self.text[pos:].lstrip())
                self._fail(f"unexpected '{self.text[column]}'", column)
            group = match.lastindex or 1
            kind, text = _KINDS[group - 1], match.group(group)
            if kind == "int" and (len(text) > 19 or int(text) >= 1 << 63):
                self._fail("expected a number less than 2**63", match.start(group))
            word = kind == "name" and text in _WORDS
            self.tokens.append(("op" if word else kind, text, match.start(group)))
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

    def constraint(self) -> Expr | Likely:
        """Parse the whole text."""
        if self.tokens[0][1] == "likely" and len(self.tokens) > 1 and self.tokens[1][1] == "(":
            self.at = 1
            out: Expr | Likely = self._likely()
        else:
            test = self._choice()
            try:
                condition(test)
            except Mistyped:
                self._fail(f"expected ==, !=, <=, <, >= or >, found {self._found()}")
            out = _all(self.defined, test)
        if self.tokens[self.at][0] != "end":
            self._fail(f"expected the end, found {self._found()}")
        return out

    def _made(self, column: int, make: Callable[..., Expr], *args: object) -> Expr:
        """Return ``make(*args)``; operands of a wrong type are reported at ``column``."""
        try:
            return make(*args)
        except Mistyped as error:
            self._fail(str(error), column)

    def _apart(self, part: Callable[[], Expr]) -> tuple[Expr, list[Expr]]:
        """Return ``part()``, and the conditions under which its expression has a value."""
        outer, self.defined = self.defined, []
        out = part()
        inner, self.defined = self.defined, outer
        return out, inner

    def _choice(self) -> Expr:
        out, needs = self._apart(self._disjunction)
        if self._peek() != "if":
            self.defined += needs
            return out
        column = self._next()[2]
        test = self._disjunction()
        self._expect("else")
        other, needs_other = self._apart(self._choice)
        found = self._made(column, chosen, test, out, other)
        self.defined += [joined("or", negated(test), x) for x in needs]
        self.defined += [joined("or", test, x) for x in needs_other]
        return found

    def _disjunction(self) -> Expr:
        return self._words("or", self._conjunction)

    def _conjunction(self) -> Expr:
        return self._words("and", self._negation)

    def _words(self, word: str, part: Callable[[], Expr]) -> Expr:
        out = part()
        while self._peek() == word:
            column = self._next()[2]
            right, needs = self._apart(part)
            out = self._made(column, joined, word, out, right)
            if needs:  # required only if the right side is evaluated
                out = joined("and", out, joined("or", self._skipped(word, out.a), _all(needs)))
        return out

    def _skipped(self, word: str, left: Expr) -> Expr:
        return negated(left) if word == "and" else left

    def _negation(self) -> Expr:
        if self._peek() != "not":
            return self._relation()
        column = self._next()[2]
        with self._deeper():
            return self._made(column, negated, self._negation())

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

    def _relation(self) -> Expr:
        left = self._sum()
        out = None
        while self._peek() in RELATIONS:
            _, sign, column = self._next()
            right = self._sum()
            part = self._made(column, related, sign, left, right)
            out = part if out is None else joined("and", out, part)
            left = right
        return left if out is None else out

    def _sum(self) -> Expr:
        return self._operators(("+", "-"), self._product)

    def _product(self) -> Expr:
        return self._operators(("*", "/", "//", "%", "<<", ">>"), self._factor)

    def _operators(self, signs: tuple[str, ...], part: Callable[[], Expr]) -> Expr:
        out = part()
        while self._peek() in signs:
            _, sign, column = self._next()
            right = part()
            if sign in ("//", "%") and literal(right) == 0:
                self._fail(f"expected a divisor of '{sign}' other than 0", column)
            if sign in ("/", "//", "%") and literal(right) is None:
                self.defined.append(self._made(column, related, "!=", right, integer(0)))
            out = self._made(column, BINARY[sign], out, right)
        return out

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail("nested too deeply")
        yield
        self.depth -= 1

    def _factor(self) -> Expr:
        with self._deeper():
            if self._peek() == "-":
                column = self._next()[2]
                return self._made(column, BINARY["-"], integer(0), self._factor())
            out = self._atom()
            if self._peek() == "**":
                column = self._next()[2]
                out = self._made(column, BINARY["**"], out, self._factor())
            return out

    def _atom(self) -> Expr:
        if self._peek() == "(":
            return self._arguments()[0]
        kind, value, column = self.tokens[self.at]
        if kind in ("int", "float"):
            self.at += 1
            return integer(int(value)) if kind == "int" else real(float(value))
        if kind != "name":
            self._fail(f"expected a dim, found {self._found()}")
        self.at += 1
        if self._peek() == "(" and value in FUNCTIONS:
            return self._made(column, FUNCTIONS[value], self._arguments()[0])
        if self._peek() == "(" and value in EXTREMA:
            first, *others = self._arguments(many=True)
            return reduce(lambda a, b: self._made(column, EXTREMA[value], a, b), others, first)
        dim = self.resolve(value)
        if dim is None:
            self._unknown(value, column)
        return integer(dim) if isinstance(dim, int) else dim

    def _arguments(self, many: bool = False) -> list[Expr]:
        self._expect("(")
        found = [self._choice()]
        while many and self._peek() == ",":
            self.at += 1
            found.append(self._choice())
        self._expect(")")
        return found

    def _unknown(self, name: str, column: int) -> NoReturn:
        close = difflib.get_close_matches(name, self.names, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        known = f"; known names: {', '.join(self.names)}" if self.names else ""
        self._fail(f"no dim is called '{name}'{hint}{known}", column)
