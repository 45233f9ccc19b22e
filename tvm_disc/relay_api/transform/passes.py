"""Every pass under its name in Relay, with its level and the passes that it requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.errors import BadInput, BadNode, shown
from tvm_disc.relay.expr import Constructor, Expr, Function, GlobalVar, Op, Var, as_expr
from tvm_disc.relay.inference.infer import infer_type
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.text.short import brief
from tvm_disc.relay.types import Type
from tvm_disc.relay.visit import post_order
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.transform.arithmetic import (
    canonicalize_cast,
    canonicalize_ops,
    div_to_mul,
    fast_math,
)
from tvm_disc.relay_api.transform.combine_parallel import combine_parallel
from tvm_disc.relay_api.transform.convert_layout import (
    alter_op_layout,
    check_layouts,
    convert_layout,
)
from tvm_disc.relay_api.transform.dynamic_to_static import dynamic_to_static
from tvm_disc.relay_api.transform.fake_quantization import fake_quantization_to_integer
from tvm_disc.relay_api.transform.fold_constant import fold_constant, fold_constant_function
from tvm_disc.relay_api.transform.functions import (
    eta_expand,
    inline_globals,
    remove_unused_functions,
)
from tvm_disc.relay_api.transform.fuse_groups import MOST_NODES
from tvm_disc.relay_api.transform.fuse_ops import defuse_ops, fuse_ops, merge_composite
from tvm_disc.relay_api.transform.lambda_lift import lambda_lift
from tvm_disc.relay_api.transform.manager import (
    FunctionPass,
    Pass,
    PassInfo,
    Sequential,
    infer_types,
    register,
    with_functions,
)
from tvm_disc.relay_api.transform.mixed_precision import to_mixed_precision
from tvm_disc.relay_api.transform.normal_forms import (
    to_a_normal_form,
    to_basic_block_normal_form,
    to_graph_normal_form,
)
from tvm_disc.relay_api.transform.rules import legalize
from tvm_disc.relay_api.transform.scale_axis import fold_scale_axis
from tvm_disc.relay_api.transform.simplify_expr import simplify_expr
from tvm_disc.relay_api.transform.simplify_inference import simplify_inference
from tvm_disc.relay_api.transform.subexpr import eliminate_common_subexpr, eliminate_dead_code
from tvm_disc.relay_api.transform.windows import flatten_atrous_conv, fold_explicit_padding
from tvm_disc.typing import PassContext

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
    """Return a pass that infers the types of all functions and writes the annotations."""
    return _module("InferType", 0, infer_types)


def AnnotateSpans() -> Pass:
    """Return a pass without effect: parsed expressions already have spans."""
    return _module("AnnotateSpans", 0, lambda mod: mod)


def SpanCheck() -> Pass:
    """Return a pass that refuses a module with an expression that has no span.

    Raises:
        BadNode: names the function and the expression.
    """

    def change(mod: IRModule) -> IRModule:
        for name, func in mod.functions.items():
            for node in post_order(func):
                if node.span is None and not isinstance(node, Op | Constructor | GlobalVar):
                    where = f"SpanCheck: @{name.name_hint}"
                    raise BadNode(f"{where}: expected a span of {brief(node)}, found none")
        return mod

    return _module("SpanCheck", 0, change)


def ToANormalForm() -> Pass:
    """Return a pass to A-normal form: every result has a name, and operands are names."""
    return _all("ToANormalForm", 1, to_a_normal_form)


def ToBasicBlockNormalForm() -> Pass:
    """Return a pass that names each result used in several bodies, in the body around them."""
    return _all("ToBasicBlockNormalForm", 1, to_basic_block_normal_form)


def ToGraphNormalForm() -> FunctionPass:
    """Return a pass that inlines let bindings, except of recursive functions and references."""
    return _each("ToGraphNormalForm", 1, to_graph_normal_form, ())


def FoldConstant(fold_qnn: bool = False) -> FunctionPass:
    """Return a pass that evaluates expressions whose operands are all constants."""
    return _each("FoldConstant", 2, lambda func: fold_constant_function(func, fold_qnn), ())


def SimplifyInference() -> FunctionPass:
    """Return a pass that replaces norms by their arithmetic and removes dropout."""
    return _each("SimplifyInference", 0, simplify_inference)


def EliminateCommonSubexpr(fskip: Callable[[Expr], bool] | None = None) -> FunctionPass:
    """Return a pass that merges equal calls, except calls for which ``fskip`` returns True."""
    return _each("EliminateCommonSubexpr", 3, lambda func: eliminate_common_subexpr(func, fskip))


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> Pass:
    """Return a pass that removes unused bindings; ``inline_once`` inlines bindings used once."""

    def change(mod: IRModule) -> IRModule:
        told = (inline_once, ignore_impurity)
        return with_functions(mod, lambda f: eliminate_dead_code(mod, f, *told))

    return _module("DeadCodeElimination", 1, change, TYPED)


def Inline() -> Pass:
    """Return a pass that inlines functions with the attribute ``Inline``."""
    return _module("InlineGlobals", 1, inline_globals)


def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> Pass:
    """Return a pass that removes functions that are unreachable from the entries."""
    return _module(
        "RemoveUnusedFunctions", 1, lambda mod: remove_unused_functions(mod, entry_functions)
    )


def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> Pass:
    """Return a pass that wraps constructors and module functions used as values in ``fn``."""
    return _module(
        "EtaExpand", 1, lambda mod: eta_expand(mod, expand_constructor, expand_global_var)
    )


def FastMath() -> FunctionPass:
    """Return a pass that replaces exp, tanh, erf and softmax by their fast approximations."""
    return _each("FastMath", 4, fast_math)


def CanonicalizeOps() -> FunctionPass:
    """Return a pass that replaces ``bias_add`` by ``expand_dims`` and ``add``."""
    return _each("CanonicalizeOps", 3, canonicalize_ops)


def DynamicToStatic() -> FunctionPass:
    """Return a pass that replaces shape operands of known value by attributes."""
    return _each("DynamicToStatic", 2, dynamic_to_static, ())


def SimplifyExpr() -> FunctionPass:
    """Return a pass that removes operators without effect and pairs that undo each other."""
    return _each("SimplifyExpr", 0, simplify_expr)


def CombineParallelConv2D(min_num_branches: int = 3) -> FunctionPass:
    """Return a pass that merges convolutions of one input."""

    def change(func: Function) -> Expr:
        return combine_parallel(func, "nn.conv2d", min_num_branches)

    return _each("CombineParallelConv2d", 4, change)


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> FunctionPass:
    """Return a pass that merges dense layers of one input: batched, or with concatenated
    weights.
    """

    def change(func: Function) -> Expr:
        return combine_parallel(func, "nn.dense", min_num_branches, to_batch)

    return _each("CombineParallelDense", 4, change)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> FunctionPass:
    """Return a pass that merges batched matmuls of one input."""

    def change(func: Function) -> Expr:
        return combine_parallel(func, "nn.batch_matmul", min_num_branches)

    return _each("CombineParallelBatchMatmul", 4, change)


def FuseOps(fuse_opt_level: int = -1) -> FunctionPass:
    """Return a pass that puts groups of operators in functions with ``Primitive=1``.

    Below level 1 each operator is a group. ``relay.FuseOps.max_depth`` limits the values of a
    group, and ``relay.FuseOps.link_params`` keeps all constants inside. A build
    forms its own groups regardless of this pass, which is for scripts that print or count groups.
    """

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Expr:
        level = ctx.opt_level if fuse_opt_level < 0 else fuse_opt_level
        most = int(ctx.config.get("relay.FuseOps.max_depth", MOST_NODES))
        linked = bool(ctx.config.get("relay.FuseOps.link_params", False))
        typed = infer_type(func, mod)
        assert isinstance(typed, Function)
        return fuse_ops(typed, level, most, linked)

    return FunctionPass(run, PassInfo(0, "FuseOps", list(TYPED), False))


def DefuseOps() -> FunctionPass:
    """Return a pass that replaces calls of fused functions by their bodies."""
    return _each("DefuseOps", 3, defuse_ops)


def MergeComposite(pattern_table: Sequence[Sequence[object]]) -> FunctionPass:
    """Return a pass that puts every match of a named pattern in a function with ``Composite``.

    The table has ``(name, pattern)`` or ``(name, pattern, check)`` in order of priority.
    """
    info = PassInfo(0, "MergeComposite", list(TYPED), False)
    return FunctionPass(lambda func, mod, _ctx: merge_composite(func, pattern_table, mod), info)


def ToMixedPrecision(
    mixed_precision_type: str = "float16", missing_op_mode: int = 1
) -> FunctionPass:
    """Return a pass that computes matmuls and the operators after them in a 16-bit float type.

    ``missing_op_mode`` applies to operators without a kind: 0 refuses them, 1 treats them as FOLLOW
    with a warning, 2 without one. The type of the result of ``main`` may change, unless the context
    sets ``relay.ToMixedPrecision.keep_orig_output_dtype``. Other functions keep their types.
    """

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        keep = bool(ctx.config.get("relay.ToMixedPrecision.keep_orig_output_dtype", False))
        keep = keep or not ("main" in mod and mod["main"] is func)
        return to_mixed_precision(func, mixed_precision_type, missing_op_mode, keep)

    return FunctionPass(run, PassInfo(0, "ToMixedPrecision", list(TYPED), False))


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None
) -> FunctionPass:
    """Return a pass that computes the operators between dequantize and quantize in integers.

    Args:
        hard_fail: raise Unsupported for a region with an operator that has no integer form; by
            default the region is unchanged.
        use_qat: also rewrite single operators whose operands are dequantized.
        optional_qnn_ops: operators with a less accurate integer form, such as ``nn.softmax``, that
            are rewritten too.

    Raises:
        BadInput: an argument has the wrong type.
    """
    for name, value in (("hard_fail", hard_fail), ("use_qat", use_qat)):
        if not isinstance(value, bool):
            raise BadInput(f"{name}: expected True or False, found {shown(value)}")
    given = optional_qnn_ops or ()
    if isinstance(given, str) or not all(isinstance(op, str) for op in _listed(given)):
        raise BadInput(f"optional_qnn_ops: expected names of operators, found {shown(given)}")
    optional = tuple(given)

    def change(func: Function) -> Expr:
        return fake_quantization_to_integer(func, hard_fail, use_qat, optional)

    return _each("FakeQuantizationToInteger", 0, change, ("InferType", "DivToMul"))


def _listed(given: object) -> Sequence[object]:
    """Return ``given`` if it is a sequence, else ``(given,)``, which the caller's check refuses."""
    return given if isinstance(given, Sequence) else (given,)


