"""Types that inference finds, and programs that it refuses, by kind of expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.op import op as registry

from tvm_disc import relay
from tvm_disc.errors import ShapeConflict, TypeMismatch, Unsupported
from tvm_disc.relay import transform

REFUSED = (TypeMismatch, ShapeConflict, Unsupported)

SHAPES = """
type Tree[E] { Leaf(E), Fork(Tree[E], Tree[E]), }
type Either[L, R] { Left(L), Right(R), }
"""


def typed(text: str) -> relay.IRModule:
    """A module from its text, with types."""
    return transform.InferType()(relay.fromtext('#[version = "0.0.5"]\n' + text))


def result(params: str, body: str) -> str:
    """The type of what ``main`` with these parameters and this body gives, as text."""
    return str(typed(f"{SHAPES} def @main({params}) {{ {body} }}")["main"].checked_type.ret_type)


def rows(table: str) -> list[Any]:
    """Cases, one a line: the parts are separated by bars, and the name is the middle part."""
    lines = [[part.strip() for part in line.split("|")] for line in table.strip().splitlines()]
    return [pytest.param(*parts, id=parts[1]) for parts in lines]


def tensor(dims: tuple[int | None, ...], dtype: str = "float32") -> relay.TensorType:
    """The type of a tensor; None is an unknown dim."""
    return relay.TensorType([relay.Any() if d is None else d for d in dims], dtype)


def of(expr: Any) -> Any:
    """The type of one expression, which may have free variables."""
    return transform.InferTypeLocal(expr)


# -- operators -----------------------------------------------------------------------------------

PAIRS: list[Any] = [
    ((3, 1), (1, 7), (3, 7)),
    ((2, 6, 5), (5,), (2, 6, 5)),
    ((), (8, 3), (8, 3)),
    ((), (), ()),
    ((0, 4), (1, 4), (0, 4)),
    ((1,), (0,), (0,)),
    ((None, 6), (9, 6), (9, 6)),
    ((None,), (1,), (None,)),
    ((2, None), (None, 1), (2, None)),
    ((None, None), (), (None, None)),
]


@pytest.mark.parametrize(("left", "right", "out"), PAIRS)
@pytest.mark.parametrize("turned", [False, True])
def test_dims_of_two_operands(left: Any, right: Any, out: Any, turned: bool) -> None:
    """A dim of 1 gives way to any other, and an unknown dim to a known one, on either side."""
    a, b = relay.var("a", tensor(left)), relay.var("b", tensor(right))
    made = relay.maximum(b, a) if turned else relay.maximum(a, b)
    assert of(made) == tensor(out)


@pytest.mark.parametrize(
    ("names", "dtypes", "out"),
    [
        (["power", "floor_mod", "minimum"], ["float16", "float64", "int32", "uint8"], None),
        (["bitwise_xor", "left_shift"], ["int8", "int64"], None),
        (["greater_equal", "not_equal"], ["float16", "int64", "uint8"], "bool"),
        (["logical_xor"], ["bool"], None),
    ],
)
def test_element_types_of_two_operands(names: Any, dtypes: Any, out: str | None) -> None:
    """Arithmetic keeps the element type, and comparisons give bools."""
    for name in names:
        for dtype in dtypes:
            a, b = (relay.var(n, tensor((None, 3), dtype)) for n in "ab")
            assert of(getattr(relay, name)(a, b)) == tensor((None, 3), out or dtype), name


@pytest.mark.parametrize("dims", [(), (0,), (1, 13), (None, 2, None)])
@pytest.mark.parametrize(
    ("name", "out"), [("tan", "float16"), ("negative", "float16"), ("isnan", "bool")]
)
def test_one_operand(name: str, out: str, dims: Any) -> None:
    x = relay.var("x", tensor(dims, "float16"))
    assert of(getattr(relay, name)(x)) == tensor(dims, out)


@pytest.mark.parametrize("name", ["prod", "mean", "argmin"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1, -1)])
def test_reduced_dims(name: str, keepdims: bool, axis: Any) -> None:
    """The dims are those that NumPy finds; places are int32."""
    x = relay.var("x", tensor((4, 1, 6), "float64"))
    dims = np.zeros((4, 1, 6)).sum(axis, keepdims=keepdims).shape
    dtype = "int32" if name == "argmin" else "float64"
    assert of(getattr(relay, name)(x, axis=axis, keepdims=keepdims)) == tensor(dims, dtype)


MOVED = rows("""
%x: Tensor[(?, 4, 6), int8] | reshape(%x, newshape=[0, -1]) | Tensor[(?, 24), int8]
%x: Tensor[(2, ?, 0), int8] | transpose(%x, axes=[2, 0, 1]) | Tensor[(0, 2, ?), int8]
%x: Tensor[(1, ?), bool] | squeeze(%x, axis=[0]) | Tensor[(?), bool]
%x: int64 | expand_dims(%x, axis=0) | Tensor[(1), int64]
%x: Tensor[(3), int64] | cast(%x, dtype="bool") | Tensor[(3), bool]
%x: Tensor[(?, 3, ?), int8] | shape_of(%x) | Tensor[(3), int32]
%x: Tensor[(?, 3), int8] | argwhere(%x) | Tensor[(?, 2), int32]
%x: Tensor[(?, 3), int8], %y: Tensor[(5, 3), int8] | concatenate((%x, %y)) | Tensor[(?, 3), int8]
%x: Tensor[(7, ?), bool] | split(%x, indices_or_sections=[7]).0 | Tensor[(7, ?), bool]
%x: Tensor[(7, ?), bool] | split(%x, indices_or_sections=[2, 6]).2 | Tensor[(1, ?), bool]
%x: Tensor[(?, 4, 8), float32] | nn.batch_flatten(%x) | Tensor[(?, 32), float32]
""")


@pytest.mark.parametrize("groups", [1, 3])
def test_a_convolution_of_unknown_dims(groups: int) -> None:
    """Only what the weights say is known of the result."""
    x = relay.var("x", tensor((None, None, None)))
    weight = relay.const(np.zeros((12, 2, 5)), "float32")
    found = of(relay.nn.conv1d(x, weight, kernel_size=5, channels=12, groups=groups))
    assert found == tensor((None, 12, None))


MISFITS = rows(r"""
%a: Tensor[(4, 3), int8], %b: Tensor[(4, 2), int8] | multiply(%a, %b) | %a: Tensor\[\(4, 3\), int8\]
%a: Tensor[(4, 3), int8] | subtract(%a, 1) | in subtract\(.*int8.*, int32\)
%a: Tensor[(4, 3), int8] | less(%a, (%a, %a)) | operand .rhs.: expected a tensor, found a tuple
%a: Tensor[(4, 3), int8] | sqrt(%a, %a) | sqrt: expected 1 operand \(.*\), found 2
%a: Tensor[(4, 3), int8] | sum(%a, axis=[2]) | sum at .*: axis 2 is out of range; expected -2 to 1
%a: Tensor[(4, 3), int8] | transpose(%a, axes=[0, 2]) | transpose at .*: axis 2 is out of range
%a: Tensor[(4, 3), int8] | reshape(%a, newshape=[5, -1]) | in reshape\(%a
%a: Tensor[(4, 3), int8], %b: Tensor[(4, 2), int8] | concatenate((%a, %b)) | 3 must equal 2
%i: int16 | let %q: int32 = %i; %q | '%q' at .*: expected int32, found int16; in .* int32 and int16
%i: int16 | if (%i) { 1 } else { 2 } | expected bool, found int16
%i: int16, %t: (bool, int8) | if (%t.0) { %i } else { %t } | expected int16, found \(bool, int8\)
%t: (bool, int8) | %t.2 | expected a tuple of at least 3 fields, found \(bool, int8\)
%i: int16 | %i.0 | expected a tuple of at least 1 field, found int16
%i: int16 | ref_read(%i) | ref_read at .*: .*ref\(_\)
%i: int16, %t: (bool,) | ref_write(ref(%i), %t) | expected int16, found \(bool,\)
%i: int16 | %i(%i) | expected a function to call, found int16
%x: int8 | Fork(Leaf(%x), Leaf(True)) | argument 1 of Fork at .*: expected int8, found bool
%x: int8 | Fork(%x) | Fork: expected 2 arguments, found 1
%x: int8 | match? (%x) { Leaf(%v) => { %v }, } | expected Tree\[_\], found int8
%x: Tree[int8] | match? (%x) { Left(_) => { 1 }, } | expected Either\[_, _\], found Tree\[int8\]
%x: Tree[int8] | match? (%x) { Leaf(%v) => { %v }, _ => { () }, } | expected int8, found \(\)
%x: int8 | match? (Right(%x)) { Left(%v) => { %v }, } | unable to infer the type of a Match
%x | %x(%x) | a type would contain itself
%x | (%x, 1) | unable to infer the type of '%x'
%x | tanh(%x) | tanh\(.*: _\): unable to infer
%g: fn (int8) -> int8 | %g(()) | expected int8, found \(\)
""")


@pytest.mark.parametrize("axes", ["[0]", "[1, 1]"])
def test_transpose_takes_every_axis_once(axes: str) -> None:
    with pytest.raises(REFUSED, match="transpose"):
        result("%a: Tensor[(4, 3), float32]", f"transpose(%a, axes={axes})")


def test_calls_of_operators_have_type_arguments() -> None:
    x, i = relay.var("x", tensor((None, 8))), relay.var("i", tensor((3,), "int64"))
    mod = transform.InferType()(relay.IRModule.from_expr(relay.take(x, i, axis=1)))
    assert list(mod["main"].body.type_args) == [tensor((None, 8)), tensor((3,), "int64")]


# -- bindings, branches, tuples and references ---------------------------------------------------

PARTS = rows("""
%p: int8 | let %q = (%p, %p); let %r = (%q, %q.1); %r.0.0 | int8
%p: int8 | let %q = less(%p, %p); let %r = (%q, %p); %r | (bool, int8)
%p: int8 | let %unused = 2.5f64; () | ()
%p: Tensor[(0), bool] | (%p,) | (Tensor[(0), bool],)
%p: (int8, (bool, ())) | (%p.1.1, %p.1, %p.0) | ((), (bool, ()), int8)
%p: bool | if (%p) { (1i64, %p) } else { (2i64, False) } | (int64, bool)
%p: Tensor[(?), bool], %q: Tensor[(5), bool] | if (True) { %q } else { %p } | Tensor[(?), bool]
%p: (int8, bool) | ref(%p) | ref((int8, bool))
%p: int8 | let %cell = ref(ref(%p)); ref_read(ref_read(%cell)) | int8
%p: int8 | let %cell = ref(%p); (ref_write(%cell, %p), %cell) | ((), ref(int8))
%p: fn (int8) -> bool | ref_read(ref(%p))(1i8) | bool
""")


def test_free_variables_keep_their_identity() -> None:
    """An expression that no function holds yet is typed in place."""
    x, y = relay.var("x", tensor((None, 1), "int8")), relay.var("y", tensor((6,), "int8"))
    table = relay.Tuple([relay.less(x, y), x])
    assert of(table) == relay.TupleType([tensor((None, 6), "bool"), tensor((None, 1), "int8")])
    assert table.fields[1] is x and table.fields[0].args[1] is y


# -- functions -----------------------------------------------------------------------------------

FUNCTIONS = rows("""
| fn () { () } | fn () -> ()
%k: int8 | fn (%z: bool) { (%k, %z) } | fn (bool) -> (int8, bool)
%k: int8 | fn (%z: bool) { fn () { %k } } | fn (bool) -> fn () -> int8
%k: int8 | let %twice = fn (%z) { add(%z, %z) }; %twice(%k) | int8
%k: int8 | (fn (%g: fn (int8) -> bool) { %g(%k) })(fn (%z) { True }) | bool
%g: fn (bool) -> (), %h: fn (int8) -> bool | fn (%z) { %g(%h(%z)) } | fn (int8) -> ()
%c: bool, %g: fn (int8) -> () | if (%c) { fn (%z) { () } } else { %g } | fn (int8) -> ()
%k: int8 | let %r = fn [S, T](%p: (S, T)) { %p.1 }; (%r((%k, True)), %r(((), 2))) | (bool, int32)
%k: int8 | let %c = fn [S](%s: S) { fn (%b: bool) { %s } }; %c((%k, 1f))(True) | (int8, float32)
""")


@pytest.mark.parametrize("dim", [0, 1, 9, None])
def test_a_function_of_unknown_dims_at_a_call(dim: int | None) -> None:
    """The function keeps its own dims, whatever those of the argument are."""
    v, w = relay.var("v", tensor((None,))), relay.var("w", tensor((dim,)))
    call = relay.Function([v], relay.exp(v))(w)
    made = relay.testing.run_infer_type(relay.Function([w], call))
    assert made.checked_type == relay.FuncType([tensor((dim,))], tensor((None,)))
    assert made.body.op.params[0].checked_type == tensor((None,))


def test_a_parameter_without_annotation_gets_one() -> None:
    mod = typed("def @main(%g, %n: int64) -> (bool, int64) { (%g((%n,)), %n) }")
    assert str(mod["main"].params[0].type_annotation) == "fn ((int64,)) -> bool"


def test_type_arguments_of_a_global_function() -> None:
    pick = "def @pick[S, T](%s: S, %t: T) -> S { %s }"
    call = typed(f"{pick} def @main(%x: float64) {{ @pick((), @pick(%x, 1i16)) }}")["main"].body
    assert [str(t) for t in call.type_args] == ["()", "float64"]
    assert [str(t) for t in call.args[1].type_args] == ["float64", "int16"]


def test_functions_that_call_each_other() -> None:
    """The result of one is known only through the annotation of the other."""
    mod = typed("""
def @down(%n: int16, %c: bool) { if (%c) { @up((%n, %c)) } else { (%n, ()) } }
def @up(%p: (int16, bool)) -> (int16, ()) { @down(negative(%p.0), False) }
""")
    assert str(mod["down"].checked_type) == "fn (int16, bool) -> (int16, ())"
    assert str(mod["up"].checked_type) == "fn ((int16, bool)) -> (int16, ())"


LOOP = """def @main(%n: int32) {
  let %grow = fn (%k: int32, %acc: Tensor[(DIM, 2), int8]) -> Tensor[(DIM, 2), int8] {
    if (less(%k, %n)) { %grow(add(%k, 1), repeat(%acc, repeats=2, axis=0)) } else { %acc }
  };
  %grow(0, zeros(shape=[3, 2], dtype="int8"))
}"""


def test_a_loop_that_makes_its_data_longer() -> None:
    """It needs a parameter of an unknown dim: a known one conflicts with the longer tensor."""
    grown = typed(LOOP.replace("DIM", "?"))["main"].checked_type.ret_type
    assert grown == tensor((None, 2), "int8")
    with pytest.raises(TypeMismatch, match="dimension 0 conflicts: 3 does not match 6"):
        typed(LOOP.replace("DIM", "3"))


HEADERS = rows(r"""
def @f(%x: int8) { %x } | @f(1i16) | argument 0 of f at from_string:2:39: expected int8, found int16
def @f(%x: int8) { %x } | @f() | f: expected 1 argument, found 0
def @f(%x: int8) -> int16 { %x } | 1 | expected int16, found int8
def @f[S](%x: S, %y: S) { 1 } | @f(True, 2) | argument 1 of f at .*: expected bool, found int32
def @f[S](%x: S) -> S { 1f } | @f(2f) | expected S, found float32
""")


@pytest.mark.parametrize(("header", "body", "message"), HEADERS)
def test_functions_that_are_refused(header: str, body: str, message: str) -> None:
    with pytest.raises(REFUSED, match=message):
        typed(f"{header} def @main() {{ {body} }}")


# -- data types ----------------------------------------------------------------------------------

DATA = rows("""
%x: int8 | Leaf(%x) | Tree[int8]
%x: int8 | Fork(Leaf((%x, ())), Leaf((%x, ()))) | Tree[(int8, ())]
%x: Tree[bool] | Leaf(Fork(%x, %x)) | Tree[Tree[bool]]
%x: bool | if (%x) { Left(%x) } else { Right(3i16) } | Either[bool, int16]
%x: bool | Right(%x) | Either[_, bool]
%x: Either[int8, bool] | match (%x) { Left(_) => { 1f }, _ => { 2f }, } | float32
%x: Either[(), int8] | match? (%x) { Right(%v) => { (%v, %x) }, } | (int8, Either[(), int8])
%x: Either[Tree[int8], bool] | match? (%x) { Left(Leaf(%a)) => { %a }, } | int8
%x: (Tree[int8], int64) | match? (%x) { (Leaf(%a), %b) => { (%b, %a) }, } | (int64, int8)
%x: int8 | let %leaf = Leaf; (%leaf(%x), %leaf(())) | (Tree[int8], Tree[()])
""")


def test_a_polymorphic_walk_of_a_tree() -> None:
    text = """def @map[S, T](%f: fn (S) -> T, %t: Tree[S]) -> Tree[T] {
  match (%t) {
    Leaf(%v) => { Leaf(%f(%v)) },
    Fork(%l, %r) => { Fork(@map(%f, %l), @map(%f, %r)) },
  }
}
def @main(%t: Tree[int64]) { @map(fn (%v: int64) { (greater(%v, 0i64), %v) }, %t) }"""
    mod = typed(SHAPES + text)
    assert str(mod["main"].checked_type.ret_type) == "Tree[(bool, int64)]"
    assert [str(a) for a in mod["main"].body.type_args] == ["int64", "(bool, int64)"]


def test_an_annotated_pattern_says_what_is_matched() -> None:
    body = "match? (%x) { Right(%v: (bool, int8)) => { %v.1 }, Left(()) => { 1i8 }, }"
    main = typed(f"{SHAPES} def @main(%x) {{ {body} }}")["main"]
    assert str(main.checked_type) == "fn (Either[(), (bool, int8)]) -> int8"


@pytest.mark.parametrize(("params", "body", "out"), MOVED + PARTS + FUNCTIONS + DATA)
def test_the_type_of_a_program(params: str, body: str, out: str) -> None:
    assert result(params, body) == out


@pytest.mark.parametrize(("params", "body", "message"), MISFITS)
def test_a_program_that_is_refused(params: str, body: str, message: str) -> None:
    with pytest.raises(REFUSED, match=message):
        result(params, body)


def test_what_the_module_lacks() -> None:
    pair = relay.GlobalTypeVar("Pair")
    both = relay.Constructor("Both", [tensor((), "bool")], pair)
    with pytest.raises(TypeMismatch, match="constructor Both: the module has no data type Pair"):
        transform.InferType()(relay.IRModule.from_expr(both(relay.const(True))))
    with pytest.raises(TypeMismatch, match="the module has no function @lost"):
        transform.InferType()(relay.IRModule.from_expr(relay.GlobalVar("lost")()))


@pytest.fixture
def operator() -> Iterator[Any]:
    made: list[str] = []

    def make(name: str, inputs: int, relation: str, rule: Any = None) -> Any:
        registry.register(name)
        made.append(name)
        op = registry.get(name)
        op.set_num_inputs(inputs)
        op.add_type_rel(relation, rule)
        return op

    yield make
    for name in made:
        registry.unregister(name)


@pytest.mark.parametrize(
    ("relation", "operands", "out"),
    [
        ("Identity", [((None, 2), "int8")], ((None, 2), "int8")),
        ("IdentityComp", [((0,), "float64")], ((0,), "bool")),
        ("Broadcast", [((), "int8"), ((5, None), "int8")], ((5, None), "int8")),
        ("BroadcastComp", [((1, 4), "int8"), ((7, 1), "int8")], ((7, 4), "bool")),
    ],
)
def test_relations_by_name(operator: Any, relation: str, operands: Any, out: Any) -> None:
    op = operator(f"user.{relation}", len(operands), relation)
    args = [relay.var(f"x{k}", tensor(*o)) for k, o in enumerate(operands)]
    assert of(relay.Call(op, args)) == tensor(*out)


def test_a_rule_of_types(operator: Any) -> None:
    """A rule may give any type, and operators around it go by what it gives."""
    two = relay.TupleType([tensor((2,), "int16")] * 2)
    op = operator("user.ends", 1, "Ends", lambda types, attrs: two)
    ends = relay.Call(op, [relay.var("x", tensor((None, 3), "int16"))])
    whole = relay.add(relay.TupleGetItem(ends, 1), relay.const(np.ones((4, 1), "int16")))
    assert of(whole) == tensor((4, 2), "int16")


def test_rules_that_are_refused(operator: Any) -> None:
    x = relay.var("x", tensor((3,)))
    nothing = operator("user.nothing", 1, "Nothing", lambda types, attrs: 7)
    with pytest.raises(
        TypeMismatch, match=r"user\.nothing: its relation returned 7, expected a type"
    ):
        of(relay.Call(nothing, [x]))
    fails = operator("user.fails", 1, "Fails", lambda types, attrs: {}[types[0].dtype])
    with pytest.raises(KeyError, match="float32"):
        of(relay.Call(fails, [x]))
    two = operator("user.two", 2, "Broadcast")
    with pytest.raises(TypeMismatch, match=r"user\.two: expected 2 operands .*, found 1"):
        of(relay.Call(two, [x]))
    with pytest.raises(ValueError, match=r"expected a type relation .* found .*Sideways"):
        two.add_type_rel("Sideways")
    with pytest.raises(ValueError, match=r"user\.two is registered already"):
        registry.register("user.two")
    with pytest.raises(ValueError, match="cosh is an operator of Relay and cannot be changed"):
        registry.get("cosh").add_type_rel("Identity")
    with pytest.raises(Unsupported, match=r"user\.two"):
        relay.build(relay.IRModule.from_expr(relay.Call(two, [x, x])), "llvm")
