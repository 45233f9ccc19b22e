"""The Relay language: nodes, types, operators, text and JSON formats, and builder functions.

``relay.parse(text)``, ``relay.load_json(text)`` and the builder functions (``relay.var``,
``relay.add``, ``relay.nn.dense`` ...) make an ``IRModule``; ``relay.astext`` prints it. Every
operator is a function of this package, made from the operator table on first use.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Anything

from tvm_disc.abi.values import ConstructorValue, from_list, to_list
from tvm_disc.relay.analysis.binding import bind
from tvm_disc.relay.analysis.hashing import structural_hash
from tvm_disc.relay.json.reader import load_json
from tvm_disc.relay.json.writer import save_json
from tvm_disc.relay.text.parser import fromtext, parse, parse_expr
from tvm_disc.relay.text.printer import astext, pretty_print

from . import analysis, builder, dyn, expr, frontend, image, loops, nn, op, prelude, qnn, vision
from . import types as ty
from .api import adt, base, missing, pass_context, pipelines, places
from .builder import ScopeBuilder, const, var
from .convert import to_relax
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
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from .module import IRModule
from .ndarray import load_param_dict, save_param_dict
from .ops.table import OPS
from .prelude import Prelude
from .structural import assert_structural_equal, structural_equal
from .type_functor import TypeFunctor, TypeMutator, TypeVisitor
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
    "builder",
    "const",
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


# Members imported on first use, as "module" or "module:name". Few programs use them, or they need
# the compiler, which is in a higher layer than this package.
_LAZY = {
    "build_config": "tvm_disc.relay.transform:build_config",
    "optimize": "tvm_disc.executors.build_module:optimize",
    "testing": "tvm_disc.relay.testing",
    "backend": "tvm_disc.executors.backend",
    "build": "tvm_disc.executors:build",
    "build_module": "tvm_disc.executors.build_module",
    "create_executor": "tvm_disc.executors:create_executor",
    "dataflow_pattern": "tvm_disc.relay.dataflow_pattern",
    "transform": "tvm_disc.relay.transform",
    "vm": "tvm_disc.executors.vm",
}


places.register()
missing.register()
pass_context.register()
pipelines.register()


def __getattr__(name: str) -> _Anything:
    """Return the builder function of an operator (``relay.add``), or import a lazy member."""
    if name in _LAZY:
        place, _, member = _LAZY[name].partition(":")
        module = _import_module(place)
        return getattr(module, member) if member else module
    if name in places.PLACES:
        return _import_module(f"tvm_disc.relay.{name}")
    if name in missing.REASONS:
        return _import_module(f"tvm_disc.relay.{name}")
    return getattr(op, name)
