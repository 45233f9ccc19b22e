"""Builders of Relay objects from the node types of the legacy graph format.

Fields that hold only results of inference (checked types, devices) are not followed: they make
cycles, and inference can compute them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_disc.errors import ParseError
from tvm_disc.relay import expr as ex
from tvm_disc.relay import types as ty
from tvm_disc.relay.module import IRModule

Get = Callable[[str], Any]
Raw = dict[str, Any]


REFS: dict[str, tuple[str, ...]] = {
    "IRModule": ("functions", "type_definitions", "attrs"),
    "relay.Function": ("params", "body", "ret_type", "type_params", "attrs", "span"),
    "relay.Var": ("vid", "type_annotation", "span"),
    "relay.Id": ("name_hint",),
    "relay.Call": ("op", "args", "attrs", "type_args", "span"),
    "relay.Constant": ("span",),
    "relay.Tuple": ("fields", "span"),
    "relay.TupleGetItem": ("tuple_value", "span"),
    "relay.Let": ("var", "value", "body", "span"),
    "relay.If": ("cond", "true_branch", "false_branch", "span"),
    "relay.RefCreate": ("value", "span"),
    "relay.RefRead": ("ref", "span"),
    "relay.RefWrite": ("ref", "value", "span"),
    "relay.Match": ("data", "clauses", "span"),
    "relay.Clause": ("lhs", "rhs"),
    "relay.PatternConstructor": ("constructor", "patterns"),
    "relay.PatternVar": ("var",),
    "relay.PatternTuple": ("patterns",),
    "relay.Constructor": ("name_hint", "inputs", "belong_to"),
    "relay.TypeData": ("header", "type_vars", "constructors"),
    "relay.TensorType": ("shape",),
    "relay.RefType": ("value",),
    "TupleType": ("fields",),
    "FuncType": ("arg_types", "ret_type", "type_params"),
    "TypeVar": ("name_hint",),
    "GlobalTypeVar": ("name_hint",),
    "GlobalVar": ("name_hint",),
    "TypeCall": ("func", "args"),
    "tir.Any": ("name",),
    "tir.Var": ("name",),
    "tir.SizeVar": ("name",),
    "DictAttrs": ("__dict__",),
    "Span": ("source_name",),
    "SequentialSpan": ("spans",),
    **{f"tir.{op}": ("a", "b") for op in ty.DIM_OPS},
}


def _int_imm(get: Get, raw: Raw) -> int | bool:
    value = int(raw["value"])
    return bool(value) if raw.get("dtype") == "bool" else value


def _module(get: Get, raw: Raw) -> IRModule:
    attrs = get("attrs")
    definitions = (get("type_definitions") or {}).values()
    for data in definitions:
        if not isinstance(data, ty.TypeData):
            label = getattr(data, "type_key", type(data).__name__)
            raise ParseError(f"type_definitions: expected data types, found {label}")
    types = {data.header.name: data for data in definitions}
    module = IRModule({}, types, attrs if isinstance(attrs, dict) else None)
    for name, func in (get("functions") or {}).items():
        if not isinstance(func, ex.Function):
            label = getattr(func, "type_key", type(func).__name__)
            which = getattr(name, "name_hint", name)
            raise ParseError(f"functions: @{which}: expected a function, found {label}")
        if not isinstance(name, ex.GlobalVar):
            raise ParseError(f"functions: expected names of functions, found {str(name)[:80]!r}")
        module[name] = func
    return module


def _function(get: Get, raw: Raw) -> ex.Function:
    return ex.Function(
        get("params"),
        get("body"),
        get("ret_type"),
        get("type_params") or (),
        get("attrs") or {},
        span=get("span"),
    )


def _call(get: Get, raw: Raw) -> ex.Call:
    # The reader completes the attributes from the operator table, which this module does not
    # import.
    call = ex.Call(get("op"), get("args"), None, get("type_args") or (), get("span"))
    attrs = get("attrs")
    if attrs is not None:
        call.attrs = attrs if isinstance(attrs, dict) else {"": attrs}
    return call


def _tensor_type(get: Get, raw: Raw) -> ty.TensorType:
    return ty.TensorType(tuple(get("shape")), raw["dtype"])


def _type_data(get: Get, raw: Raw) -> ty.TypeData:
    sigs = tuple(ty.ConstructorSig(c.name_hint, c.inputs) for c in get("constructors"))
    return ty.TypeData(get("header"), tuple(get("type_vars")), sigs)


def _constructor(get: Get, raw: Raw) -> ex.Constructor:
    tag = int(raw.get("tag", 0)) & 0xFFFFFF  # the upper byte is a hash of the type's name
    return ex.Constructor(get("name_hint"), tuple(get("inputs")), get("belong_to").name, tag)


def _span(get: Get, raw: Raw) -> ex.Span:
    places = (int(raw[key]) for key in ("line", "end_line", "column", "end_column"))
    line, end_line, column, end_column = places
    return ex.Span(get("source_name"), line, end_line, column, end_column)


def _dim_op(op: str) -> Callable[[Get, Raw], ty.DimOp]:
    return lambda get, raw: ty.DimOp(op, get("a"), get("b"))


BUILD: dict[str, Callable[[Get, Raw], object]] = {
    "runtime.String": lambda get, raw: raw["repr_str"],
    "runtime.BoxInt": lambda get, raw: int(raw["repr_str"]),
    "runtime.BoxFloat": lambda get, raw: float(raw["repr_str"]),
    "runtime.BoxBool": lambda get, raw: raw["repr_str"] not in ("0", "False", "false"),
    "IntImm": _int_imm,
    "FloatImm": lambda get, raw: float(raw["value"]),
    "Op": lambda get, raw: ex.get_op(raw["repr_str"]),
    "SourceName": lambda get, raw: raw["repr_str"],
    "Span": _span,
    "SequentialSpan": lambda get, raw: next((s for s in get("spans") or ()), None),
    "DictAttrs": lambda get, raw: dict(get("__dict__") or {}),
    "IRModule": _module,
    "relay.Function": _function,
    "relay.Id": lambda get, raw: get("name_hint"),
    "relay.Var": lambda get, raw: ex.Var(get("vid"), get("type_annotation"), get("span")),
    "relay.Call": _call,
    "relay.Constant": lambda get, raw: ex.Constant(raw["data"], get("span")),
    "relay.Tuple": lambda get, raw: ex.Tuple(get("fields"), get("span")),
    "relay.TupleGetItem": lambda get, raw: ex.TupleGetItem(
        get("tuple_value"), int(raw["index"]), get("span")
    ),
    "relay.Let": lambda get, raw: ex.Let(get("var"), get("value"), get("body"), get("span")),
    "relay.If": lambda get, raw: ex.If(
        get("cond"), get("true_branch"), get("false_branch"), get("span")
    ),
    "relay.RefCreate": lambda get, raw: ex.RefCreate(get("value"), get("span")),
    "relay.RefRead": lambda get, raw: ex.RefRead(get("ref"), get("span")),
    "relay.RefWrite": lambda get, raw: ex.RefWrite(get("ref"), get("value"), get("span")),
    "relay.Match": lambda get, raw: ex.Match(
        get("data"), get("clauses"), raw.get("complete", "1") != "0", get("span")
    ),
    "relay.Clause": lambda get, raw: ex.Clause(get("lhs"), get("rhs")),
    "relay.PatternConstructor": lambda get, raw: ex.PatternConstructor(
        get("constructor"), get("patterns")
    ),
    "relay.PatternVar": lambda get, raw: ex.PatternVar(get("var")),
    "relay.PatternTuple": lambda get, raw: ex.PatternTuple(get("patterns")),
    "relay.PatternWildcard": lambda get, raw: ex.PatternWildcard(),
    "relay.Constructor": _constructor,
    "relay.TypeData": _type_data,
    "relay.TensorType": _tensor_type,
    "relay.RefType": lambda get, raw: ty.RefType(get("value")),
    "TupleType": lambda get, raw: ty.TupleType(get("fields")),
    "FuncType": lambda get, raw: ty.FuncType(
        get("arg_types"), get("ret_type"), get("type_params") or ()
    ),
    "TypeVar": lambda get, raw: ty.TypeVar(get("name_hint"), int(raw.get("kind", 0))),
    "GlobalTypeVar": lambda get, raw: ty.GlobalTypeVar(get("name_hint")),
    "GlobalVar": lambda get, raw: ex.GlobalVar(get("name_hint")),
    "TypeCall": lambda get, raw: ty.TypeCall(get("func"), get("args")),
    "IncompleteType": lambda get, raw: ty.IncompleteType(),
    "PrimType": lambda get, raw: ty.scalar_type(raw["dtype"]),
    "tir.Any": lambda get, raw: ty.Any(get("name")),
    "tir.Var": lambda get, raw: ty.DimVar(get("name"), raw.get("dtype", "int32")),
    "tir.SizeVar": lambda get, raw: ty.size_var(get("name"), raw.get("dtype", "int32")),
    **{f"tir.{op}": _dim_op(op) for op in ty.DIM_OPS},
}
