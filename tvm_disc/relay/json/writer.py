"""Writer of the legacy JSON of ``tvm.ir.save_json``; the inverse of the reader."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tvm_disc.errors import BadNode
from tvm_disc.relay import expr as ex
from tvm_disc.relay import types as ty
from tvm_disc.relay.attr_classes import CLASS_OF, PLAIN
from tvm_disc.relay.attrs import ARGUMENT_ATTRS
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ndarray import encode_base64
from tvm_disc.relay.visit import post_order

TVM_VERSION = "0.19.0"
Fields = Mapping[str, Any]


class Ref(int):
    """Number of a node in the graph."""


def save_json(value: IRModule | ex.Expr | ty.Type | ex.Span) -> str:
    """Return a module, an expression or a type as JSON that ``relay.load_json`` and TVM 0.19 read.

    Floats are exact; Relay's text format keeps six digits.

    Raises:
        BadNode: ``value`` is not a Relay object.
    """
    if not isinstance(value, IRModule | ex.Expr | ty.Type | ex.Span):
        found = type(value).__name__
        raise BadNode(f"save_json: expected a relay module, expression or type, found {found}")
    writer = _Writer()
    writer.nodes.append({})  # reserve node 1 for the root
    root = writer.any(value)
    writer.nodes[1] = writer.nodes[root]
    graph = {
        "root": 1,
        "nodes": writer.nodes,
        "b64ndarrays": writer.arrays,
        "attrs": {"tvm_version": TVM_VERSION},
    }
    return json.dumps(graph, indent=2)


class _Writer:
    """Nodes by number, each object once; expressions are written without recursion."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}]
        self.arrays: list[str] = []
        self.known: dict[Any, Ref] = {}
        self.data: dict[str, ty.TypeData] = {}

    def add(self, key: str, **fields: object) -> Ref:
        """Add a node and return its number; fields are strings or node numbers."""
        attrs = {name: str(value) for name, value in sorted(fields.items())}
        self.nodes.append({"type_key": key, "attrs": attrs} if attrs else {"type_key": key})
        return Ref(len(self.nodes) - 1)

    def once(self, identity: object, make: Callable[[], Ref]) -> Ref:
        """Return the node stored under ``identity``; the first call writes it with ``make``."""
        if identity not in self.known:
            self.known[identity] = make()
        return self.known[identity]

    def any(self, value: Any) -> Ref:
        """Write any object or attribute value; return its node."""
        if value is None:
            return Ref(0)
        if isinstance(value, IRModule):
            return self.module(value)
        if isinstance(value, ex.Expr):
            return self.expression(value)
        if isinstance(value, ty.Type):
            return self.type(value)
        if isinstance(value, ty.DimExpr):
            return self.dim(value)
        if isinstance(value, ex.Span):
            return self.span(value)
        if isinstance(value, str):
            return self.once(("text", value), lambda: self.text("runtime.String", value))
        if isinstance(value, bool | int | np.integer):
            dtype = "bool" if isinstance(value, bool) else "int32"
            dtype = dtype if -(2**31) <= value < 2**31 else "int64"
            return self.add("IntImm", dtype=dtype, span=0, value=int(value))
        if isinstance(value, float | np.floating):
            return self.add("FloatImm", dtype="float64", span=0, value=_number(value))
        return self.array(value)

    def text(self, key: str, value: str) -> Ref:
        """Write a string as a node of class ``key``."""
        node = self.add(key)
        if not value.isascii() or not value.isprintable():
            raw = base64.b64encode(value.encode("utf-8")).decode("ascii")
            self.nodes[node]["repr_b64"] = raw
        elif value:
            self.nodes[node]["repr_str"] = value
        return node

    def array(self, items: Iterable[object]) -> Ref:
        """Write an ``Array``."""
        found = [int(self.any(item)) for item in items]
        node = self.add("Array")
        self.nodes[node]["data"] = found
        return node

    def map(self, items: Mapping[Any, object], make: Callable[[Any], Ref]) -> Ref:
        """Write a ``Map`` with keys that are strings or objects."""
        values = [int(make(v)) for v in items.values()]
        node = self.add("Map")
        if items and all(isinstance(k, str) for k in items):
            self.nodes[node].update(keys=list(items), data=values)
        elif items:
            keys = [int(self.any(k)) for k in items]
            self.nodes[node]["data"] = [x for pair in zip(keys, values, strict=True) for x in pair]
        return node

    # -- modules

    def module(self, mod: IRModule) -> Ref:
        """Write an ``IRModule``."""
        self.data = dict(mod.type_definitions)
        types = {data.header: data for data in mod.type_definitions.values()}
        names = {g.name_hint: g for g in mod.functions}
        headers = {data.header.name: data.header for data in types.values()}
        functions = self.map(mod.functions, self.expression)
        sources = self.add("SourceMap", source_map=self.map({}, self.any))
        return self.add(
            "IRModule",
            functions=functions,
            type_definitions=self.map(types, self.type),
            global_var_map_=self.map(names, self.expression),
            global_type_var_map_=self.map(headers, self.type),
            source_map=sources,
            attrs=self.dict_attrs(mod.attrs) if mod.attrs else 0,
            global_infos=self.map({}, self.any),
        )

    def dict_attrs(self, attrs: Mapping[str, tuple[float | str, ...] | float | str | None]) -> Ref:
        """Write the ``DictAttrs`` of a function, a module or a call."""
        return self.add("DictAttrs", __dict__=self.map(attrs, self.any))

    # -- expressions

    def expression(self, root: ex.Expr) -> Ref:
        """Return the node of an expression; its operands are written before it."""
        if id(root) in self.known:
            return self.known[id(root)]
        for node in post_order(root):
            if id(node) not in self.known:
                key, fields = _EXPRESSIONS[type(node)](self, node)
                if not key:
                    self.known[id(node)] = fields["node"]
                    continue
                span = self.span(node.span)
                rest = {"_checked_type_": 0, "span": span, "virtual_device_": self.device()}
                if key == "GlobalVar":
                    rest["struct_info_"] = 0
                self.known[id(node)] = self.add(key, **fields, **rest)
        return self.known[id(root)]

    def source(self, source: ex.SourceName) -> Ref:
        """Return the node of a source name."""
        return self.once(("source", source.name), lambda: self.text("SourceName", source.name))

    def span(self, span: ex.Span | None) -> Ref:
        """Return the node of a span; 0 for no span or an implied one."""
        if span is None or span.implied:
            return Ref(0)

        def make() -> Ref:
            source = span.source_name
            name = self.source(source) if source is not None else 0
            place = {"line": span.line, "column": span.column}
            ends = {"end_line": span.end_line, "end_column": span.end_column}
            return self.add("Span", source_name=name, **place, **ends)

        return self.once(("span", span), make)

    def device(self) -> Ref:
        """Return the unconstrained ``VirtualDevice`` node, which TVM requires on every
        expression.
        """

        def make() -> Ref:
            scope = self.any("")
            number = {"device_type_int": -1, "virtual_device_id": -1}
            return self.add("VirtualDevice", memory_scope=scope, target=0, **number)

        return self.once("device", make)

    def call(self, node: ex.Call) -> tuple[str, Fields]:
        """Return class and fields of a call, with the attribute class of its operator."""
        op = node.op.name if isinstance(node.op, ex.Op) else ""
        name = CLASS_OF.get(op)
        repeated = ARGUMENT_ATTRS.get(op, {})
        attrs = Ref(0)
        if name is not None:
            plain = PLAIN[name]
            fields = {
                k: self.any(node.args[repeated[k]] if k in repeated else v)
                if k not in plain
                else _plain(v)
                for k, v in node.attrs.items()
            }
            attrs = self.add(f"relay.attrs.{name}Attrs", **fields)
        elif node.attrs:
            attrs = self.dict_attrs(node.attrs)
        kinds = self.array(node.given_type_args)
        return "relay.Call", {
            "op": self.any(node.op),
            "args": self.array(node.args),
            "attrs": attrs,
            "type_args": kinds,
        }

    def function(self, node: ex.Function) -> tuple[str, Fields]:
        """Return class and fields of a function."""
        return "relay.Function", {
            "params": self.array(node.params),
            "body": self.any(node.body),
            "ret_type": self.any(node.ret_type),
            "type_params": self.array(node.type_params),
            "attrs": self.dict_attrs(node.attrs),
        }

    def match(self, node: ex.Match) -> tuple[str, Fields]:
        """Return class and fields of a match with its clauses."""
        clauses = []
        for clause in node.clauses:
            lhs = self.pattern(clause.lhs)
            clauses.append(int(self.add("relay.Clause", lhs=lhs, rhs=self.any(clause.rhs))))
        array = self.add("Array")
        self.nodes[array]["data"] = clauses
        data = self.any(node.data)
        return "relay.Match", {"data": data, "clauses": array, "complete": int(node.complete)}

    def pattern(self, pattern: ex.Pattern) -> Ref:
        """Write a pattern."""
        if isinstance(pattern, ex.PatternVar):
            return self.add("relay.PatternVar", var=self.expression(pattern.var), span=0)
        if isinstance(pattern, ex.PatternWildcard):
            return self.add("relay.PatternWildcard", span=0)
        assert isinstance(pattern, ex.PatternConstructor | ex.PatternTuple)
        inner = [int(self.pattern(p)) for p in pattern.patterns]
        array = self.add("Array")
        self.nodes[array]["data"] = inner
        if isinstance(pattern, ex.PatternTuple):
            return self.add("relay.PatternTuple", patterns=array, span=0)
        constructor = self.expression(pattern.constructor)
        return self.add("relay.PatternConstructor", constructor=constructor, patterns=array, span=0)

    def constructor(self, node: ex.Constructor) -> tuple[str, Fields]:
        """Return the node of a constructor; equal constructors share one node."""
        return "", {"node": self.constructor_node(node.belong_to, node.name_hint, node)}

    def constructor_node(self, owner: str, name: str, node: Any) -> Ref:
        """Return the node of a constructor of a data type."""

        def make() -> Ref:
            return self.add(
                "relay.Constructor",
                name_hint=self.any(name),
                inputs=self.array(node.inputs),
                belong_to=self.type(ty.GlobalTypeVar(owner)),
                tag=getattr(node, "tag", 0),
                _checked_type_=0,
                span=0,
                virtual_device_=0,
            )

        return self.once(("constructor", owner, name), make)

    # -- types

    def type(self, value: ty.Type) -> Ref:
        """Return the node of a type."""
        if isinstance(value, ty.TypeData):
            return self.type_data(value)
        if any(isinstance(d, ty.Any) for d in ty.dims_of(value)):
            return self.type_node(value)  # an anonymous dim is never shared
        return self.once(("type", value), lambda: self.type_node(value))

    def type_node(self, value: ty.Type) -> Ref:
        """Write a type as a new node."""
        if isinstance(value, ty.TensorType):
            shape = self.array(value.shape)
            return self.add("relay.TensorType", shape=shape, dtype=value.dtype, span=0)
        if isinstance(value, ty.TupleType):
            return self.add("TupleType", fields=self.array(value.fields), span=0)
        if isinstance(value, ty.FuncType):
            return self.add(
                "FuncType",
                arg_types=self.array(value.arg_types),
                ret_type=self.any(value.ret_type),
                type_params=self.array(value.type_params),
                type_constraints=self.array(()),
                span=0,
            )
        if isinstance(value, ty.TypeVar):
            return self.add("TypeVar", name_hint=self.any(value.name), kind=value.kind, span=0)
        if isinstance(value, ty.GlobalTypeVar):
            return self.add("GlobalTypeVar", name_hint=self.any(value.name), kind=5, span=0)
        if isinstance(value, ty.TypeCall):
            func, args = self.any(value.func), self.array(value.args)
            return self.add("TypeCall", func=func, args=args, span=0)
        if isinstance(value, ty.RefType):
            return self.add("relay.RefType", value=self.any(value.value), span=0)
        return self.add("IncompleteType", kind=0, span=0)

    def type_data(self, value: ty.TypeData) -> Ref:
        """Write the definition of a data type."""
        made = [
            int(self.constructor_node(value.header.name, sig.name, _Tagged(sig.inputs, tag)))
            for tag, sig in enumerate(value.constructors)
        ]
        constructors = self.add("Array")
        self.nodes[constructors]["data"] = made
        return self.add(
            "relay.TypeData",
            header=self.type(value.header),
            type_vars=self.array(value.type_vars),
            constructors=constructors,
            span=0,
        )

    def dim(self, value: ty.DimExpr) -> Ref:
        """Return the node of a dimension that is not a number."""
        if isinstance(value, ty.DimVar):
            return self.once(("dim", value), lambda: self.dim_var(value))
        if isinstance(value, ty.DimOp):
            a, b = self.any(value.a), self.any(value.b)
            return self.add(f"tir.{value.op}", a=a, b=b, dtype="int32", span=0)
        name = getattr(value, "name", None)
        # extension of this project; TVM ignores it
        extra = {} if name is None else {"name": self.any(name)}
        return self.add("tir.Any", dtype="int32", span=0, **extra)

    def dim_var(self, value: ty.DimVar) -> Ref:
        """Write a named dimension."""
        kind = self.add("PrimType", dtype=value.dtype)
        key = "tir.SizeVar" if value.size else "tir.Var"
        name = self.any(value.name)
        return self.add(key, name=name, dtype=value.dtype, type_annotation=kind, span=0)