def ForwardFoldScaleAxis() -> FunctionPass:
    """Return a pass that folds per-channel factors of a convolution's input into its weight."""
    return _each("ForwardFoldScaleAxis", 3, lambda func: fold_scale_axis(func, forward=True))


def BackwardFoldScaleAxis() -> FunctionPass:
    """Return a pass that folds per-channel factors of a convolution's result into its weight."""
    return _each("BackwardFoldScaleAxis", 3, lambda func: fold_scale_axis(func, forward=False))


def FoldScaleAxis() -> Sequential:
    """Return a pass that folds per-channel factors into weights and evaluates the weights."""
    return Sequential([BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()])


def FoldExplicitPadding() -> FunctionPass:
    """Return a pass that folds padding into the convolution or pooling that follows it."""
    return _each("FoldExplicitPadding", 0, fold_explicit_padding)


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> FunctionPass:
    """Return a pass that converts layouts of convolutions and pooling, and of operators after them.

    ``{"nn.conv2d": ["NHWC", "default"]}`` lists the layouts of data and weights by operator. An
    operator keeps its layout if blocks, as in ``NCHW4c``, do not divide its dims.
    """
    desired = check_layouts(desired_layouts)
    return _each("ConvertLayout", 3, lambda func: convert_layout(func, desired))


