"""Every pass by its name in Relay, with its level, and what it requires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..expr import Expr, Function
from ..module import IRModule
from .arithmetic import canonicalize_ops, fast_math
from .combine_parallel import combine_parallel
from .dynamic_to_static import dynamic_to_static
from .fold_constant import fold_constant_function
from .functions import eta_expand, inline_globals, remove_unused_functions
from .manager import FunctionPass, Pass, PassInfo, infer_types, register, with_functions
from .normal_forms import to_a_normal_form, to_basic_block_normal_form, to_graph_normal_form
from .simplify_expr import simplify_expr
from .simplify_inference import simplify_inference
from .subexpr import eliminate_common_subexpr, eliminate_dead_code

Change = Callable[[Function], Any]
TYPED = ("InferType",)


def _each(name: str, level: int, change: Change, required: tuple[str, ...] = TYPED) -> FunctionPass:
    info = PassInfo(level, name, list(required), False)
    return FunctionPass(lambda func, _mod, _ctx: change(func), info)


def _module(
    name: str,
    level: int,
    change: Callable[[IRModule], IRModule],
    required: tuple[str, ...] = (),
) -> Pass:
    return Pass(lambda mod, _ctx: change(mod), PassInfo(level, name, list(required), False))


def _all(name: str, level: int, change: Change) -> Pass:
    return _module(name, level, lambda mod: with_functions(mod, change))


def InferType() -> Pass:
    """The types of all functions, spelled out."""
    return _module("InferType", 0, infer_types)


def ToANormalForm() -> Pass:
    """Every result has a name of its own, and operands are names."""
    return _all("ToANormalForm", 1, to_a_normal_form)


def ToBasicBlockNormalForm() -> Pass:
    """A result that several bodies use has a name, in the innermost body around them."""
    return _all("ToBasicBlockNormalForm", 1, to_basic_block_normal_form)


def ToGraphNormalForm() -> FunctionPass:
    """No result has a name, but those of functions that call themselves and of references."""
    return _each("ToGraphNormalForm", 1, to_graph_normal_form, ())


def FoldConstant(fold_qnn: bool = False) -> FunctionPass:
    """What needs no input is computed now."""
    return _each("FoldConstant", 2, lambda func: fold_constant_function(func, fold_qnn), ())


def SimplifyInference() -> FunctionPass:
    """Norms as their arithmetic, dropout as nothing."""
    return _each("SimplifyInference", 0, simplify_inference)


def EliminateCommonSubexpr(fskip: Callable[[Expr], bool] | None = None) -> FunctionPass:
    """Calls of the same operands become one; those for which ``fskip`` is true stay."""
    return _each("EliminateCommonSubexpr", 3, lambda func: eliminate_common_subexpr(func, fskip))


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Bindings that nobody uses are left out; with ``inline_once`` those of one use are too."""

    def change(mod: IRModule) -> IRModule:
        told = (inline_once, ignore_impurity)
        return with_functions(mod, lambda f: eliminate_dead_code(mod, f, *told))

    return _module("DeadCodeElimination", 1, change, TYPED)


def Inline() -> Pass:
    """Functions that bear ``Inline`` stand where they are called."""
    return _module("InlineGlobals", 1, inline_globals)


def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> Pass:
    """Functions that no entry reaches are left out."""
    return _module(
        "RemoveUnusedFunctions", 1, lambda mod: remove_unused_functions(mod, entry_functions)
    )


def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> Pass:
    """Constructors and functions of the module that are used as values become ``fn``."""
    return _module(
        "EtaExpand", 1, lambda mod: eta_expand(mod, expand_constructor, expand_global_var)
    )


def FastMath() -> FunctionPass:
    """exp, tanh, erf and softmax become their approximations."""
    return _each("FastMath", 4, fast_math)


def CanonicalizeOps() -> FunctionPass:
    """``bias_add`` becomes ``expand_dims`` and ``add``."""
    return _each("CanonicalizeOps", 3, canonicalize_ops)


def DynamicToStatic() -> FunctionPass:
    """Operators whose shape is a tensor that is known take it as an attribute."""
    return _each("DynamicToStatic", 2, dynamic_to_static, ())


def SimplifyExpr() -> FunctionPass:
    """Pairs of operators that undo each other go, and operators that do nothing."""
    return _each("SimplifyExpr", 0, simplify_expr)


def CombineParallelConv2D(min_num_branches: int = 3) -> FunctionPass:
    """Convolutions of one input become one."""

    def change(func: Function) -> Expr:
        return combine_parallel(func, "nn.conv2d", min_num_branches)

    return _each("CombineParallelConv2d", 4, change)


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> FunctionPass:
    """Products of one input become a batched one, or one of joined weights."""

    def change(func: Function) -> Expr:
        return combine_parallel(func, "nn.dense", min_num_branches, to_batch)

    return _each("CombineParallelDense", 4, change)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> FunctionPass:
    """Batched products of one input become one."""

    def change(func: Function) -> Expr:
        return combine_parallel(func, "nn.batch_matmul", min_num_branches)

    return _each("CombineParallelBatchMatmul", 4, change)


for _make in (InferType, FoldConstant):
    register(_make)
