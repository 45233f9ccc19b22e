"""Cursor over tokens, and resolution of ``meta[...]`` references."""

from __future__ import annotations

from typing import Any, NoReturn

from tvm_disc.errors import ParseError, counted
from tvm_disc.relay.expr import Expr
from tvm_disc.relay.text.lexer import SourceText, Token
from tvm_disc.support.late import Late

_graph = Late("tvm_disc.relay.json.legacy:LegacyGraph")
_finish = Late("tvm_disc.relay.json.reader:finish")


class Metadata:
    """The ``#[metadata]`` section; objects are decoded on first use."""

    def __init__(self, text: str, table: dict[str, list[object]] | None = None) -> None:
        self._table = table or {}
        self._graph = _graph(text) if text.strip() else None
        self._sections = self._graph.sections() if self._graph else {}

    def get(self, key: str, index: int) -> Any:
        """Return the object ``meta[key][index]``.

        Raises:
            ParseError: there is none; the message lists the sections, or gives the section's size.
        """
        given, entries = self._table.get(key, ()), self._sections.get(key, ())
        if key not in self._table and (key not in self._sections or self._graph is None):
            known = ", ".join(sorted({*self._sections, *self._table})) or "none"
            raise ParseError(f"there is no metadata section {key}; the sections: {known}")
        if not 0 <= index < max(len(given), len(entries)):
            size = max(len(given), len(entries))
            raise ParseError(
                f"meta[{key}][{index}] does not exist; the section has {counted(size, 'object')}"
            )
        if index < len(given):
            return given[index]
        assert self._graph is not None
        found = self._graph.decode(entries[index])
        return _finish(found, self._graph) if isinstance(found, Expr) else found


class TokenStream:
    """Cursor over the tokens of a text."""

    def __init__(
        self, source: SourceText, meta_table: dict[str, list[object]] | None = None
    ) -> None:
        self.source = source
        self.tokens = source.tokens
        self.index = 0
        try:
            self.metadata = Metadata(source.metadata, meta_table)
        except ParseError as error:
            line, column = source.position(source.metadata_pos)
            if error.line:  # a position inside the section
                column = error.column if error.line > 1 else column + error.column - 1
                line += error.line - 1
            raise ParseError(f"in #[metadata]: {error.message}", line, column) from None

    @property
    def token(self) -> Token:
        """Return the next token without consuming it."""
        return self.tokens[self.index]

    def peek(self, ahead: int = 1) -> Token:
        """Return a later token without consuming any."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Consume and return the next token."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def at(self, text: str) -> bool:
        """Return whether the next token is this mark or word."""
        token = self.tokens[self.index]
        return token.text == text and token.kind in ("punct", "name")

    def accept(self, text: str) -> bool:
        """Consume the next token if it is this mark or word; return whether it was."""
        if self.at(text):
            self.index += 1
            return True
        return False

    def expect(self, text: str, where: str = "") -> Token:
        """Consume this mark or word; raise ParseError if the next token is a different one."""
        if not self.at(text):
            self.fail(f"expected {text!r}{' ' + where if where else ''}")
        return self.next()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Consume a token of this kind; for other kinds, raise ParseError: expected ``what``."""
        if self.token.kind != kind:
            self.fail(f"expected {what}")
        return self.next()

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise a ParseError at ``token``, or at the next token with its text appended."""
        place = token or self.token
        if token is None:
            found = "the end of the text" if place.kind == "end" else repr(place.text)
            message = f"{message}, found {found}"
        raise self.source.error(message, place.pos)

    def meta_ref(self) -> object:
        """Parse ``meta[Key][k]`` and return its object."""
        start = self.expect("meta")
        self.expect("[", "after meta")
        key = self.expect_kind("name", "the name of a metadata section").text
        self.expect("]")
        self.expect("[", "and an index after the metadata section")
        index = self.expect_kind("int", "a metadata index")
        self.expect("]")
        if not index.text.isdecimal():
            self.fail(f"expected a metadata index, found {index.text!r}", index)
        try:
            return self.metadata.get(key, int(index.text))
        except ParseError as error:
            self.fail(str(error), start)
