"""StableHLO text, bytecode and files; operators that JAX rarely emits; refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import BadInput, DiscError, GuardFailed, Unsupported  # noqa: E402

X = np.linspace(-3, 3, 30, dtype="float32").reshape(5, 6)


def module(body: str, arguments: str, results: str) -> str:
    return f"module {{ func.func @main({arguments}) -> ({results}) {{\n{body}\n}} }}"


def run(body: str, arguments: str, results: str, *inputs: np.ndarray) -> Any:
    return tvm_disc.build(module(body, arguments, results))(*inputs)


def unary(op: str, ty: str = "tensor<?x6xf32>") -> str:
    return module(f"%0 = {op} %x : {ty}\nreturn %0 : {ty}", f"%x: {ty}", ty)


def test_text_has_dims_without_names() -> None:
    exe = tvm_disc.build(unary("stablehlo.tanh"))
    for n in (0, 1, 5, 33):
        x = np.resize(X, (n, 6))
        np.testing.assert_allclose(exe(x), np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("stablehlo.cbrt", np.cbrt),
        ("stablehlo.round_nearest_afz", lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
        ("stablehlo.logistic", lambda x: 1 / (1 + np.exp(-x))),
        ("stablehlo.is_finite", None),
    ],
)
def test_unary_operators(op: str, reference: Any) -> None:
    if reference is None:
        text = module(
            f"%0 = {op} %x : (tensor<?xf32>) -> tensor<?xi1>\nreturn %0 : tensor<?xi1>",
            "%x: tensor<?xf32>",
            "tensor<?xi1>",
        )
        x = np.array([1, np.inf, -np.inf, np.nan], "float32")
        np.testing.assert_array_equal(tvm_disc.build(text)(x), np.isfinite(x))
        return
    np.testing.assert_allclose(tvm_disc.build(unary(op))(X), reference(X), rtol=2e-6, atol=1e-6)


def test_a_reduction_by_any_function_is_a_loop() -> None:
    body = """
      %i = stablehlo.constant dense<0.5> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %i) across dimensions = [1] :
        (tensor<?x6xf32>, tensor<f32>) -> tensor<?xf32>
        reducer(%a: tensor<f32>, %b: tensor<f32>) {
          %m = stablehlo.multiply %a, %b : tensor<f32>
          %s = stablehlo.add %m, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }
      return %0 : tensor<?xf32>"""
    exe = tvm_disc.build(module(body, "%x: tensor<?x6xf32>", "tensor<?xf32>"))
    for n in (1, 4, 17):
        x = np.resize(X, (n, 6)) / 4
        want = np.full(n, 0.5, "float32")
        for k in range(6):
            want = want * x[:, k] + x[:, k]
        np.testing.assert_allclose(exe(x), want, rtol=1e-5)


def test_a_gather_is_clamped_and_a_scatter_drops() -> None:
    gather = """
      %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
        start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 3>}> :
        (tensor<5x6xf32>, tensor<?x2xi32>) -> tensor<?x2x3xf32>
      return %0 : tensor<?x2x3xf32>"""
    exe = tvm_disc.build(
        module(gather, "%x: tensor<5x6xf32>, %i: tensor<?x2xi32>", "tensor<?x2x3xf32>")
    )
    places = np.array([[0, 0], [1, 2], [9, 9], [-4, 1]], "int32")
    found = exe(X, places)
    for (a, b), got in zip(np.clip(places, 0, [3, 3]), found, strict=True):
        np.testing.assert_array_equal(got, X[a : a + 2, b : b + 3])
    scatter = """
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers =
        #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1],
        index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<5x6xf32>, tensor<?x2xi32>, tensor<?x2x3xf32>) -> tensor<5x6xf32>
      return %0 : tensor<5x6xf32>"""
    arguments = "%x: tensor<5x6xf32>, %i: tensor<?x2xi32>, %u: tensor<?x2x3xf32>"
    exe = tvm_disc.build(module(scatter, arguments, "tensor<5x6xf32>"))
    want = X.copy()
    for (a, b), update in zip(places, found, strict=True):
        if 0 <= a <= 3 and 0 <= b <= 3:
            want[a : a + 2, b : b + 3] += update
    np.testing.assert_allclose(exe(X, places, found), want, rtol=1e-6)


def test_batched_gather_dims() -> None:
    body = """
      %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<
        collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
        start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> :
        (tensor<?x6xf32>, tensor<?x4x1xi32>) -> tensor<?x4xf32>
      return %0 : tensor<?x4xf32>"""
    arguments = "%x: tensor<?x6xf32>, %i: tensor<?x4x1xi32>"
    exe = tvm_disc.build(module(body, arguments, "tensor<?x4xf32>"))
    for n in (1, 3, 5):
        at = np.random.default_rng(n).integers(0, 6, (n, 4, 1)).astype("int32")
        np.testing.assert_array_equal(exe(X[:n], at), np.take_along_axis(X[:n], at[..., 0], 1))


def test_nested_conditions() -> None:
    body = """
      %0 = "stablehlo.case"(%k) ({
        %a = stablehlo.add %x, %x : tensor<?xf32>
        stablehlo.return %a : tensor<?xf32>
      }, {
        %a = stablehlo.negate %x : tensor<?xf32>
        stablehlo.return %a : tensor<?xf32>
      }, {
        stablehlo.return %x : tensor<?xf32>
      }, {
        %a = stablehlo.multiply %x, %x : tensor<?xf32>
        stablehlo.return %a : tensor<?xf32>
      }) : (tensor<i32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>"""
    exe = tvm_disc.build(module(body, "%k: tensor<i32>, %x: tensor<?xf32>", "tensor<?xf32>"))
    x = X[0]
    wanted = {0: x + x, 1: -x, 2: x, 3: x * x, 4: x * x, -1: x * x}
    for k, want in wanted.items():
        np.testing.assert_allclose(exe(np.int32(k), x), want, rtol=1e-6)


def test_initial_values_that_are_not_neutral_count() -> None:
    """A window and a reduction start from their initial value, whatever they combine."""

    def windows(x: Any) -> Any:
        largest = jax.lax.reduce_window(x, 1.0, jax.lax.max, (1, 2), (1, 2), "VALID")
        total = jax.lax.reduce_window(x, 0.5, jax.lax.add, (1, 3), (1, 1), "SAME")
        flags = jax.lax.reduce((x * 8).astype("int32"), np.int32(3), jax.lax.bitwise_or, (1,))
        return largest, total, flags, jax.lax.reduce_max(x, (1,))

    exe = tvm_disc.build(exported(windows, "n, 6"))
    for n in (1, 2, 5):
        for got, want in zip(exe(X[:n]), jax.jit(windows)(X[:n]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_maximum_with_its_index_starts_from_the_given_pair() -> None:
    body = """
      %i = stablehlo.constant dense<1.5> : tensor<f32>
      %k = stablehlo.constant dense<-7> : tensor<i32>
      %n = stablehlo.iota dim = 1 : tensor<5x6xi32>
      %0:2 = stablehlo.reduce(%x init: %i), (%n init: %k) across dimensions = [1] :
        (tensor<5x6xf32>, tensor<5x6xi32>, tensor<f32>, tensor<i32>)
        -> (tensor<5xf32>, tensor<5xi32>)
        reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
          %1 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %2 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %3 = stablehlo.or %1, %2 : tensor<i1>
          %4 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %5 = stablehlo.compare LT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %6 = stablehlo.and %4, %5 : tensor<i1>
          %7 = stablehlo.or %3, %6 : tensor<i1>
          %8 = stablehlo.select %3, %a, %b : tensor<i1>, tensor<f32>
          %9 = stablehlo.select %7, %c, %d : tensor<i1>, tensor<i32>
          stablehlo.return %8, %9 : tensor<f32>, tensor<i32>
        }
      return %0#0, %0#1 : tensor<5xf32>, tensor<5xi32>"""
    values, places = run(body, "%x: tensor<5x6xf32>", "tensor<5xf32>, tensor<5xi32>", X)
    best = X.max(1)
    np.testing.assert_array_equal(values, np.maximum(best, 1.5))
    np.testing.assert_array_equal(places, np.where(best > 1.5, X.argmax(1), -7))