class _Tagged:
    """Field types and position of a constructor."""

    def __init__(self, inputs: tuple[ty.Type, ...], tag: int) -> None:
        self.inputs, self.tag = inputs, tag


def _constant(w: _Writer, node: ex.Constant) -> tuple[str, Fields]:
    w.arrays.append(encode_base64(node.data))
    return "relay.Constant", {"data": len(w.arrays) - 1}


def _var(w: _Writer, node: ex.Var) -> tuple[str, Fields]:
    vid = w.add("relay.Id", name_hint=w.any(node.name_hint))
    return "relay.Var", {"vid": vid, "type_annotation": w.any(node.type_annotation)}


def _op(w: _Writer, node: ex.Op) -> tuple[str, Fields]:
    return "", {"node": w.once(("op", node.name), lambda: w.text("Op", node.name))}


def _simple(key: str, **names: str) -> Callable[[_Writer, Any], tuple[str, Fields]]:
    """Return a writer of a node class whose fields are expressions or numbers."""

    def write(w: _Writer, node: object) -> tuple[str, Fields]:
        found = {name: getattr(node, attr) for name, attr in names.items()}
        return key, {n: v if isinstance(v, int) else w.any(v) for n, v in found.items()}

    return write


_EXPRESSIONS: dict[type, Callable[[_Writer, Any], tuple[str, Fields]]] = {
    ex.Call: _Writer.call,
    ex.Constant: _constant,
    ex.Constructor: _Writer.constructor,
    ex.Function: _Writer.function,
    ex.GlobalVar: _simple("GlobalVar", name_hint="name_hint"),
    ex.If: _simple("relay.If", cond="cond", true_branch="true_branch", false_branch="false_branch"),
    ex.Let: _simple("relay.Let", var="var", value="value", body="body"),
    ex.Match: _Writer.match,
    ex.Op: _op,
    ex.RefCreate: _simple("relay.RefCreate", value="value"),
    ex.RefRead: _simple("relay.RefRead", ref="ref"),
    ex.RefWrite: _simple("relay.RefWrite", ref="ref", value="value"),
    ex.Tuple: lambda w, node: ("relay.Tuple", {"fields": w.array(node.fields)}),
    ex.TupleGetItem: _simple("relay.TupleGetItem", tuple_value="tuple_value", index="index"),
    ex.Var: _var,
}


def _number(value: Any) -> str:
    """Return a decimal text that parses to exactly ``value``."""
    return repr(float(value))


def _plain(value: object) -> str:
    """Return the text of a field that is not a node."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return _number(value) if isinstance(value, float) else str(value)


__all__ = ["save_json"]
