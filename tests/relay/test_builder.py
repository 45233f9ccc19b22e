"""The builder API: the same modules as Relay printed, and clear refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import Unsupported

from .helpers import DATA


def printed(name: str) -> relay.IRModule:
    return relay.parse((DATA / "printed" / f"{name}.relay").read_text())


def dense_bias_relu() -> relay.Function:
    constants = {
        n.data.shape: n
        for n in relay.post_order(printed("dense_bias_relu")["main"])
        if isinstance(n, relay.Constant)
    }
    x = relay.var("x", shape=(relay.Any(), 16))
    y = relay.nn.dense(x, constants[(8, 16)])
    return relay.Function([x], relay.nn.relu(relay.nn.bias_add(y, constants[(8,)])))


def broadcast_any() -> relay.Function:
    x, y = (relay.var(n, shape=(relay.Any(), relay.Any())) for n in "xy")
    return relay.Function([x, y], (x + y) * x - relay.maximum(x, y))


def while_concat() -> relay.Function:
    start = relay.var("start", shape=(), dtype="int32")
    i = relay.var("i", shape=(), dtype="int32")
    st = relay.var("st", shape=(relay.Any(), 1), dtype="int32")

    def cond(i: Any, st: Any) -> Any:
        return relay.op.min(relay.less(i, relay.const(10)))

    def step(i: Any, st: Any) -> Any:
        row = relay.reshape(i, (1, 1))
        return [i + relay.const(1), relay.concatenate([st, row], axis=0)]

    loop = relay.loops.while_loop(cond, [i, st], step)
    out = loop(start, relay.reshape(relay.const(0), newshape=(1, 1)))
    return relay.Function([start], relay.TupleGetItem(out, 1))


def size_var() -> relay.Function:
    x = relay.var("x", shape=(relay.size_var("n"), 16))
    return relay.Function([x], relay.reshape(x, (-1, 4)))


def if_tuple() -> relay.Function:
    a, flag = relay.var("a", shape=(relay.Any(), 3)), relay.var("flag", "bool")
    picked = relay.If(flag, relay.exp(a), relay.negative(a))
    return relay.Function([a, flag], relay.Tuple([picked, relay.sum(picked, axis=1)]))


def cnn_dyn_hw() -> relay.Function:
    params = [
        relay.Var(p.name_hint, p.type_annotation) for p in printed("cnn_dyn_hw")["main"].params
    ]
    data, w0, g0, be0, mm0, mv0, w1, g1, be1, mm1, mv1, fc = params
    nn = relay.nn
    y = nn.conv2d(data, w0, padding=1, channels=8, kernel_size=3)
    y = nn.relu(nn.batch_norm(y, g0, be0, mm0, mv0)[0])
    y = nn.conv2d(y, w1, strides=2, padding=(1, 1), channels=16, kernel_size=(3, 3))
    y = nn.relu(nn.batch_norm(y, g1, be1, mm1, mv1)[0])
    y = nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))
    y = nn.batch_flatten(nn.global_avg_pool2d(y))
    return relay.Function(params, nn.softmax(nn.dense(y, fc)))


@pytest.mark.parametrize(
    "build", [dense_bias_relu, broadcast_any, while_concat, size_var, if_tuple, cnn_dyn_hw]
)
def test_built_equals_printed(build: Any) -> None:
    mod = relay.IRModule.from_expr(build())
    assert relay.structural_equal(mod, printed(build.__name__))


def x_of(*shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var("x", shape=shape, dtype=dtype)


SHAPE = relay.var("s", shape=(2,), dtype="int64")
X = x_of(relay.Any(), 4)
ONE = relay.const(1.0)
STATIC_OR_DYN = {
    "reshape": lambda s: relay.reshape(X, s),
    "broadcast_to": lambda s: relay.broadcast_to(X, s),
    "full": lambda s: relay.full(ONE, s, "float32"),
    "zeros": lambda s: relay.zeros(s, "float32"),
    "ones": lambda s: relay.ones(s, "float32"),
    "tile": lambda s: relay.tile(X, s),
    "squeeze": lambda s: relay.squeeze(X, s),
    "strided_slice": lambda s: relay.strided_slice(X, s, [3, 3]),
}


@pytest.mark.parametrize(("name", "build"), STATIC_OR_DYN.items(), ids=STATIC_OR_DYN.keys())
def test_static_or_dyn_is_chosen_by_type(name: str, build: Any) -> None:
    for shape in ([1, 2], (1, 2), relay.const(np.array([1, 2]))):
        static = build(shape)
        assert static.op is relay.op.get(name)
        assert (1, 2) in static.attrs.values()
    dynamic = build(SHAPE)
    assert dynamic.op is relay.op.get(f"dyn.{name}")
    text = relay.astext(dynamic)
    assert f"dyn.{name}(" in text
    assert relay.structural_equal(dynamic, relay.parse_expr(text), map_free_vars=True)


def test_more_dyn_forms() -> None:
    k = relay.var("k", shape=(), dtype="int64")
    assert relay.topk(X, k)[0].tuple_value.op.name == "dyn.topk"
    assert relay.topk(X, relay.const(3), ret_type="values").attrs["k"] == 3
    assert relay.one_hot(X, ONE, ONE, k, 0, "float32").op.name == "dyn.one_hot"
    assert relay.expand_dims(X, k).op.name == "dyn.expand_dims"
    assert relay.nn.pad(X, relay.var("w", shape=(2, 2), dtype="int64")).op.name == "dyn.nn.pad"
    image = x_of(1, 3, relay.Any(), relay.Any())
    assert relay.nn.upsampling(image, k, 2).op.name == "dyn.nn.upsampling"
    assert relay.image.resize2d(image, SHAPE).op.name == "dyn.image.resize2d"
    assert relay.image.resize2d(image, 8).attrs["size"] == (8, 8)
    cut = relay.strided_slice(X, SHAPE, SHAPE)
    assert cut.op.name == "dyn.strided_slice" and cut.args[1:3] == (SHAPE, SHAPE)


def test_matrix_set_diag_names_its_diagonals_and_their_sides() -> None:
    band = relay.matrix_set_diag(X, X, k=(-1, 2), align="LEFT_RIGHT")
    assert band.attrs == {
        "k1": -1,
        "k2": 2,
        "super_diag_right_align": False,
        "sub_diag_right_align": True,
    }
    assert relay.matrix_set_diag(X, X, 1).attrs["k2"] == 1
    with pytest.raises(ValueError, match="align such as 'RIGHT_LEFT', found 'RIGHT'"):
        relay.matrix_set_diag(X, X, 0, "RIGHT")


def test_python_defaults_differ_from_the_operators() -> None:
    assert relay.nn.leaky_relu(X).attrs["alpha"] == 0.01
    assert relay.nn.batch_matmul(X, X).attrs["transpose_b"] is True
    assert relay.shape_of(X).attrs["dtype"] == "int32"
    assert relay.take(X, SHAPE, 1).attrs == {"axis": 1, "batch_dims": 0, "mode": "clip"}
    assert relay.nn.conv1d(X, X, padding=2).attrs["padding"] == (2, 2)
    assert relay.clip(X, 0, 6).attrs == {"a_min": 0.0, "a_max": 6.0}
    assert relay.gather(X, 1, SHAPE).args == (X, SHAPE)
    assert relay.arange(relay.const(5)).attrs["dtype"] == "float32"


def test_results_of_several_values() -> None:
    parts = relay.split(X, (1, 3), axis=1)
    assert len(parts) == 3 and [p.index for p in parts] == [0, 1, 2]
    assert len(relay.split(X, 2, 1).astuple()) == 2
    assert relay.concatenate(parts, axis=1).args[0] is parts.tuple_value
    assert len(relay.unique(X, return_counts=True)) == 5
    assert len(relay.vision.get_valid_counts(X, 0.5)) == 3
    assert len(relay.vision.all_class_non_max_suppression(X, X)) == 2
    assert isinstance(relay.nn.dropout(X), relay.TupleGetItem)
    with pytest.raises(IndexError, match="a tuple of 3 fields has no field 3"):
        parts[3]


def test_const_narrows_as_relay_does() -> None:
    assert relay.const(np.int64(1)).data.dtype == "int32"
    assert relay.const(1.5).data.dtype == "float32"
    assert relay.const([1, 2], "int64").data.dtype == "int64"
    assert relay.const(True).data.dtype == "bool"
    with pytest.raises(TypeError, match="numbers or bools"):
        relay.const("x")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: X + 1, 'convert "1" with `const` first'),  # type: ignore[operator]
        (lambda: 2 * X, 'convert "2" with `const` first'),  # type: ignore[operator]
        (lambda: X < 1.5, 'convert "1.5" with `const` first'),  # type: ignore[operator]
        (lambda: relay.cast(X), "cast needs argument 'dtype'"),
        (lambda: relay.nn.dense(X, X, unit=3), r"nn\.dense has no attribute 'unit'"),
        (lambda: relay.add(X), "add needs argument 'rhs'"),
        (lambda: relay.add(X, X, X), "add: expected at most 2 arguments, found 3"),
        (lambda: relay.exp(X, data=X), "exp: argument 'data' is given twice"),
        (
            lambda: relay.reshape(X, [1, SHAPE]),
            "attribute 'newshape': expected a value without Relay expr",
        ),
        (lambda: relay.exp("x"), "expected a Relay expression, found str"),
        (lambda: relay.Function([ONE], X), "a function parameter: expected a relay.Var"),  # type: ignore[list-item]
        (lambda: relay.IRModule.from_expr(3), "expected a Relay expression"),  # type: ignore[arg-type]
        (lambda: relay.TensorType(3), "a shape: expected a sequence"),  # type: ignore[arg-type]
        (lambda: relay.TensorType(("n",)), "a dimension: expected an int"),  # type: ignore[arg-type]
    ],
)
def test_misuse_is_a_type_error(build: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        relay.TensorType((-1,))
    with pytest.raises(ValueError, match="not both"):
        relay.var("x", "int32", shape=(1,))
    with pytest.raises(ValueError, match="axes cannot be given"):
        relay.strided_slice(X, SHAPE, [1, 1], axes=[0, 1])
    with pytest.raises(KeyError, match="unknown operator 'adds'"):
        relay.op.get("adds")
    with pytest.raises(AttributeError, match="unknown operator 'adds'"):
        getattr(relay, "ad" + "ds")
    with pytest.raises(AttributeError, match=r"unknown operator nn\.convolve"):
        getattr(relay.nn, "con" + "volve")
    with pytest.raises(RuntimeError, match="ret can only be called once"):
        scope = relay.ScopeBuilder()
        scope.ret(X)
        scope.ret(X)
    with (
        pytest.raises(RuntimeError, match="must follow an if_scope"),
        relay.ScopeBuilder().else_scope(),
    ):
        pass


def test_any_is_equal_to_nothing() -> None:
    assert relay.Any() != relay.Any()
    assert relay.Any("s") == relay.Any("s") != relay.Any("t")
    # Types are compared by how they are spelled, as in Relay.
    assert relay.TensorType((relay.Any(), 2)) == relay.TensorType((relay.Any(), 2))
    assert relay.TensorType((relay.Any(), 2)) != relay.TensorType((3, 2))
    assert relay.structural_equal(
        relay.TensorType((relay.Any(), 2)), relay.TensorType((relay.Any(), 2))
    )
    assert relay.size_var("n") == relay.size_var("n")
    assert relay.is_dynamic(relay.TupleType((relay.TensorType((relay.Any(),)),)))
    assert not relay.is_dynamic(relay.scalar_type("int32"))


def test_structural_equality_sees_differences() -> None:
    def mod(text: str) -> relay.IRModule:
        return relay.parse(f'#[version = "0.0.5"]\ndef @main(%a: int32, %b: int32) {{ {text} }}')

    base = mod("%0 = add(%a, %b); multiply(%0, %0)")
    assert relay.structural_equal(base, mod("%7 = add(%a, %b); multiply(%7, %7)"))
    for other in (
        "%0 = add(%b, %a); multiply(%0, %0)",
        "%0 = subtract(%a, %b); multiply(%0, %0)",
        "multiply(add(%a, %b), add(%a, %b))",  # computed twice
        "%0 = add(%a, 1); multiply(%0, %0)",
    ):
        assert not relay.structural_equal(base, mod(other))
    assert not relay.structural_equal(mod("sum(%a)"), mod("sum(%a, keepdims=True)"))
    assert not relay.structural_equal(mod("1"), mod("2"))
    assert not relay.structural_equal(mod("1"), mod("1i64"))


def test_the_op_module_mirrors_the_namespaces() -> None:
    assert relay.op.nn is relay.nn and relay.op.dyn is relay.dyn
    assert relay.op.nn.relu(X).op is relay.op.get("nn.relu")
    assert relay.dyn.reshape(X, SHAPE).op is relay.op.get("dyn.reshape")
    assert relay.astext(relay.exp(X)).splitlines()[1:] == [
        "free_var %x: Tensor[(?, 4), float32];",
        "exp(%x)",
    ]


def test_free_vars_and_from_expr() -> None:
    x, y = relay.var("x", shape=()), relay.var("y", shape=())
    expr = relay.Let(y, x, relay.add(y, x))
    assert relay.free_vars(expr) == [x]
    assert relay.IRModule.from_expr(expr)["main"].params == (x,)


def test_modules() -> None:
    mod = relay.IRModule()
    mod["main"] = relay.Function([X], X)
    main = mod.get_global_var("main")
    assert mod[main] is mod["main"] and "main" in mod and len(mod) == 1
    other = relay.IRModule({relay.GlobalVar("f"): relay.Function([], ONE)})
    mod.update(other)
    assert {g.name_hint for g in mod.functions} == {"main", "f"}
    assert mod.with_attr("k", 1).attrs == {"k": 1} and mod.attrs == {}
    with pytest.raises(KeyError, match=r"no function @g; its functions: @f, @main"):
        mod.get_global_var("g")
    with pytest.raises(Unsupported, match=r"prelude\.rly and nat\.rly .*, found 'core\.rly'"):
        mod.import_from_std("core.rly")
    with pytest.raises(TypeError, match=r"expected a relay\.Function"):
        mod["g"] = 3  # type: ignore[assignment]
    with pytest.raises(KeyError, match="no data type L"):
        mod.get_type("L")
    with pytest.raises(KeyError, match="no constructor C"):
        mod.get_constructor("C")


def test_data_types_from_python() -> None:
    a, header = relay.TypeVar("A"), relay.GlobalTypeVar("L")
    sigs = (relay.ConstructorSig("C", (a, relay.TypeCall(header, (a,)))), relay.ConstructorSig("N"))
    mod = relay.IRModule()
    mod.add_type(relay.TypeData(header, (a,), sigs))
    found, cons, nil = mod.get_type("L")
    assert found == header and mod.get_constructor("L", "C") is cons and nil.tag == 1
    head = relay.Var("h")
    clause = relay.Clause(
        relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternWildcard()]),
        head,  # type: ignore[arg-type]
    )
    items = relay.Var("l", relay.TypeCall(header, (relay.scalar_type("int32"),)))
    mod["main"] = relay.Function([items], relay.Match(items, [clause], complete=False))  # type: ignore[arg-type]
    assert relay.structural_equal(mod, relay.parse(mod.astext()))


def test_scope_builder_branches() -> None:
    scope = relay.ScopeBuilder()
    flag = relay.var("flag", "bool")
    with scope.if_scope(flag):
        scope.ret(scope.let("a", relay.const(1)))
    with scope.else_scope():
        scope.ret(relay.const(2))
    expr = scope.get()
    assert isinstance(expr, relay.If) and isinstance(expr.true_branch, relay.Let)


def test_without_metadata_the_text_says_so() -> None:
    text = dense_bias_relu()
    short = relay.astext(text, show_meta_data=False)
    assert "metadata section has been omitted" in short and "b64ndarrays" not in short


def test_every_operator_of_the_top_level_is_a_function() -> None:
    """A module of the package by an operator's name would be found in its place."""
    for name in relay.OPS:
        if "." not in name:
            assert callable(getattr(relay, name)), name
    x, y = (relay.var(n, shape=(relay.Any(),)) for n in "xy")
    assert "equal(%x, %y)" in relay.astext(relay.Function([x, y], relay.equal(x, y)))


def test_devices_are_accepted_and_change_nothing() -> None:
    x = relay.var("x", shape=(relay.Any(),))
    copied = relay.device_copy(x, tvm.cpu(0), tvm.target.Target("llvm"))
    placed = relay.annotation.on_device(copied, tvm.cpu())
    exe = tvm_disc.build(relay.Function([x], placed))
    for n in (0, 1, 7):
        given = np.arange(n, dtype="float32")
        np.testing.assert_array_equal(exe(given), given)


def test_spans_of_variables_and_constants() -> None:
    span = relay.Span(relay.SourceName("model"), 1, 2, 3, 4)
    made = [
        relay.var("x", shape=(2,), span=span),
        relay.var("x", "int32", span=span),
        relay.var("x", span=span),
        relay.const(1.0, span=span),
        relay.const(np.ones(2, "int8"), "int8", span),
        relay.const(np.ones(2, "int8"), span=span),
    ]
    assert all(node.span is span for node in made)
