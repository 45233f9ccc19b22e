"""What is printed of each part of a program, and that it is read back as the same program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.errors import BadNode, DiscError, ParseError, Unsupported

ANY = relay.Any()


def leaf(name: str, *dims: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=dims, dtype=dtype)


def lines(program: Any) -> list[str]:
    """The lines behind the version, without metadata; the text is read back as the program."""
    text = program.astext()
    read = relay.fromtext if isinstance(program, relay.IRModule) else relay.parse_expr
    relay.assert_structural_equal(read(text), program, map_free_vars=True)
    version, *body = text.partition("\n\n#[metadata]")[0].splitlines()
    assert version == '#[version = "0.0.5"]'
    return body


# -- literals


@pytest.mark.parametrize(
    ("dtype", "suffix"),
    [
        ("int16", "i16"),
        ("int32", ""),
        ("int64", "i64"),
        ("float16", "f16"),
        ("float32", "f"),
        ("float64", "f64"),
    ],
)
@pytest.mark.parametrize("value", [0, 1, -8])
def test_scalars_are_written_with_their_type(value: int, dtype: str, suffix: str) -> None:
    assert lines(relay.const(value, dtype)) == [f"{value}{suffix}"]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float16", "0.1f16"),
        (-0.375, "float32", "-0.375f"),
        (1e-7, "float64", "1e-07f64"),
        (6e23, "float32", "6e+23f"),
        (True, "bool", "True"),
        (False, "bool", "False"),
        (2**40, "int64", "1099511627776i64"),
    ],
)
def test_scalars_are_written_exactly(value: Any, dtype: str, text: str) -> None:
    assert lines(relay.const(value, dtype)) == [text]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (3, "int8"),
        (3, "uint8"),
        (3, "uint64"),
        (np.inf, "float32"),
        (np.nan, "float64"),
        (-0.0, "float16"),
        ([], "float32"),
        ([6], "int32"),
        ([[True], [False]], "bool"),
    ],
)
def test_constants_without_a_literal_are_metadata(value: Any, dtype: str) -> None:
    assert lines(relay.const(value, dtype)) == ["meta[relay.Constant][0]"]


def test_a_constant_is_in_the_metadata_once() -> None:
    twice, once = relay.const([5, 6]), relay.const([5, 6])
    k = "meta[relay.Constant]"
    assert lines(relay.Tuple([twice, once, twice])) == [f"({k}[0], {k}[1], {k}[0])"]


# -- types


INT8, FLAG = relay.scalar_type("int8"), relay.scalar_type("bool")
TYPES: dict[str, relay.Type] = {
    "int8": INT8,
    "Tensor[(1), bool]": relay.TensorType((1,), "bool"),
    "Tensor[(0, 7), uint8]": relay.TensorType((0, 7), "uint8"),
    "Tensor[(?, 1, ?), float16]": relay.TensorType((ANY, 1, ANY), "float16"),
    "()": relay.TupleType([]),
    "(bool,)": relay.TupleType([FLAG]),
    "(int8, (bool, int8))": relay.TupleType([INT8, relay.TupleType([FLAG, INT8])]),
    "fn () -> ()": relay.FuncType([], relay.TupleType([])),
    "fn (fn (bool) -> int8) -> bool": relay.FuncType([relay.FuncType([FLAG], INT8)], FLAG),
}


@pytest.mark.parametrize("text", TYPES)
def test_types_of_parameters_and_results(text: str) -> None:
    it = relay.Var("it", TYPES[text])
    assert relay.astext(TYPES[text]) == text
    assert lines(relay.Function([it], it, TYPES[text]))[0] == f"fn (%it: {text}) -> {text} {{"


def test_named_dims_are_metadata_one_for_each_name() -> None:
    rows, cols = relay.size_var("rows"), relay.size_var("cols")
    grid = leaf("grid", rows, ANY, cols, rows)
    n = "meta[tir.SizeVar]"
    head = f"fn (%grid: Tensor[({n}[0], ?, {n}[1], {n}[0]), float32]) {{"
    assert lines(relay.Function([grid], grid))[0] == head


def test_inferred_types_are_comments() -> None:
    mask = leaf("mask", ANY, 1, dtype="bool")
    func = relay.Function([mask], relay.Tuple([relay.logical_not(mask), relay.const(4, "int16")]))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(func))
    assert lines(mod)[1:3] == [
        "  %0 = logical_not(%mask) /* ty=Tensor[(?, 1), bool] */;",
        "  (%0, 4i16 /* ty=int16 */) /* ty=(Tensor[(?, 1), bool], int16) */",
    ]


# -- names


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        ("depth", "depth"),
        ("42", "v42"),
        ("", "v"),
        ("_", "_"),
        ("enc/0/w", "enc/0/w"),
        ("w.0:1 b", "w_0_1_b"),
        ("a//b", "a/_b"),
        ("a/*b", "a/_b"),
        ("/", "v"),
    ],
)
def test_names_are_made_readable(hint: str, text: str) -> None:
    assert lines(relay.Var(hint)) == [f"free_var %{text};", f"%{text}"]


def test_names_are_told_apart() -> None:
    same = [relay.Var(hint) for hint in ("k", "k", "k1", "k")]
    assert lines(relay.Tuple([*same, same[0]]))[-1] == "(%k, %k1, %k11, %k2, %k)"


# -- attributes


M = leaf("m", 2, 6, 4)
ATTRIBUTES: list[tuple[relay.Expr, str]] = [
    (relay.nn.log_softmax(M), "nn.log_softmax(%m)"),
    (relay.nn.log_softmax(M, axis=0), "nn.log_softmax(%m, axis=0)"),
    (relay.max(M, axis=[0, -1], keepdims=True), "max(%m, axis=[0, -1], keepdims=True)"),
    (relay.zeros([], "int8"), 'zeros(shape=[], dtype="int8")'),
    (relay.ones([0, 3], "bool"), 'ones(shape=[0, 3], dtype="bool")'),
    (relay.nn.leaky_relu(M, alpha=2.0), "nn.leaky_relu(%m, alpha=2f)"),
    (relay.squeeze(M), "squeeze(%m)"),
    (relay.repeat(M, repeats=3, axis=1), "repeat(%m, repeats=3, axis=1)"),
    (relay.nn.batch_matmul(M, M, transpose_b=False), "nn.batch_matmul(%m, %m)"),
]


@pytest.mark.parametrize(("call", "text"), ATTRIBUTES, ids=[text for _, text in ATTRIBUTES])
def test_attributes_of_calls(call: relay.Expr, text: str) -> None:
    assert lines(call)[-1] == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("Inline", 1, "Inline=1"),
        ("on", False, "on=False"),
        ("rate", 0.25, "rate=0.25f"),
        ("unset", None, "unset=None"),
        ("target", "left", 'target="left"'),
        ("cuts", (3, -1), "cuts=[3, -1]"),
        ("none", (), "none=[]"),
        ("a.b", 2, "a.b=2"),
        ("two words", 2, '"two words"=2'),
        ("quote", 'so "so"', "quote=meta[runtime.String][0]"),
    ],
)
def test_attributes_of_functions(key: str, value: Any, text: str) -> None:
    func = relay.Function([relay.Var("p")], relay.const(0), attrs={key: value})
    assert lines(func) == [f"fn (%p, {text}) {{", "  0", "}"]


# -- layout


P, Q, R, F = (relay.Var(name) for name in "pqrf")
SHARED = relay.erf(P)
LAYOUT: dict[str, tuple[relay.Expr, str]] = {
    "a value used twice has one line": (
        relay.Function([P], relay.mod(SHARED, relay.tan(SHARED))),
        "fn (%p) {\n  %0 = erf(%p);\n  %1 = tan(%0);\n  mod(%0, %1)\n}",
    ),
    "functions inside of functions": (
        relay.Function([P], relay.Function([Q], relay.Function([], relay.tan(relay.mod(P, Q))))),
        "fn (%p) {\n  fn (%q) {\n    fn () {\n"
        "      %0 = mod(%p, %q);\n      tan(%0)\n    }\n  }\n}",
    ),
    "calls of what calls return": (
        relay.Function([F], F()(relay.Tuple([]))(F)),
        "fn (%f) {\n  %0 = ();\n  %1 = %f();\n  %2 = %1(%0);\n  %2(%f)\n}",
    ),
    "a value of both branches stands before": (
        relay.Function([P, Q], relay.If(Q, SHARED, relay.tan(SHARED))),
        "fn (%p, %q) {\n  %0 = erf(%p);\n  if (%q) {\n    %0\n  } else {\n    tan(%0)\n  }\n}",
    ),
    "a value of one branch stands in it": (
        relay.Function([P, Q], relay.If(Q, P, relay.mod(SHARED, SHARED))),
        "fn (%p, %q) {\n  if (%q) {\n    %p\n  } else {\n"
        "    %0 = erf(%p);\n    mod(%0, %0)\n  }\n}",
    ),
    "bindings in a row": (
        relay.Let(P, relay.const(6), relay.Let(Q, relay.tan(P), relay.mod(P, Q))),
        "let %p = 6;\nlet %q = tan(%p);\nmod(%p, %q)",
    ),
    "a binding in a binding": (
        relay.Let(P, relay.Let(Q, relay.const(1), Q), P),
        "let %p = (\n  let %q = 1;\n  %q\n);\n%p",
    ),
    "a binding as an operand": (
        relay.tan(relay.Let(P, relay.const(1), P)),
        "%0 = (\n  let %p = 1;\n  %p\n);\ntan(%0)",
    ),
    "items of tuples": (
        relay.Let(P, relay.Tuple([relay.const(1)]), relay.TupleGetItem(P, 0)),
        "let %p = (1,);\n%p.0",
    ),
    "references": (
        relay.Let(R, relay.RefCreate(relay.const(2)), relay.RefWrite(R, relay.RefRead(R))),
        "let %r = ref(2);\n%0 = ref_read(%r);\nref_write(%r, %0)",
    ),
    "patterns": (
        relay.Function(
            [P],
            relay.Match(
                P,
                [
                    relay.Clause(
                        relay.PatternTuple([relay.PatternVar(Q), relay.PatternWildcard()]), Q
                    ),
                    relay.Clause(relay.PatternVar(R), R),
                ],
                complete=False,
            ),
        ),
        "fn (%p) {\n  match? (%p) {\n    (%q, _) => {\n      %q\n    },\n"
        "    %r => {\n      %r\n    },\n  }\n}",
    ),
}


@pytest.mark.parametrize("case", LAYOUT)
def test_layout(case: str) -> None:
    program, text = LAYOUT[case]
    assert lines(program) == text.splitlines()


def _chain(make: Callable[[Any], Any], depth: int) -> relay.Expr:
    value: relay.Expr = relay.Var("start")
    for _ in range(depth):
        value = make(value)
    return value


STEPS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "calls": (relay.tan, 1501),
    "shared operands": (lambda e: relay.mod(e, e), 1501),
    "tuples": (lambda e: relay.TupleGetItem(relay.Tuple([e]), 0), 3001),
    "bindings": (lambda e: relay.Let(relay.Var("t"), relay.const(0), e), 1502),
}


@pytest.mark.parametrize("kind", STEPS)
def test_deep_programs_have_a_line_for_each_part(kind: str) -> None:
    make, expected = STEPS[kind]
    found = len(lines(_chain(make, 1500)))
    assert found == expected


# -- modules


KINDS = """type Leaf {
  Bare,
  Held(int8, bool),
}