def AlterOpLayout() -> FunctionPass:
    """Return a pass that replaces calls by the results of registered functions.

    A script registers ``function(attrs, inputs, types, result_type)`` as the attribute
    ``FTVMAlterOpLayout`` of an operator. It returns a call, whose layouts may differ, or None.
    Users of the call read its layout, or the original layout through a ``layout_transform``.
    """
    return _each("AlterOpLayout", 3, alter_op_layout)


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> FunctionPass:
    """Return a pass that replaces calls by the functions that scripts registered.

    Every operator is legal here, so the module only changes if an operator has the attribute
    ``legalize_map_attr_name``: a function ``(attrs, inputs, types)`` of an expression or None.

    Raises:
        BadNode: ``legalize_map_attr_name`` is not a string.
    """
    if not isinstance(legalize_map_attr_name, str):
        found = shown(legalize_map_attr_name)
        raise BadNode(f"Legalize: legalize_map_attr_name: expected a name, found {found}")
    return _each("Legalize", 1, lambda func: legalize(func, legalize_map_attr_name))


def FlattenAtrousConv() -> FunctionPass:
    """Return a pass that replaces space_to_batch, convolution, batch_to_space by a dilated
    convolution.
    """
    return _each("FlattenAtrousConv", 0, flatten_atrous_conv)


def LambdaLift() -> Pass:
    """Return a pass that moves nested functions to the module."""
    return _module("LambdaLift", 1, lambda_lift)


def CanonicalizeCast() -> FunctionPass:
    """Return a pass that duplicates a cast for each of its users, so that it can join their
    groups.
    """
    return _each("CanonicalizeCast", 3, canonicalize_cast)


def DivToMul() -> FunctionPass:
    """Return a pass that replaces divisions by constants with multiplications."""
    return _each("DivToMul", 0, div_to_mul)


def FoldConstantExpr(expr: Expr, mod: IRModule, fold_qnn: bool = False) -> Expr:
    """Apply :func:`FoldConstant` to one expression."""
    return fold_constant(as_expr(expr), fold_qnn)


def InferTypeLocal(expr: Expr) -> Type | None:
    """Infer, store and return the type of one expression; None if inference needs the module.

    Raises:
        TypeMismatch: the expression has no type.
    """
    whole = as_expr(expr)
    bare = isinstance(whole, Var) and whole.type_annotation is None
    if bare or any(isinstance(e, GlobalVar | Constructor) for e in post_order(whole)):
        return KnownTypes(whole).of(whole)
    whole._checked_type = infer_type(whole).checked_type
    return whole._checked_type


def ToANormalFormExpr(e: Expr) -> Expr:
    """Apply :func:`ToANormalForm` to one expression."""
    return to_a_normal_form(as_expr(e))


for _make in (
    InferType,
    FoldConstant,
    SimplifyInference,
    SimplifyExpr,
    DynamicToStatic,
    ToANormalForm,
    ToBasicBlockNormalForm,
    ToGraphNormalForm,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    DivToMul,
):
    register(_make)
