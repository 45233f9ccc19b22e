"""Relay's transforms: programs before and after each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tvm_disc.relay.analysis import check_basic_block_normal_form, well_formed
from tvm_disc.relay.testing import count_ops

from tests.relay.transform.helpers import optimized, same
from tvm_disc import relay
from tvm_disc.errors import DiscError, Unsupported
from tvm_disc.relay import transform as t

# Every program has these parameters.
PARAMS = """%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2, 3, 4), float32],
    %n: Tensor[(?, 4), float32], %b: Tensor[(4), float32], %i: Tensor[(2, 3, 4), int32],
    %s: float32, %c: bool, %m: Tensor[(4, 6), float32], %img: Tensor[(1, 3, 8, 8), float32],
    %k: Tensor[(5, 3, 3, 3), float32], %k2: Tensor[(2, 3, 3, 3), float32],
    %g: Tensor[(3), float32], %kl: Tensor[(3, 3, 8, 5), float32], %w: Tensor[(6, 4), float32],
    %w2: Tensor[(6, 4), float32],
    %rows: Tensor[(7, 4), float32], %q: Tensor[(2, 5, 4), float32]"""


def main(body: str) -> str:
    """A module of one function; more functions may stand before a bar."""
    more, bar, last = body.rpartition("&&")
    return f"{more if bar else ''} def @main({PARAMS}) {{ {last} }}"


# The passes of the sections of ``transforms.txt``.
PASSES: dict[str, Callable[[], Any]] = {
    "SimplifyExpr": t.SimplifyExpr,
    "SimplifyInference": t.SimplifyInference,
    "FoldConstant": t.FoldConstant,
    "DynamicToStatic": t.DynamicToStatic,
    "FastMath": t.FastMath,
    "CanonicalizeOps": t.CanonicalizeOps,
    "CanonicalizeCast": t.CanonicalizeCast,
    "DivToMul": t.DivToMul,
    "EliminateCommonSubexpr": t.EliminateCommonSubexpr,
    "DeadCodeElimination": t.DeadCodeElimination,
    "DeadCodeElimination, of one use": lambda: t.DeadCodeElimination(inline_once=True),
    "DeadCodeElimination, impure": lambda: t.DeadCodeElimination(ignore_impurity=True),
    "ToANormalForm": t.ToANormalForm,
    "ToGraphNormalForm": t.ToGraphNormalForm,
    "ToBasicBlockNormalForm": t.ToBasicBlockNormalForm,
    "CombineParallelDense": lambda: t.CombineParallelDense(2, to_batch=False),
    "CombineParallelConv2D": lambda: t.CombineParallelConv2D(2),
    "FoldExplicitPadding": t.FoldExplicitPadding,
    "FlattenAtrousConv": t.FlattenAtrousConv,
    "Inline": t.Inline,
    "RemoveUnusedFunctions": t.RemoveUnusedFunctions,
    "LambdaLift": t.LambdaLift,
    "EtaExpand": lambda: t.EtaExpand(expand_global_var=True),
    "DefuseOps": t.DefuseOps,
    "ConvertLayout": lambda: t.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}),
    "FoldScaleAxis": t.ForwardFoldScaleAxis,
}


def sections() -> Iterator[tuple[str, str, str]]:
    """The pass, the program before, the program after."""
    name = ""
    for line in (Path(__file__).parent / "transforms.txt").read_text().splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line and not line.startswith("#"):
            before, after = re.split(r" -> (?![A-Za-z]+\d* \{)", line, maxsplit=1)
            yield name, before, after


def module(body: str) -> relay.IRModule:
    """A program, in which ``meta3`` is the constant (2, 3, 4)."""
    table = {"relay.Constant": [relay.const([2, 3, 4], "int64")]}
    text = '#[version = "0.0.5"]\n' + main(body.replace("meta3", "meta[relay.Constant][0]"))
    return relay.parse(text, init_meta_table=table)


CASES = list(sections())


@pytest.mark.parametrize(("name", "before", "after"), CASES, ids=[f"{c[0]}: {c[1]}" for c in CASES])
def test_transformed(name: str, before: str, after: str) -> None:
    made = optimized(module(before), PASSES[name]())
    assert same(made, module(after)), str(made)
    assert well_formed(made)


def test_every_pass_has_programs() -> None:
    assert {name for name, _, _ in CASES} == set(PASSES)


# ---- what is counted rather than spelled out

COUNTED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "batch norm": (
        t.SimplifyInference,
        "nn.batch_norm(%img, %g, %g, %g, %g).0",
        "add 3 divide 1 expand_dims 2 multiply 3 negative 1 sqrt 1",
    ),
    "its other results": (
        t.SimplifyInference,
        "nn.batch_norm(%img, %g, %g, %g, %g).1",
        "nn.batch_norm 1",
    ),
    "layer norm": (
        t.SimplifyInference,
        "nn.layer_norm(%n, %b, %b)",
        "add 2 divide 1 mean 1 multiply 1 sqrt 1 subtract 1 variance 1",
    ),
    "layer norm without its factor": (
        t.SimplifyInference,
        "nn.layer_norm(%n, %b, %b, scale=False, center=False)",
        "add 1 divide 1 mean 1 sqrt 1 subtract 1 variance 1",
    ),
    "group norm": (
        t.SimplifyInference,
        "nn.group_norm(%img, %g, %g, num_groups=3)",
        "add 2 divide 1 expand_dims 2 mean 1 multiply 1 reshape 2 sqrt 1 subtract 1 variance 1",
    ),
    "two products in a batch": (
        lambda: t.CombineParallelDense(2),
        "(nn.dense(%rows, %w, units=6), nn.dense(%rows, %w2, units=6))",
        "nn.batch_matmul 1 split 1 squeeze 2 stack 2",
    ),
    "too few products": (
        lambda: t.CombineParallelDense(3),
        "(nn.dense(%rows, %w, units=6), nn.dense(%rows, %w2, units=6))",
        "nn.dense 2",
    ),
    "three products of batches": (
        lambda: t.CombineParallelBatchMatmul(3),
        "(nn.batch_matmul(%q, %x, transpose_b=True), nn.batch_matmul(%q, %y, transpose_b=True), "
        "nn.batch_matmul(%q, exp(%x), transpose_b=True))",
        "concatenate 1 exp 1 nn.batch_matmul 1 strided_slice 3",
    ),
    "what is legal": (t.Legalize, "exp(%x)", "exp 1"),
}


def counted(mod: relay.IRModule) -> str:
    found = count_ops(mod["main"])
    return " ".join(f"{name} {found[name]}" for name in sorted(found))


@pytest.mark.parametrize("case", COUNTED)
def test_operators_that_are_left(case: str) -> None:
    make, before, expected = COUNTED[case]
    made = optimized(module(before), make())
    assert counted(made) == expected
    assert made["main"].ret_type == t.InferType()(module(before))["main"].ret_type


# A program, what becomes of it in halves, and the element type of its result.
HALVES = {
    "nn.dense(%rows, %w, units=6)": ("cast 2 nn.dense 1", "float16"),
    "nn.relu(nn.dense(%rows, %w, units=6))": ("cast 2 nn.dense 1 nn.relu 1", "float16"),
    "exp(nn.dense(%rows, %w, units=6))": ("cast 3 exp 1 nn.dense 1", "float32"),
    "exp(%x)": ("exp 1", "float32"),
    "abs(%i)": ("abs 1", "int32"),
}


@pytest.mark.parametrize("program", HALVES)
def test_products_in_halves(program: str) -> None:
    expected, dtype = HALVES[program]
    made = optimized(module(program), t.ToMixedPrecision("float16"))
    assert (counted(made), made["main"].ret_type.dtype) == (expected, dtype)


# How many groups a program has at a level, and how many without fusion.
FUSED = {
    "exp(abs(tanh(%x)))": (1, 3),
    "add(exp(%x), tanh(%y))": (1, 3),
    "nn.relu(nn.dense(%rows, %w, units=6))": (1, 2),
    "nn.dense(nn.relu(%rows), %w, units=6)": (2, 2),
    "exp(sum(%x, axis=[1]))": (2, 2),
    "sum(exp(%x), axis=[1])": (1, 2),
    "%0 = exp(%x); (abs(%0), tanh(%0))": (3, 3),
    "%0 = exp(%x); add(abs(%0), tanh(%0))": (1, 4),
    "concatenate((exp(%x), exp(%y)))": (1, 3),
    "nn.softmax(exp(%x))": (2, 2),
}


@pytest.mark.parametrize("program", FUSED)
def test_groups_of_operators(program: str) -> None:
    for level, expected in zip((2, 0), FUSED[program], strict=True):
        made = optimized(module(program), t.FuseOps(level))
        nodes = relay.post_order(made["main"])
        groups = [n for n in nodes if isinstance(n, relay.Function) and n.attrs.get("Primitive")]
        assert len(groups) == expected
    back = optimized(optimized(module(program), t.FuseOps(2)), t.DefuseOps())
    assert counted(back) == counted(module(program))


FORMS = [
    "abs(exp(%x))",
    "%0 = exp(%x); if (%c) { abs(%0) } else { tanh(%0) }",
    "let %f = fn (%z: float32) { exp(%z) }; add(%f(%s), %f(2f))",
    "if (%c) { let %a = exp(%x); abs(%a) } else { %y }",
]


@pytest.mark.parametrize("program", FORMS)
def test_normal_forms_are_what_they_say(program: str) -> None:
    block = optimized(module(program), t.ToBasicBlockNormalForm())
    assert check_basic_block_normal_form(block["main"]) and well_formed(block)
    named = optimized(module(program), t.ToANormalForm())
    assert check_basic_block_normal_form(named["main"]) and well_formed(named)
    graph = optimized(named, t.ToGraphNormalForm())
    assert not any(isinstance(n, relay.Let) for n in relay.post_order(graph["main"]))
    assert counted(graph) == counted(module(program))


# ---- refusals

REASONS: dict[str, str] = {
    "AnnotateTarget": "an external code generator",
    "PartitionGraph": "an external code generator",
    "MergeCompilerRegions": "an external code generator",
    "CapturePostDfsIndexInSpans": "an external code generator",
    "Conv2dToSparse": "for sparse kernels, which do not exist here",
    "DenseToSparse": "for sparse kernels, which do not exist here",
    "SplitArgs": "any number of arguments",
    "PlanDevices": "on the processor it is compiled for",
    "ManifestAlloc": "the compiler plans memory",
    "FirstOrderGradient": "export the gradient from the training framework",
    "gradient": "export the gradient from the training framework",
    "Defunctionalization": "compiles closures as they are",
    "ToCPS": "compiles closures as they are",
    "FlexibleShapeDispatch": r"make the dims relay.Any\(\)",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_pass_that_makes_no_sense_says_why(name: str) -> None:
    with pytest.raises(Unsupported, match=f"relay.transform.{name}: .*{REASONS[name]}"):
        getattr(t, name)()


ODD: dict[str, tuple[Callable[[], Any], str]] = {
    "a float": (lambda: t.ToMixedPrecision("int8"), "float64, found 'int8'"),
    "a mode": (lambda: t.ToMixedPrecision("float16", 5), "missing_op_mode of 0, 1 or 2, found 5"),
    "entries": (lambda: t.RemoveUnusedFunctions(["f"]), "expected entries among"),
    "a layout": (lambda: t.ConvertLayout({"nn.conv2d": ["NH"]}), "an order of the axes NCHW"),
    "patterns": (lambda: t.MergeComposite([("name", 3)]), "expected a table of"),
}


@pytest.mark.parametrize("case", ODD)
def test_arguments_that_do_not_fit(case: str) -> None:
    make, message = ODD[case]
    with pytest.raises(DiscError, match=message):
        optimized(module("%x"), make())
