"""What is printed, by kind of expression, and that it is read back."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_disc import relay
from tvm_disc.errors import Unsupported

HEAD = '#[version = "0.0.5"]\n'


def text_of(program: Any) -> str:
    """The text, from which the program comes back."""
    text = program.astext()
    read = relay.parse_expr if isinstance(program, relay.Expr) else relay.fromtext
    relay.assert_structural_equal(read(text), program, map_free_vars=True)
    return str(text)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (42, "int16", "42i16"),
        (42, "int32", "42"),
        (42, "int64", "42i64"),
        (3.0, "float16", "3f16"),
        (3.0, "float32", "3f"),
        (3.0, "float64", "3f64"),
    ],
)
def test_numbers(value: Any, dtype: str, text: str) -> None:
    assert text_of(relay.const(value, dtype)) == HEAD + text


def _sum(count: int) -> tuple[Any, list[Any]]:
    x, y = relay.var("x", shape=(3, 2)), relay.var("y")
    one = relay.const(10e10, dtype="float32")
    z = relay.add(x, one)
    for _ in range(count):
        z = relay.add(z, one)
    return z, [x, y]


def test_a_large_graph() -> None:
    z, params = _sum(20_000)
    text_of(relay.Function(params, z))


def test_functions() -> None:
    z, params = _sum(0)
    z = relay.add(z, z)
    text_of(z)
    text_of(relay.Function(params, z))


def test_modules() -> None:
    x, y = relay.var("x", "float32"), relay.var("y", "float32")
    z = relay.add(x, y)
    mod = relay.IRModule()
    mod["myf"] = relay.Function([x, y], relay.add(z, z))
    mod = relay.transform.InferType()(mod)
    for text in (text_of(mod), str(mod)):
        assert "def @myf" in text and "add(%0, %0) /* ty=float32 */" in text
    own = mod.astext(annotate=lambda e: "  // " + e.checked_type.dtype if _call(e) else "")
    assert own.count("// float32") == 2


def _call(expr: Any) -> bool:
    return isinstance(expr, relay.Call)


def test_metadata() -> None:
    x, w = relay.var("x", shape=(relay.size_var("n"), 10, 224, 224)), relay.var("w")
    z = relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1), channels=2)
    func = relay.Function([x, w], z)
    whole, bare = text_of(func), str(func)
    for text in (whole, bare):
        assert "channels=2" in text and "meta[tir.SizeVar][0]" in text
    assert "type_key" in whole and "type_key" not in bare
    assert "meta[relay.Constant][0]" in text_of(relay.const([1, 2, 3]))


def test_attributes() -> None:
    x = relay.var("x")
    assert "axis=2" in text_of(relay.nn.softmax(x, axis=2))
    assert "softmax(%x)" in text_of(relay.nn.softmax(x))
    assert "num_newaxis=2" in text_of(relay.expand_dims(x, axis=2, num_newaxis=2))


def test_branches_with_bindings() -> None:
    x, y, cond = relay.var("x", "float32"), relay.var("y", "float32"), relay.var("cond", "bool")
    sb = relay.ScopeBuilder()
    with sb.if_scope(cond):
        a = sb.let("v", relay.const(1, "float32"))
        sb.ret(relay.subtract(a, sb.let("v", x)))
    with sb.else_scope():
        v = relay.var("v")
        let = relay.Let(v, y, v)
        sb.ret(relay.add(let, let))
    text = text_of(relay.Function([x, y, cond], sb.get()))
    assert text.count("{") == 3 and "%cond: bool" in text


def test_names_that_are_numbers() -> None:
    assert "%v1" in text_of(relay.var("1"))


NOT_SHIPPED = pytest.mark.xfail(strict=True, raises=Unsupported, reason="it is not shipped")
NETWORKS = ["mlp", "resnet", "mobilenet", "dqn"] + [
    pytest.param(name, marks=NOT_SHIPPED) for name in ("dcgan", "inception_v3", "densenet")
]


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    net, _ = getattr(relay.testing, name).get_workload(batch_size=1)
    text_of(net)


@pytest.mark.parametrize("size", [1, 4])
def test_a_recurrent_network(size: int) -> None:
    text_of(relay.testing.lstm.get_workload(size, size)[0])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_versions_of_a_network(version: str) -> None:
    text_of(relay.testing.squeezenet.get_workload(batch_size=1, version=version)[0])


def test_the_order_of_calls() -> None:
    x, y = relay.var("x"), relay.var("y")
    inner = relay.Call(relay.Function([y], y), [relay.const(1)])
    lines = [
        "%0 = fn (%y) {",
        "  %y",
        "};",
        "%1 = %0(1);",
        "%2 = fn (%x) {",
        "  %x",
        "};",
        "%2(%1)",
    ]
    assert text_of(relay.Call(relay.Function([x], x), [inner])) == HEAD + "\n".join(lines)


def test_bindings_of_shared_values() -> None:
    pair, x = relay.Tuple([relay.const(0), relay.const(0)]), relay.var("x")
    assert text_of(relay.Let(x, pair, pair)) == HEAD + "%0 = (0, 0);\nlet %x = %0;\n%0"
    assert text_of(relay.Let(x, pair, x)) == HEAD + "let %x = (0, 0);\n%x"


def test_empty_shapes() -> None:
    text_of(relay.op.zeros([], "float32"))


def test_constructors_as_values() -> None:
    types = "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}"
    main = "def @main[A]() -> fn (A, List[A]) -> List[A] {\n  Cons\n}"
    text = str(relay.parse(f"{HEAD}{types}\n\n{main}\n"))
    assert types in text and main in text


def test_attributes_without_a_value() -> None:
    x, y = relay.var("x"), relay.var("y")
    func = relay.Function([x], y).with_attr("TestAttribute", None)
    assert "TestAttribute=None" in text_of(func)


def test_places_in_sources() -> None:
    z, params = _sum(0)
    for name in ("Add0", "Add1"):
        span = relay.Span(relay.SourceName(name), 0, 0, 0, 0)
        z = relay.Call(z.op, z.args, z.attrs, z.type_args, span)
        z = relay.add(z, z) if name == "Add0" else z
    text = text_of(relay.Function(params, z))
    assert "Add0" in text and "Add1" in text


def test_types_in_comments() -> None:
    c = relay.const(1)
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.add(c, c)))
    assert text_of(mod).count("/* ty=int32 */") == 3


def test_slashes_in_names() -> None:
    text = text_of(relay.var("base/x") + relay.var("base/y"))
    assert "base/x" in text and "base/y" in text
