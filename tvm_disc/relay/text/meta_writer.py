"""Writer of objects that have no text form: ``meta[...]`` references and a legacy JSON section."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.relay import types as ty
from tvm_disc.relay.expr import Constant
from tvm_disc.relay.ndarray import encode_base64

if TYPE_CHECKING:
    from tvm_disc.relay.types import DimExpr


TVM_VERSION = "0.19.0"
_INLINE_SUFFIX = {
    "int16": "i16",
    "int32": "",
    "int64": "i64",
    "float16": "f16",
    "float32": "f",
    "float64": "f64",
}


def scalar_text(data: np.ndarray[Any, Any]) -> str | None:
    """Return a literal that parses to the rank-0 constant ``data``; None if no literal does."""
    dtype = data.dtype.name
    if data.ndim or (dtype != "bool" and dtype not in _INLINE_SUFFIX):
        return None
    value = data[()]
    if dtype == "bool":
        return str(bool(value))
    if data.dtype.kind == "i":
        return f"{int(value)}{_INLINE_SUFFIX[dtype]}"
    if not np.isfinite(value) or (value == 0 and np.signbit(value)):
        return None
    text = str(value)  # shortest digits that parse to the same number of this type
    return f"{text.removesuffix('.0')}{_INLINE_SUFFIX[dtype]}"


class MetaWriter:
    """Collector of objects during printing; ``text`` returns the metadata section."""

    def __init__(self) -> None:
        self._sections: dict[str, list[int]] = {}
        self._refs: dict[object, str] = {}
        self._nodes: list[dict[str, object]] = [{"type_key": ""}, {"type_key": "Map"}]
        self._node_of: dict[object, int] = {}
        self._arrays: list[str] = []
        self._keep: list[object] = []  # keeps objects alive: _refs is keyed by identity

    def __bool__(self) -> bool:
        return bool(self._sections)

    def constant(self, value: Constant) -> str:
        """Return ``meta[relay.Constant][k]``; one entry per object."""
        self._keep.append(value)
        return self._ref("relay.Constant", ("const", id(value)), value)

    def dim(self, value: ty.DimExpr) -> str:
        """Return ``meta[tir.X][k]`` of a symbolic dimension; one entry per value."""
        return self._ref(_dim_key(value), value, value)

    def string(self, value: str) -> str:
        """Return ``meta[runtime.String][k]`` of a string that cannot be quoted."""
        return self._ref("runtime.String", ("str", value), value)

    def text(self) -> str:
        """Return the section, starting with ``#[metadata]``."""
        keys = sorted(self._sections)
        arrays = [self._add({"type_key": "Array", "data": self._sections[k]}) for k in keys]
        self._nodes[1] = {"type_key": "Map", "keys": keys, "data": arrays}
        graph = {
            "root": 1,
            "nodes": self._nodes,
            "b64ndarrays": self._arrays,
            "attrs": {"tvm_version": TVM_VERSION},
        }
        return f"#[metadata]\n{_compact(json.dumps(graph, indent=2))}\n"

    def _ref(self, section: str, identity: object, value: object) -> str:
        if identity not in self._refs:
            entries = self._sections.setdefault(section, [])
            self._refs[identity] = f"meta[{section}][{len(entries)}]"
            entries.append(self._node(value))
        return self._refs[identity]

    def _add(self, node: dict[str, Any]) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _node(self, value: Any) -> int:
        if isinstance(value, Constant):
            return self._constant_node(value)
        known = (type(value).__name__, value)
        if known not in self._node_of:
            self._node_of[known] = self._add(self._plain_node(value))
        return self._node_of[known]

    def _constant_node(self, value: Constant) -> int:
        self._arrays.append(encode_base64(value.data))
        attrs = {"_checked_type_": "0", "data": str(len(self._arrays) - 1), "span": "0"}
        attrs["virtual_device_"] = str(self._device())
        return self._add({"type_key": "relay.Constant", "attrs": attrs})

    def _device(self) -> int:
        """Return the unconstrained ``VirtualDevice`` node, which TVM requires on every
        expression.
        """
        if "device" not in self._node_of:
            scope = self._add({"type_key": "runtime.String"})
            attrs = {"device_type_int": "-1", "memory_scope": str(scope), "target": "0"}
            attrs["virtual_device_id"] = "-1"
            self._node_of["device"] = self._add({"type_key": "VirtualDevice", "attrs": attrs})
        return self._node_of["device"]

    def _plain_node(self, value: DimExpr | int | str) -> dict[str, dict[str, str] | str]:
        if isinstance(value, str):
            return {"type_key": "runtime.String", "repr_str": value}
        if isinstance(value, int):
            attrs = {"dtype": "int32", "span": "0", "value": str(value)}
            return {"type_key": "IntImm", "attrs": attrs}
        key = _dim_key(value)
        if isinstance(value, ty.DimVar):
            kind = {"type_key": "PrimType", "attrs": {"dtype": value.dtype}}
            attrs = {"dtype": value.dtype, "name": str(self._node(value.name)), "span": "0"}
            attrs["type_annotation"] = str(self._add(kind))
        elif isinstance(value, ty.DimOp):
            a, b = self._node(value.a), self._node(value.b)
            attrs = {"a": str(a), "b": str(b), "dtype": "int32", "span": "0"}
        else:
            name = getattr(value, "name", None)
            attrs = {"dtype": "int32", "span": "0"}
            if name is not None:  # extension of this project; TVM ignores unknown fields
                attrs["name"] = str(self._node(name))
        return {"type_key": key, "attrs": attrs}


def _dim_key(value: ty.DimExpr) -> str:
    if isinstance(value, ty.DimVar):
        return "tir.SizeVar" if value.size else "tir.Var"
    if isinstance(value, ty.DimOp):
        return f"tir.{value.op}"
    if isinstance(value, ty.Any):
        return "tir.Any"
    raise Unsupported(f"a dimension of type {type(value).__name__} cannot be written as Relay text")


def _compact(text: str) -> str:
    """Return JSON text with each list of numbers on one line, as TVM writes it."""
    return re.sub(r"\[\s+((?:\d+,?\s+)+)\]", lambda m: f"[{' '.join(m[1].split())}]", text)
