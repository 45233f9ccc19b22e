"""Lexer of Relay text."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from tvm_disc.errors import BadNode, ParseError
from tvm_disc.relay.expr import SourceName, Span

VERSION = "0.0.5"

_ID = r"(?:\w|/(?![/*]))+"
_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\n\f]+|\r\n)
  | (?P<line_comment>//[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>"[^"\n]*")
  | (?P<graph>%[0-9]+(?![A-Za-z_/]))
  | (?P<local>%{_ID})
  | (?P<global>@{_ID})
  | (?P<float>(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf)f(?:16|32|64)?(?!\w)
      |\d+(?:\.\d*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)(?!\w))
  | (?P<int>\d+(?:[iu](?:8|16|32|64)?)?(?!\w))
  | (?P<proj>\.[0-9]+)
  | (?P<name>[A-Za-z_]{_ID.replace("+", "*")}(?:\.[A-Za-z_]{_ID.replace("+", "*")})*)
  | (?P<punct>->|=>|==|!=|<=|>=|[-+*/<>=(){{}}\[\],;:?.!])
    """,
    re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_SPAN = re.compile(r"span=(.*):(\d{1,9}):(\d{1,9})\s*$", re.DOTALL)
_LONGEST_NUMBER = 400  # characters; Python reads longer numbers slowly, or refuses them
_HEADER = re.compile(r'#\[version\s*=\s*"([^"]*)"\]')
_BLANK = re.compile(r"(?:\s+|//[^\n]*)*")
_METADATA = re.compile(r"^#\[metadata\]", re.MULTILINE)
_OPERAND = frozenset(("graph", "local", "global", "float", "int", "proj", "name", "string"))


class Token(NamedTuple):
    """One token: its kind (a group of the lexer's pattern), text and offset."""

    kind: str
    text: str
    pos: int


@dataclass
class SourceText:
    """A text with its tokens, its metadata section, and the spans given in comments."""

    text: str
    tokens: list[Token] = field(default_factory=list)
    # Keyed by the index of the preceding token.
    spans: dict[int, Span] = field(default_factory=dict)
    metadata: str = ""
    metadata_pos: int = 0
    lines: list[int] = field(default_factory=list)
    name: SourceName = field(default_factory=lambda: SourceName("from_string"))

    def span(self, begin: Token, last: Token) -> Span:
        """Return the range from the start of one token to the end of another; columns are
        1-based.
        """
        line, column = self.position(begin.pos)
        end_line, end_column = self.position(last.pos + len(last.text))
        return Span(self.name, line, end_line, column, end_column, implied=True)

    def position(self, pos: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset."""
        line = bisect.bisect_right(self.lines, pos)
        return line, pos - self.lines[line - 1] + 1

    def error(self, message: str, pos: int) -> ParseError:
        """Return a ParseError with line:column and the text of the line."""
        line, column = self.position(pos)
        start = self.lines[line - 1]
        end = self.text.find("\n", start)
        excerpt = self.text[start : end if end >= 0 else len(self.text)]
        shift = max(0, column - 60)  # show only the surroundings in a long line
        excerpt, mark = excerpt[shift : shift + 100], column - 1 - shift
        return ParseError(f"{message}\n  | {excerpt}\n  | {' ' * mark}^", line, column)


def tokenize(text: str, need_header: bool, name: str = "from_string") -> SourceText:
    """Cut ``text`` into tokens.

    Raises:
        BadNode: ``text`` is not a string.
        ParseError: the version is missing or wrong, or a character is not allowed.
    """
    if not isinstance(text, str):
        raise BadNode(f"expected Relay text, found {type(text).__name__}")
    source = SourceText(text, name=SourceName(name))
    source.lines = [0, *(m.end() for m in re.finditer("\n", text))]
    pos = _header(source, need_header)
    end = len(text)
    found = _METADATA.search(text, pos)
    if found:
        end, source.metadata_pos = found.start(), found.end()
        source.metadata = text[found.end() :]
    while pos < end:
        match = _TOKEN.match(text, pos, end)
        if match is None:
            raise _unreadable(source, pos)
        kind = match.lastgroup
        assert kind is not None
        if kind == "comment":
            pos = _skip_comment(source, pos, end)
            continue
        pos = match.end()
        if kind in ("int", "float", "proj") and pos - match.start() > _LONGEST_NUMBER:
            length = pos - match.start()
            raise source.error(
                f"expected a number of at most {_LONGEST_NUMBER} characters, found {length}",
                match.start(),
            )
        if kind not in ("space", "line_comment"):
            _append(source.tokens, Token(kind, match.group(), match.start()))
    source.tokens.append(Token("end", "", end))
    return source


def _header(source: SourceText, needed: bool) -> int:
    """Return the offset after the version line, which only comments and blanks may precede."""
    text, start = source.text, 0
    while (blank := _BLANK.match(text, start)) and text.startswith("/*", blank.end()):
        start = _skip_comment(source, blank.end(), len(text))
    match = _HEADER.match(text, blank.end() if blank else start)
    if match is None:
        if needed:
            raise source.error(f'expected #[version = "{VERSION}"] at the start', 0)
        return 0
    if match[1] != VERSION:
        raise source.error(
            f'expected #[version = "{VERSION}"], found version "{match[1]}"', match.start(1)
        )
    return match.end()


def _skip_comment(source: SourceText, start: int, end: int) -> int:
    """Return the offset after a comment, which may be nested; store the span that it gives."""
    depth, pos = 0, start
    while True:
        edge = _COMMENT_EDGE.search(source.text, pos, end)
        if edge is None:
            raise source.error("expected */ to end this comment, found the end of text", start)
        pos = edge.end()
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            break
    span = _SPAN.search(source.text, start, pos - 2)
    if span and source.tokens:
        where = Span.at(span[1], int(span[2]), int(span[3]))
        source.spans.setdefault(len(source.tokens) - 1, where)
    return pos


def _append(tokens: list[Token], token: Token) -> None:
    """Append a token. If it is a number, fold the minus signs that directly precede it into its
    value, unless an operand precedes the minus signs.
    """
    if token.kind not in ("int", "float"):
        tokens.append(token)
        return
    first = len(tokens)
    while (
        first
        and _is_minus(tokens[first - 1])
        and tokens[first - 1].pos == token.pos - (len(tokens) - first + 1)
    ):
        first -= 1
    if first == len(tokens) or (first and _is_operand(tokens[first - 1])):
        tokens.append(token)
        return
    sign = "-" if (len(tokens) - first) % 2 else ""
    start = tokens[first].pos
    del tokens[first:]
    tokens.append(Token(token.kind, sign + token.text, start))


def _is_minus(token: Token) -> bool:
    return token.kind == "punct" and token.text == "-"


def _is_operand(token: Token) -> bool:
    return token.kind in _OPERAND or token.text in (")", "]", "}")


def _unreadable(source: SourceText, pos: int) -> ParseError:
    char = source.text[pos]
    if char == '"':
        return source.error('expected " to end this string on its line', pos)
    if char == "\r":
        return source.error("expected a line feed after the carriage return", pos)
    return source.error(f"unexpected character {char!r}", pos)