def test_a_function_is_recognized_by_what_it_computes() -> None:
    """A function with the name of JAX's floor division may truncate."""
    text = """module {
      func.func private @floor_divide(%a: tensor<?xi32>, %b: tensor<?xi32>) -> tensor<?xi32> {
        %0 = stablehlo.divide %a, %b : tensor<?xi32>
        %1 = stablehlo.sign %a : tensor<?xi32>
        %2 = stablehlo.sign %b : tensor<?xi32>
        %3 = stablehlo.add %1, %2 : tensor<?xi32>
        %4 = stablehlo.subtract %3, %3 : tensor<?xi32>
        %5 = stablehlo.add %0, %4 : tensor<?xi32>
        return %5 : tensor<?xi32>
      }
      func.func @main(%x: tensor<?xi32>, %y: tensor<?xi32>) -> tensor<?xi32> {
        %0 = func.call @floor_divide(%x, %y) : (tensor<?xi32>, tensor<?xi32>) -> tensor<?xi32>
        return %0 : tensor<?xi32>
      }
    }"""
    a, b = np.array([-7, 7, 5], "int32"), np.array([2, 2, -2], "int32")
    np.testing.assert_array_equal(tvm_disc.build(text)(a, b), [-3, 3, -2])


def test_a_loop_may_write_parts_of_rows() -> None:
    def partly(x: Any) -> Any:
        def step(k: Any, y: Any) -> Any:
            return jax.lax.dynamic_update_slice(y, x[k][None, :3] * 2, (k, 0))

        return jax.lax.fori_loop(0, x.shape[0], step, x)

    exe = tvm_disc.build(exported(partly, "n, 6"))
    for n in (1, 2, 5):
        want = X[:n].copy()
        want[:, :3] *= 2
        np.testing.assert_allclose(exe(X[:n]), want, rtol=1e-6)


