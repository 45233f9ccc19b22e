"""The graph format in which Relay saved anything: ``mod.json`` and ``#[metadata]`` alike.

A file is a list of nodes that refer to each other by number (0 is null).  ``LegacyGraph`` turns
nodes into Relay objects: each node once (sharing is kept), operands first, without recursion.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ParseError
from . import legacy_nodes
from .attrs import Opaque, plain_kind
from .expr import Array
from .ndarray import decode_base64

_ALIASES = {  # names of releases up to 0.7
    "StrMap": "Map",
    "relay.Module": "IRModule",
    "relay.IRModule": "IRModule",
    "relay.GlobalVar": "GlobalVar",
    "relay.Op": "Op",
    "relay.TupleType": "TupleType",
    "relay.FuncType": "FuncType",
    "relay.TypeVar": "TypeVar",
    "relay.GlobalTypeVar": "GlobalTypeVar",
    "relay.TypeCall": "TypeCall",
    "relay.TypeData": "relay.TypeData",
    "relay.Any": "tir.Any",
    "Any": "tir.Any",
    "Variable": "tir.Var",
    "SizeVar": "tir.SizeVar",
    "relay.Span": "Span",
    "relay.SourceName": "SourceName",
    "relay.IncompleteType": "IncompleteType",
    "relay.RefType": "relay.RefType",
}


@dataclass(frozen=True)
class LegacyAttrs:
    """A decoded ``relay.attrs.X`` node."""

    type_key: str
    values: Mapping[str, Any]


class LegacyGraph:
    """A parsed file; ``decode`` gives the object of a node."""

    def __init__(self, text: str) -> None:
        """Read the JSON; ParseError if it is not a legacy graph."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ParseError(f"not JSON: {error.msg}", error.lineno, error.colno) from None
        if not isinstance(data, dict) or not isinstance(data.get("nodes"), list):
            raise ParseError('not a legacy TVM graph: expected an object with "root" and "nodes"')
        self.root: int = data.get("root", 1)
        self._nodes: list[dict[str, Any]] = data["nodes"]
        self._arrays: list[str] = data.get("b64ndarrays", [])
        self._loaded: dict[int, Array] = {}
        self._done: dict[int, Any] = {0: None}

    def decode(self, index: int) -> Any:
        """The object of node ``index``; ParseError if the file is damaged."""
        stack: list[tuple[int, bool]] = [(index, False)]
        open_nodes: set[int] = set()
        while stack:
            top, ready = stack.pop()
            if top in self._done:
                continue
            node = self._node(top)
            if ready:
                open_nodes.discard(top)
                self._done[top] = self._build(top, node)
                continue
            if top in open_nodes:
                raise ParseError(f"node {top} ({node.get('type_key')}) contains itself")
            open_nodes.add(top)
            stack.append((top, True))
            stack.extend((r, False) for r in reversed(self._refs(node)) if r not in self._done)
        return self._done[index]

    def sections(self) -> dict[str, list[int]]:
        """For a metadata graph: node numbers by section, ``{"relay.Constant": [...]}``."""
        root = self._node(self.root)
        keys = root.get("keys", [])
        arrays = (self._node(i) for i in root.get("data", []))
        return {key: list(array.get("data", [])) for key, array in zip(keys, arrays, strict=False)}

    def array(self, index: int) -> Array:
        """A stored tensor by its position in the file."""
        if index not in self._loaded:
            if not 0 <= index < len(self._arrays):
                raise ParseError(f"no stored tensor {index}; the file has {len(self._arrays)}")
            self._loaded[index] = decode_base64(self._arrays[index])
        return self._loaded[index]

    def _node(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self._nodes):
            raise ParseError(f"no node {index}; the file has {len(self._nodes)}")
        node = self._nodes[index]
        key = node.get("type_key", "")
        if key in _ALIASES and _ALIASES[key] != key:
            node["type_key"] = _ALIASES[key]
        return node

    def _refs(self, node: dict[str, Any]) -> list[int]:
        """The nodes that must be decoded before ``node``."""
        key = node["type_key"]
        if key in ("Array", "Map"):
            return [int(i) for i in node.get("data", [])]
        attrs = node.get("attrs", {})
        if key.startswith("relay.attrs."):
            return [int(v) for k, v in attrs.items() if _is_ref(key, k, v)]
        fields = legacy_nodes.REFS.get(key, ())
        return [int(attrs[f]) for f in fields if f in attrs]

    def _build(self, index: int, node: dict[str, Any]) -> Any:
        key = node["type_key"]
        attrs = node.get("attrs", {})
        if key == "Array":
            return [self._done[int(i)] for i in node.get("data", [])]
        if key == "Map":
            return self._map(node)
        if key.startswith("relay.attrs."):
            values = {k: self._attr(key, k, v) for k, v in attrs.items()}
            return LegacyAttrs(key, values)
        if key == "relay.Constant":
            attrs = {**attrs, "data": self.array(int(attrs["data"]))}
        build = legacy_nodes.BUILD.get(key)
        if build is None:
            return Opaque(key)
        get: Callable[[str], Any] = lambda name: self._done[int(attrs.get(name, 0))]  # noqa: E731
        try:
            return build(get, {**attrs, "repr_str": _repr(node)})
        except (KeyError, TypeError, ValueError) as error:
            raise ParseError(f"node {index} ({key}) is malformed: {error}") from error

    def _map(self, node: dict[str, Any]) -> dict[Any, Any]:
        data = [self._done[int(i)] for i in node.get("data", [])]
        if "keys" in node:
            return dict(zip(node["keys"], data, strict=False))
        return dict(zip(data[::2], data[1::2], strict=False))

    def _attr(self, key: str, name: str, value: str) -> Any:
        kind = plain_kind(key, name)
        if kind is bool:
            return value not in ("0", "False", "false")
        if kind is not None:
            return kind(value)
        return self._done[int(value)] if _is_ref(key, name, value) else value


def _is_ref(type_key: str, name: str, value: str) -> bool:
    return plain_kind(type_key, name) is None and str(value).isdigit()


def _repr(node: dict[str, Any]) -> str:
    if "repr_b64" in node:
        try:
            return base64.b64decode(node["repr_b64"]).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            raise ParseError("a string is neither printable nor base64 text") from None
    return str(node.get("repr_str", ""))
