"""The Relay language: nodes, types, operators, text and JSON formats, and builder functions.

``relay.parse(text)``, ``relay.load_json(text)`` and the builder functions (``relay.var``,
``relay.add``, ``relay.nn.dense`` ...) make an ``IRModule``; ``relay.astext`` prints it. Every
operator is a function of this package, made from the operator table on first use.

This module lists the public names of the language and of Relay's Python API, which is in
``tvm_disc.relay_api``. The compiler imports the modules of this package, not these names.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Anything

from tvm_disc.abi.values import ConstructorValue, from_list, to_list
from tvm_disc.paths import RELAY as _RELAY
from tvm_disc.relay.text.parser import fromtext, parse, parse_expr

from . import expr, pass_context, pipelines
from . import types as ty
from .expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    SourceName,
    Span,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
)
from .module import IRModule
from .module import register_standard_library as _register_standard_library
from .ops.table import OPS
from .types import (
    Any,
    ConstructorSig,
    DimOp,
    DimVar,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeKind,
    TypeRelation,
    TypeVar,
    is_dynamic,
    scalar_type,
    size_var,
)
from .visit import free_vars, post_order

if _TYPE_CHECKING:
    from tvm_disc.relay_api import (
        adt,
        analysis,
        base,
        dyn,
        frontend,
        image,
        loops,
        nn,
        op,
        prelude,
        qnn,
        vision,
    )
    from tvm_disc.relay_api import dataflow_pattern as dataflow_pattern
    from tvm_disc.relay_api import testing as testing
    from tvm_disc.relay_api import transform as transform
    from tvm_disc.relay_api.analysis.binding import bind
    from tvm_disc.relay_api.analysis.hashing import structural_hash
    from tvm_disc.relay_api.executors import backend as backend
    from tvm_disc.relay_api.executors import build as build
    from tvm_disc.relay_api.executors import build_module as build_module
    from tvm_disc.relay_api.executors import create_executor as create_executor
    from tvm_disc.relay_api.executors import vm as vm
    from tvm_disc.relay_api.executors.build_module import optimize as optimize
    from tvm_disc.relay_api.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
    from tvm_disc.relay_api.prelude import Prelude
    from tvm_disc.relay_api.structural import assert_structural_equal, structural_equal
    from tvm_disc.relay_api.transform import build_config as build_config
    from tvm_disc.relay_api.transform.passes import SpanCheck as SpanCheck
    from tvm_disc.relay_api.type_functor import TypeFunctor, TypeMutator, TypeVisitor

    from . import builder as builder
    from .builder import ScopeBuilder, const, var
    from .convert import to_relax
    from .json.reader import load_json
    from .json.writer import save_json
    from .ndarray import load_param_dict, save_param_dict
    from .text.printer import astext, pretty_print

# Name -> module that is imported on first use of the name. A build uses none of these names, and
# modules of ``relay_api`` import the compiler, which is in a higher layer than this package.
_LAZY = {
    "SpanCheck": "tvm_disc.relay_api.transform.passes",
    "ScopeBuilder": "tvm_disc.relay.builder",
    "ExprFunctor": "tvm_disc.relay_api.expr_functor",
    "ExprMutator": "tvm_disc.relay_api.expr_functor",
    "ExprVisitor": "tvm_disc.relay_api.expr_functor",
    "Prelude": "tvm_disc.relay_api.prelude",
    "TypeFunctor": "tvm_disc.relay_api.type_functor",
    "TypeMutator": "tvm_disc.relay_api.type_functor",
    "TypeVisitor": "tvm_disc.relay_api.type_functor",
    "assert_structural_equal": "tvm_disc.relay_api.structural",
    "astext": "tvm_disc.relay.text.printer",
    "bind": "tvm_disc.relay_api.analysis.binding",
    "builder": "tvm_disc.relay.builder",
    "const": "tvm_disc.relay.builder",
    "build": "tvm_disc.relay_api.executors",
    "build_config": "tvm_disc.relay_api.transform",
    "create_executor": "tvm_disc.relay_api.executors",
    "load_json": "tvm_disc.relay.json.reader",
    "load_param_dict": "tvm_disc.relay.ndarray",
    "optimize": "tvm_disc.relay_api.executors.build_module",
    "pretty_print": "tvm_disc.relay.text.printer",
    "save_json": "tvm_disc.relay.json.writer",
    "save_param_dict": "tvm_disc.relay.ndarray",
    "structural_equal": "tvm_disc.relay_api.structural",
    "structural_hash": "tvm_disc.relay_api.analysis.hashing",
    "to_relax": "tvm_disc.relay.convert",
    "var": "tvm_disc.relay.builder",
}


pass_context.register()
pipelines.register()
_register_standard_library(lambda path: _import_module(_RELAY["prelude"]).standard(path))


def __getattr__(name: str) -> _Anything:
    """Return a name or module that is imported on first use, or an operator (``relay.add``)."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _LAZY:
        place = _import_module(_LAZY[name])
        found = place if place.__name__ == f"{__name__}.{name}" else getattr(place, name)
        globals()[name] = found
        return found
    if name in _RELAY:
        return _import_module(f"{__name__}.{name}")
    return getattr(_import_module(_RELAY["op"]), name)


__all__ = [
    "OPS",
    "Any",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "ConstructorSig",
    "ConstructorValue",
    "DimOp",
    "DimVar",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "If",
    "IncompleteType",
    "Let",
    "Match",
    "Op",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "Prelude",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "ScopeBuilder",
    "ShapeVar",
    "SourceName",
    "Span",
    "SpanCheck",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeFunctor",
    "TypeKind",
    "TypeMutator",
    "TypeRelation",
    "TypeVar",
    "TypeVisitor",
    "Var",
    "adt",
    "analysis",
    "assert_structural_equal",
    "astext",
    "base",
    "bind",
    "build",
    "build_config",
    "builder",
    "const",
    "create_executor",
    "dyn",
    "expr",
    "free_vars",
    "from_list",
    "fromtext",
    "frontend",
    "image",
    "is_dynamic",
    "load_json",
    "load_param_dict",
    "loops",
    "nn",
    "op",
    "optimize",
    "parse",
    "parse_expr",
    "post_order",
    "prelude",
    "pretty_print",
    "qnn",
    "save_json",
    "save_param_dict",
    "scalar_type",
    "size_var",
    "structural_equal",
    "structural_hash",
    "to_list",
    "to_relax",
    "ty",
    "var",
    "vision",
]