# -- JAX's dims and conditions ---------------------------------------------------------------------


def exported(function: Any, *shapes: str, constraints: tuple[str, ...] = ()) -> Any:
    scope = export.SymbolicScope(constraints)
    specs = [
        jax.ShapeDtypeStruct(export.symbolic_shape(s, scope=scope), np.float32) for s in shapes
    ]
    return export.export(jax.jit(function))(*specs)


def test_serialized_functions_and_files(tmp_path: Path) -> None:
    found = exported(lambda x: x * 2, "n, 6")
    data = found.serialize()
    path = tmp_path / "f.mlir"
    path.write_text(found.mlir_module())
    for source in (found, bytes(data), found.mlir_module_serialized, found.mlir_module(), path):
        np.testing.assert_array_equal(tvm_disc.build(source)(X), X * 2)


def test_conditions_of_jax_are_guards_in_its_names() -> None:
    def both(x: Any, y: Any) -> Any:
        return x[:3] + y[:3]

    exe = tvm_disc.build(exported(both, "n, 6", "2*n, 6", constraints=("n >= 3",)))
    np.testing.assert_array_equal(exe(X[:3], np.resize(X, (6, 6))), 2 * X[:3])
    with pytest.raises(DiscError, match="n >= 3"):
        exe(X[:2], X[:4])
    with pytest.raises(DiscError, match="'y'"):
        exe(X[:4], X[:4])


def test_a_dim_that_is_a_multiple() -> None:
    exe = tvm_disc.build(exported(lambda x: x.reshape(-1, 4, 6).sum(1), "4*k, 6"))
    for k in (1, 2, 9):
        x = np.resize(X, (4 * k, 6))
        np.testing.assert_allclose(exe(x), x.reshape(-1, 4, 6).sum(1), rtol=1e-5, atol=1e-6)
    with pytest.raises(GuardFailed):
        exe(X)


def test_unused_arguments_stay_inputs() -> None:
    exe = tvm_disc.build(exported(lambda unused, x: x + 1, "n", "n"))
    assert exe.inputs == ["unused", "x"]
    np.testing.assert_array_equal(exe(X[0], X[1]), X[1] + 1)


def test_inputs_have_the_paths_of_trees() -> None:
    found = export.export(jax.jit(lambda p, x: p["w"] @ x))(
        {"w": jax.ShapeDtypeStruct((3, 5), np.float32)},
        jax.ShapeDtypeStruct(export.symbolic_shape("5, n"), np.float32),
    )
    assert tvm_disc.build(found).inputs == ["p_w", "x"]


@pytest.mark.parametrize("form", ["softmax", "layer_norm", "rms_norm", "gelu", "attention"])
def test_broadcasts_leave_no_kernels(form: str) -> None:
    functions = {
        "softmax": jax.nn.softmax,
        "layer_norm": lambda x: jax.nn.standardize(x, axis=-1),
        "rms_norm": lambda x: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6),
        "gelu": jax.nn.gelu,
        "attention": lambda x: jax.nn.dot_product_attention(x, x, x),
    }
    shape = "b, s, 4, 8" if form == "attention" else "b, s"
    exe = tvm_disc.build(exported(functions[form], shape))
    assert len(exe.kernels) == 1
    x = np.random.default_rng(0).standard_normal((2, 5, 4, 8) if form == "attention" else (3, 7))
    want = functions[form](x.astype("float32"))
    np.testing.assert_allclose(exe(x.astype("float32")), want, rtol=1e-5, atol=1e-6)