type Pair[S, T] {
  Both(S, T),
}

def @first[T](%x: Pair[Leaf[], T]) -> Leaf[] {
  match (%x) {
    Both(%l, _) => {
      %l
    },
  }
}

def @make() -> fn (int8, bool) -> Leaf[] {
  Held
}
"""


def test_modules_are_in_order_of_names_types_first() -> None:
    mod = relay.parse('#[version = "0.0.5"]\n' + KINDS)
    assert mod.astext(show_meta_data=False).partition("\n")[2].strip() == KINDS.strip()
    assert str(mod) == relay.pretty_print(mod)
    mod["back"] = relay.Function([P], mod.get_global_var("make")())
    assert [n.split("(")[0] for n in lines(mod) if n.startswith("def")] == [
        "def @back",
        "def @first[T]",
        "def @make",
    ]


@pytest.mark.parametrize("text", ["extern type Seed", "extern type Sack[S, T]", "type Void { }"])
def test_a_type_without_constructors_is_extern(text: str) -> None:
    mod = relay.parse(f'#[version = "0.0.5"]\n{text}\ndef @f(%p: int8) {{ %p }}')
    expected = text.removesuffix(" { }") if text.startswith("extern") else "extern type Void"
    assert lines(mod)[0] == expected and lines(mod)[-3].startswith("def @f")
    assert relay.structural_equal(relay.parse(mod.astext()), mod)


def test_metadata_may_be_left_out() -> None:
    mod = relay.IRModule.from_expr(relay.mod(M, relay.const(np.full((6, 1), 3.0, "float32"))))
    whole, short = mod.astext(), str(mod)
    assert "#[metadata]" in whole and "#[metadata]" not in short and "#[version" not in short
    assert "mod(%m, meta[relay.Constant][0])" in short and "has been omitted" in short
    with pytest.raises(DiscError):
        relay.parse_expr(mod.astext(show_meta_data=False))


def test_comments_of_the_user() -> None:
    def kinds(expr: relay.Expr) -> str:
        return f" /* {type(expr).__name__} */"

    mod = relay.IRModule.from_expr(relay.Function([M], relay.Tuple([relay.tan(M), M])))
    text = mod.astext(annotate=kinds)
    assert "tan(%m) /* Call */;\n  (%0, %m) /* Tuple */" in text and "/* Var */" in text
    relay.assert_structural_equal(relay.fromtext(text), mod)
    assert "/*" not in mod.astext(annotate=lambda _: "")


@pytest.mark.parametrize("source", ["net/stem", "", "a*b", "two words"])
def test_places_in_sources_are_comments(source: str) -> None:
    call = relay.Call(relay.op.get("tan"), [P], span=relay.Span.at(source, 0, 31))
    assert lines(call)[-1] == f"tan(%p) /* span={source}:0:31 */"


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("mlp", {"batch_size": 3, "num_classes": 2, "image_shape": (1, 5, 7)}),
        ("dqn", {"batch_size": 2, "num_actions": 4}),
        ("lstm", {"iterations": 2, "num_hidden": 3, "batch_size": 2}),
        ("resnet", {"num_layers": 20, "num_classes": 7, "image_shape": (3, 32, 32)}),
        ("squeezenet", {"batch_size": 2, "num_classes": 11, "image_shape": (3, 96, 96)}),
        ("mobilenet", {"num_classes": 5, "image_shape": (3, 64, 64)}),
    ],
)
def test_networks_are_read_back(network: str, options: dict[str, Any]) -> None:
    mod, params = getattr(relay.testing, network).get_workload(**options)
    head = lines(mod)[0]  # not the graph itself, whose repr is without end
    assert head.startswith("def @main(") and all(f"%{name}: Tensor" in head for name in params)


# -- refusals


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: relay.astext("tan(%p)"), BadNode, "expected a relay module, expression or type"),
    (lambda: relay.pretty_print(None), BadNode, "found NoneType"),
    (lambda: relay.astext(P, annotate="types"), BadNode, "annotate: expected a function"),
    (lambda: relay.fromtext(str(relay.IRModule.from_expr(P))), ParseError, "version"),
    (lambda: relay.fromtext('#[version = "9.1"]\n'), ParseError, "9.1"),
    (lambda: relay.testing.yolo_detection(), Unsupported, "this network is not shipped"),
    (
        lambda: relay.testing.inception_v3(),
        Unsupported,
        "import models with relay.frontend.from_onnx",
    ),
]


@pytest.mark.parametrize(("use", "error", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_refusals(use: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        use()
    assert message in str(caught.value)
