"""Names that scripts for Relay use: each is there, or raises why it is not."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.errors import Unsupported

PRESENT = """
relay.Any relay.Call relay.Clause relay.Constant relay.Constructor relay.Expr relay.FuncType
relay.Function relay.GlobalTypeVar relay.GlobalVar relay.If relay.IncompleteType relay.Let
relay.Match relay.PatternConstructor relay.PatternTuple relay.PatternVar relay.PatternWildcard
relay.Prelude relay.RefCreate relay.RefRead relay.RefType relay.RefWrite relay.ScopeBuilder
relay.ShapeVar relay.SourceName relay.Span relay.TensorType relay.Tuple relay.TupleGetItem
relay.TupleType relay.TypeCall relay.TypeData relay.TypeKind relay.TypeRelation relay.TypeVar
relay.Var relay.ExprFunctor relay.ExprMutator relay.ExprVisitor relay.TypeFunctor
relay.TypeMutator relay.TypeVisitor relay.adt.Match relay.adt.TypeData relay.base.Span relay.bind
relay.build relay.build_config relay.build_module.bind_params_by_name relay.const
relay.create_executor relay.expr.const relay.expr.TupleWrapper relay.fromtext relay.optimize
relay.load_param_dict relay.loops.while_loop relay.parse relay.parse_expr relay.save_param_dict
relay.scalar_type relay.ty.is_dynamic relay.var relay.vm.compile relay.vm.VMCompiler
relay.analysis.CallGraph relay.analysis.all_type_vars relay.analysis.all_vars
relay.analysis.bound_type_vars relay.analysis.bound_vars relay.analysis.check_kind
relay.analysis.check_basic_block_normal_form relay.analysis.count_layers
relay.analysis.detect_feature relay.analysis.free_type_vars relay.analysis.free_vars
relay.analysis.get_total_mac_number relay.analysis.list_op_freqs
relay.analysis.post_order_visit relay.analysis.unmatched_cases relay.analysis.well_formed
relay.backend.Executor relay.backend.Runtime relay.backend.te_compiler.get
relay.dataflow_pattern.DFPatternCallback relay.dataflow_pattern.is_constant
relay.dataflow_pattern.is_op relay.dataflow_pattern.partition relay.dataflow_pattern.rewrite
relay.dataflow_pattern.wildcard relay.op.get relay.op.op.OpPattern.ELEMWISE relay.op.op.register
relay.op.op.register_pattern relay.op.op.register_stateful relay.op.register_op_attr
relay.qnn.op.add relay.qnn.op.conv2d relay.qnn.op.dense relay.qnn.op.quantize
relay.qnn.transform.CanonicalizeOps relay.qnn.transform.Legalize relay.scope_builder.ScopeBuilder
relay.testing.count_ops relay.testing.create_workload relay.testing.rand
relay.testing.run_as_python relay.testing.run_infer_type relay.testing.run_opt_pass
relay.testing.temp_op_attr.TempOpAttr relay.testing.lstm.get_workload
relay.testing.dcgan.get_workload
relay.testing.densenet.get_workload
relay.testing.mlp.get_workload relay.testing.mobilenet.get_workload
relay.testing.resnet.get_workload relay.testing.squeezenet.get_workload
relay.testing.vgg.get_workload relay.transform.AnnotateSpans relay.transform.CanonicalizeCast
relay.transform.CombineParallelBatchMatmul relay.transform.CombineParallelConv2D
relay.transform.CombineParallelDense relay.transform.ConvertLayout
relay.transform.Legalize relay.transform.DeadCodeElimination
relay.transform.DefuseOps relay.transform.DivToMul relay.transform.DynamicToStatic
relay.transform.EliminateCommonSubexpr relay.transform.EtaExpand relay.transform.FastMath
relay.transform.FlattenAtrousConv relay.transform.FoldConstant
relay.transform.FoldExplicitPadding relay.transform.FoldScaleAxis relay.transform.FuseOps
relay.transform.InferType relay.transform.InferTypeLocal relay.transform.Inline
relay.transform.LambdaLift relay.transform.MergeComposite
relay.transform.RemoveUnusedFunctions relay.transform.Sequential relay.transform.SimplifyExpr
relay.transform.SimplifyInference relay.transform.ToANormalForm
relay.transform.ToBasicBlockNormalForm relay.transform.ToGraphNormalForm
relay.transform.ToMixedPrecision relay.transform.function_pass relay.transform.recast
""".split()

# Not here: asking for the name raises its reason.
REFUSED = """
relay.qnn.requantize_config
""".split()

# Not here: using it raises its reason.
REFUSED_WHEN_USED = """
relay.collage.CollagePartition relay.data_dep_optimization.simplify_fc_transpose
relay.quantize.quantize relay.testing.check_grad relay.testing.gradient
relay.testing.inception_v3.get_workload relay.testing.resnet_3d.get_workload
relay.testing.synthetic.get_workload relay.testing.to_python
relay.testing.yolo_detection.draw_detections
relay.frontend.from_keras relay.frontend.from_tensorflow relay.frontend.from_tflite
relay.op.OpStrategy relay.op.register_injective_schedule relay.op.register_reduce_schedule
relay.op.strategy.conv2d_strategy relay.op.register_optional_fake_quantization_to_integer
relay.op.register_compute
relay.op.register_shape_func relay.op.register_strategy
relay.transform.AnnotateTarget relay.transform.Defunctionalization
relay.transform.FirstOrderGradient
relay.transform.FlexibleShapeDispatch relay.transform.LazyGradientInit
relay.transform.ManifestAlloc relay.transform.MergeCompilerRegions
relay.transform.PartialEvaluate relay.transform.PartitionGraph relay.transform.PlanDevices
relay.transform.SplitArgs relay.transform.ToCPS relay.transform.gradient
""".split()

MODULES = """
adt analysis backend backend.interpreter backend.te_compiler backend.vm collage
data_dep_optimization frontend.common qnn.op.legalizations quantize testing.synthetic base
build_module dataflow_pattern expr expr_functor function loops op op.nn op.op op.tensor
op.nn.nn op.nn.utils op.vision.nms op.strategy op.strategy.generic op.contrib.dnnl op.transform
param_dict parser prelude
qnn qnn.op qnn.transform scope_builder testing testing.temp_op_attr transform ty type_functor
""".split()


def named(path: str) -> Any:
    """What a dotted name gives."""
    found: Any = relay
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", PRESENT)
def test_a_name_is_there(path: str) -> None:
    assert named(path) is not None


@pytest.mark.parametrize("path", REFUSED)
def test_a_name_raises_its_reason(path: str) -> None:
    with pytest.raises(Unsupported, match=path.rpartition(".")[2]):
        named(path)


@pytest.mark.parametrize("path", REFUSED_WHEN_USED)
def test_a_use_raises_its_reason(path: str) -> None:
    with pytest.raises(Unsupported, match=r": \w+"):
        named(path)("add")


@pytest.mark.parametrize("path", MODULES)
def test_a_module_is_imported(path: str) -> None:
    assert importlib.import_module(f"tvm_disc.relay.{path}") is not None