def test_a_scan_stacks_its_rows() -> None:
    """No iteration copies the stacked result."""

    def scan(x: Any) -> Any:
        return jax.lax.scan(lambda c, t: (c + t, c * t), jax.numpy.zeros(6), x)

    text = tvm_disc.build(exported(scan, "n, 6")).explain()
    assert "disc.append" in text and "concat" not in text
    assert "loop_where" not in text


# -- refusals --------------------------------------------------------------------------------------


def test_damaged_sources() -> None:
    with pytest.raises(BadInput, match="expected a StableHLO module"):
        tvm_disc.build("module { stablehlo.nothing }\n")
    with pytest.raises(BadInput, match="JAX cannot read"):
        tvm_disc.build(b"no flatbuffer" * 9)
    with pytest.raises(BadInput, match="cannot read 'missing"):
        tvm_disc.build("missing.mlir")
    with pytest.raises(BadInput, match="@main"):
        tvm_disc.build("module { func.func @other() { return } }\n")


@pytest.mark.parametrize(
    ("body", "ty", "reason"),
    [
        (
            '%p = "stablehlo.partition_id"() : () -> tensor<ui32>\n%0 = stablehlo.negate %x : '
            "tensor<4xf32>",
            "tensor<4xf32>",
            "partition_id.*returns the number of a process",
        ),
        (
            "%0 = stablehlo.custom_call @mine(%x) : (tensor<4xf32>) -> tensor<4xf32>",
            "tensor<4xf32>",
            "custom call @mine",
        ),
        ("%0 = stablehlo.negate %x : tensor<4xcomplex<f32>>", "tensor<4xcomplex<f32>>", "complex"),
        ("%0 = stablehlo.negate %x : tensor<4xi4>", "tensor<4xi4>", "i4"),
        (
            '%0, %b = "stablehlo.rng_bit_generator"(%x) <{rng_algorithm = #stablehlo<rng_algorithm '
            "DEFAULT>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)",
            "tensor<2xui64>",
            "rng_bit_generator.*threefry",
        ),
    ],
)
def test_unsupported_operators_are_named(body: str, ty: str, reason: str) -> None:
    text = module(f"{body}\nreturn %0 : {ty}", f"%x: {ty}", ty)
    with pytest.raises(Unsupported, match=reason):
        tvm_disc.build(text)


def test_a_recursive_function_is_refused() -> None:
    text = """module {
      func.func private @f(%x: tensor<f32>) -> tensor<f32> {
        %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }
      func.func @main(%x: tensor<f32>) -> tensor<f32> {
        %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }
    }"""
    with pytest.raises(Unsupported, match="call itself"):
        tvm_disc.build(text)


@pytest.mark.parametrize("function", [jnp.fmod, jnp.floor_divide])
@pytest.mark.parametrize("literal", [True, False])
def test_a_chain_of_operators_in_a_guard(function: Any, literal: bool) -> None:
    """Both halves of a difference read a long chain of operators under nested conditions."""

    def f(x: Any, y: Any) -> Any:
        quotient = function(x, 0.7 if literal else y[0] + 0.1)
        return jnp.diff(jnp.maximum(quotient, y.sum()), axis=-1, prepend=0.0)

    b, s = export.symbolic_shape("b, s")
    x, y = (jax.ShapeDtypeStruct(d, jnp.float32) for d in ((b, 6), (s,)))
    exe = tvm_disc.build(export.export(jax.jit(f))(x, y))
    for n in (1, 3, 17):
        a, b = np.resize(X, (n, 6)), np.full(n, -0.1, "float32") + np.arange(n, dtype="float32") / 4
        np.testing.assert_allclose(exe(a, b), f(a, b), rtol=1e-5, atol=1e-5)


def test_an_input_of_complex_numbers_is_refused_by_name() -> None:
    spec = jax.ShapeDtypeStruct((3,), jnp.complex64)
    with pytest.raises(Unsupported, match="input x: element type complex64: expected one of float"):
        tvm_disc.build(export.export(jax.jit(lambda x: jnp.abs(x)))(spec))
