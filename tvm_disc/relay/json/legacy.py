"""Decoder of Relay's graph format, used by ``mod.json`` and ``#[metadata]``.

A file is a list of nodes that refer to each other by number (0 is null). ``LegacyGraph`` converts
nodes to Relay objects: each node once (sharing is kept), operands first, without recursion.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tvm_disc.errors import BadNode, ParseError, counted
from tvm_disc.relay.attrs import LegacyAttrs, Opaque, plain_kind
from tvm_disc.relay.expr import Array, Call
from tvm_disc.relay.json import legacy_nodes
from tvm_disc.relay.json.legacy_checks import TreeSizes, check_node, checked, described, node_number
from tvm_disc.relay.ndarray import decode_base64

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


class LegacyGraph:
    """A parsed file; ``decode`` returns the object of a node."""

    def __init__(self, text: str) -> None:
        """Parse the JSON; raises ParseError if it is not a legacy graph."""
        data = _json(text)
        if not isinstance(data, dict) or not isinstance(data.get("nodes"), list):
            raise ParseError('not a legacy TVM graph: expected an object with "root" and "nodes"')
        self._nodes: list[dict[str, Any]] = data["nodes"]
        self._arrays: list[object] = data.get("b64ndarrays", [])
        if not isinstance(self._arrays, list):
            raise ParseError('not a legacy TVM graph: "b64ndarrays": expected a list')
        with _at("the root of the graph"):
            self.root = node_number(data.get("root", 1))
        self._loaded: dict[int, Array] = {}
        self._done: dict[int, Any] = {0: None}
        self._checked: set[int] = set()
        self._extent = TreeSizes()
        self._calls: dict[int, str] = {}

    def decode(self, index: int) -> object:
        """Return the object of node ``index``; raises ParseError if the file is damaged."""
        stack: list[tuple[int, bool]] = [(index, False)]
        open_nodes: set[int] = set()
        while stack:
            top, ready = stack.pop()
            if top in self._done:
                continue
            node = self._node(top)
            with _at(_named(top, node)):
                refs = self._refs(node)
                if ready:
                    open_nodes.discard(top)
                    value = self._build(node)
                    self._extent.note(top, value, refs)
                    self._done[top] = value
                    if isinstance(value, Call):
                        self._calls[id(value)] = _named(top, node)
                    continue
                if top in open_nodes:
                    raise ParseError("the node contains itself")
            open_nodes.add(top)
            stack.append((top, True))
            stack.extend((r, False) for r in reversed(refs) if r not in self._done)
        return self._done[index]

    def place(self, call: Call) -> str:
        """Return the number and class of the node that a call was decoded from."""
        return self._calls.get(id(call), "the graph")

    def sections(self) -> dict[str, list[int]]:
        """Return the node numbers of a metadata graph by section: ``{"relay.Constant": [...]}``."""
        root = self._node(self.root)
        found = {}
        with _at(_named(self.root, root)):
            numbers = [node_number(i) for i in root.get("data", [])]
        for key, number in zip(root.get("keys", []), numbers, strict=False):
            array = self._node(number)
            with _at(_named(number, array)):
                found[key] = [node_number(i) for i in array.get("data", [])]
        return found

    def array(self, index: int) -> Array:
        """Return a stored tensor by its index in the file."""
        if index not in self._loaded:
            if not 0 <= index < len(self._arrays):
                size = counted(len(self._arrays), "stored tensor")
                raise ParseError(f"there is no stored tensor {index}; the file has {size}")
            with _at(f"b64ndarrays[{index}]"):
                self._loaded[index] = decode_base64(self._arrays[index])
        return self._loaded[index]

    def _node(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self._nodes):
            size = counted(len(self._nodes), "node")
            raise ParseError(f"there is no node {index}; the file has {size}")
        node = self._nodes[index]
        if index not in self._checked:
            with _at(f"node {index}"):
                check_node(node)
            node["type_key"] = _ALIASES.get(node["type_key"], node["type_key"])
            self._checked.add(index)
        return node

    def _refs(self, node: dict[str, Any]) -> list[int]:
        """Return the nodes that must be decoded before ``node``."""
        key = node["type_key"]
        if key in ("Array", "Map"):
            return [node_number(i) for i in node.get("data", [])]
        attrs = node.get("attrs", {})
        if key.startswith("relay.attrs."):
            return [node_number(v) for k, v in attrs.items() if _is_ref(key, k, v)]
        fields = legacy_nodes.REFS.get(key, ())
        return [node_number(attrs[f]) for f in fields if f in attrs]

    def _build(self, node: dict[str, Any]) -> Any:
        key = node["type_key"]
        attrs = node.get("attrs", {})
        if key == "Array":
            return [self._done[node_number(i)] for i in node.get("data", [])]
        if key == "Map":
            return self._map(node)
        build = legacy_nodes.BUILD.get(key)
        try:
            if key.startswith("relay.attrs."):
                return LegacyAttrs(key, {k: self._attr(key, k, v) for k, v in attrs.items()})
            if key == "relay.Constant":
                attrs = {**attrs, "data": self.array(node_number(attrs["data"]))}
            if build is None:
                return Opaque(key)
            return build(partial(self._field, key, attrs), {**attrs, "repr_str": _repr(node)})
        except KeyError as error:
            raise ParseError(f"the field {error} is missing") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise ParseError(f"a field has an invalid value: {str(error)[:200]}") from None

    def _field(self, key: str, attrs: Mapping[str, object], name: str) -> object:
        return checked(key, name, self._done[node_number(attrs.get(name, 0))])

    def _map(self, node: dict[str, Sequence[int | str] | str]) -> dict[object, object]:
        data = [self._done[node_number(i)] for i in node.get("data", [])]
        keys, values = (node["keys"], data) if "keys" in node else (data[::2], data[1::2])
        if len(keys) != len(values):
            raise ParseError(
                f"expected as many keys as values, found {len(keys)} and {len(values)}"
            )
        for key in keys:
            if isinstance(key, list | dict):
                raise ParseError(f"a key: expected a number or text, found {described(key)}")
        return dict(zip(keys, values, strict=True))

    def _attr(self, key: str, name: str, value: str) -> object:
        kind = plain_kind(key, name)
        if kind is bool:
            return value not in ("0", "False", "false")
        if kind is not None:
            return kind(value)
        return self._done[node_number(value)] if _is_ref(key, name, value) else value


def _named(index: int, node: Mapping[str, object]) -> str:
    return f"node {index} ({str(node.get('type_key'))[:80]})"


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Add the node's position to errors raised inside; an inner position is kept."""
    try:
        yield
    except ParseError as error:
        if error.line or error.message.startswith(("node ", "there is no node ")):
            raise
        raise ParseError(f"{place}: {error.message}") from None


def _json(text: object) -> object:
    if not isinstance(text, str):
        raise BadNode(f"expected the text of a JSON graph, found {type(text).__name__}")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise ParseError("not a legacy TVM graph: its JSON is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ParseError(f"not a legacy TVM graph: {str(error).partition(';')[0]}") from None


def _is_ref(type_key: str, name: str, value: str) -> bool:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return plain_kind(type_key, name) is None and text.isascii() and text.isdigit()


def _repr(node: dict[str, Any]) -> str:
    if "repr_b64" in node:
        try:
            return base64.b64decode(node["repr_b64"]).decode("utf-8")
        except (TypeError, ValueError):
            raise ParseError("a string is neither printable nor base64 text") from None
    return str(node.get("repr_str", ""))
