"""Quantised tensors and products, of which every integer is ONNX's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import TypeMismatch

from .helpers import F32, I8, U8, build, model, node, normal, same


def test_there_and_back_per_channel() -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
    ]
    made = model(
        nodes, {"x": (F32, ["n", 3, "k"])}, results=["q", "y"],
        s=np.array([0.1, 0.2, 0.5], "float32"), z=np.array([3, -4, 0], "int8"),
    )  # fmt: skip
    same(made, *[[normal(n, 3, k) * 20] for n, k in ((1, 1), (2, 7), (3, 16), (5, 2), (0, 3))])


def test_by_blocks() -> None:
    nodes = [node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1, block_size=2)]
    made = model(
        nodes, {"q": (U8, ["n", 4])},
        s=np.array([[0.5, 2.0]], "float32").repeat(1, 0), z=np.array([[1, 7]], "uint8"),
    )  # fmt: skip
    rng = np.random.default_rng(0)

    def want(q: np.ndarray) -> np.ndarray:
        scale = np.array([0.5, 0.5, 2.0, 2.0], "float32")
        return (q.astype("float32") - np.array([1, 1, 7, 7], "float32")) * scale

    same(made, *[[rng.integers(0, 255, (1, 4)).astype("uint8")] for _ in range(5)], want=want)


def test_halves_go_to_the_even_number() -> None:
    made = model([node("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": (F32, ["n"])},
                 s=np.float32(2), z=np.uint8(128))  # fmt: skip
    x = np.array([0, 1, 3, 5, -1, -3, 254, 257, -400, 9], "float32")
    same(made, [x], [x[:1]], [x[2:5]], [x[:0]], [np.repeat(x, 13)])


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_products_of_bytes(kind: str) -> None:
    code = U8 if kind == "uint8" else I8
    nodes = [
        node("MatMulInteger", ["a", "b", "za"], ["i"]),
        node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    made = model(
        nodes, {"a": (code, ["m", "k"])}, results=["i", "y"],
        b=rng.integers(low, high, (5, 4)).astype(kind), za=np.array(3, kind), zb=np.array(1, kind),
        sa=np.float32(0.02), sb=np.float32(0.03), sy=np.float32(0.5), zy=np.array(7, kind),
    )  # fmt: skip
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    cases = [[rng.integers(low, high, (m, 5)).astype(kind)] for m in (1, 2, 7, 16, 33)]
    same(made, *cases)


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize(("transposed", "alpha"), [((0, 1), 1.0), ((1, 0), 0.5)])
def test_gemm_of_bytes(transposed: tuple[int, int], alpha: float, quantized: bool) -> None:
    rng, (left, right) = np.random.default_rng(0), transposed
    names = ["a", "sa", "za", "b", "sb", "zb", "c", *["sy", "zy"] * quantized]
    w = rng.integers(-128, 127, (70, 6)).astype("int8")
    scales = rng.uniform(0.01, 0.02, 6).astype("float32")
    bias = rng.integers(-999, 999, 6).astype("int32")
    made = model(
        [node("QGemm", names, ["y"], domain="com.microsoft", transA=left, transB=right,
              alpha=alpha)],
        {"a": (U8, ["m", 70] if not left else [70, "m"])}, domains={"com.microsoft": 1},
        b=w.T if right else w, c=bias, sa=np.float32(0.02), za=np.uint8(120), sb=scales,
        zb=np.zeros(6, "int8"), sy=np.float32(0.3), zy=np.uint8(128),
    )  # fmt: skip

    def want(a: np.ndarray) -> np.ndarray:
        total = ((a.T if left else a).astype("int64") - 120) @ w.astype("int64") + bias
        factor = np.float32(0.02) * scales * np.float32(alpha)
        if not quantized:
            return total.astype("float32") * factor
        real = total.astype("float32") * (factor / np.float32(0.3))
        return np.clip(np.rint(real) + 128, 0, 255).astype("uint8")

    given = [rng.integers(0, 256, (m, 70)).astype("uint8") for m in (0, 1, 2, 7, 16, 33)]
    same(made, *[[a.T if left else a] for a in given], want=want)


def test_convolution_of_bytes() -> None:
    rng = np.random.default_rng(0)
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    made = model(
        [node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])], {"x": (U8, ["n", 2, "h", "k"])},
        w=rng.integers(-128, 127, (3, 2, 3, 3)).astype("int8"), sx=np.float32(0.02),
        zx=np.uint8(120),
        sw=np.array([0.01, 0.02, 0.03], "float32"), zw=np.zeros(3, "int8"), sy=np.float32(0.2),
        zy=np.uint8(128), b=rng.integers(-99, 99, 3).astype("int32"),
    )  # fmt: skip
    cases = [[rng.integers(0, 255, s).astype("uint8")] for s in
             ((1, 2, 1, 1), (2, 2, 5, 3), (1, 2, 16, 7), (3, 2, 4, 4), (1, 2, 9, 9))]  # fmt: skip

    def want(x: np.ndarray) -> np.ndarray:
        wide = np.pad(x.astype("int64") - 120, [(0, 0), (0, 0), (1, 1), (1, 1)])
        store = {t.name: onnx_array(t) for t in made.graph.initializer}
        total = np.zeros((len(x), 3, *x.shape[2:]), "int64")
        for i in range(3):
            for j in range(3):
                part = wide[:, :, i : i + x.shape[2], j : j + x.shape[3]]
                total += np.einsum("nchw,oc->nohw", part, store["w"][:, :, i, j].astype("int64"))
        total += store["b"].reshape(1, 3, 1, 1)
        factor = np.float32(0.02) * store["sw"] / np.float32(0.2)
        real = total.astype("float32") * factor.reshape(1, 3, 1, 1)
        return np.clip(np.rint(real) + 128, 0, 255).astype("uint8")

    same(made, *cases, want=want)


def onnx_array(tensor: Any) -> np.ndarray:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def test_dynamic_scales() -> None:
    made = model([node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": (F32, ["n"])})
    same(made, *[[normal(n, seed=n) * 3] for n in (1, 2, 7, 64, 1000)])


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        (
            node("QuantizeLinear", ["x", "s", "f"], ["y"]),
            TypeMismatch,
            r"QuantizeLinear 'y': input 2 \('y_zero_point'\): .* found float32",
        ),
        (node("QuantizeLinear", ["x", "v"], ["y"], axis=3), TypeMismatch, "axis 3 is out of range"),
    ],
)
def test_what_does_not_fit_is_refused(made: Any, kind: Any, words: str) -> None:
    stored = {"s": np.float32(1), "f": np.float32(0), "v": np.ones(2, "float32")}
    used = {k: v for k, v in stored.items() if k in made.input}
    with pytest.raises(kind, match=words):
        build(model([made], {"x": (F32, ["n", 2])}, **used))


@pytest.mark.parametrize("block", [0, 32])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_weights_of_products_stay_bytes(dtype: str, block: int) -> None:
    """One row of such a product reads a quarter of the memory: nothing may expand them before."""
    rng, rows, columns = np.random.default_rng(0), 256, 320
    low = 0 if dtype == "uint8" else -127
    q = rng.integers(low, low + 255, (rows, columns)).astype(dtype)
    scales = rng.uniform(0.01, 0.1, (rows // block, columns) if block else columns)
    zeros = rng.integers(low + 100, low + 120, scales.shape).astype(dtype)
    made = model(
        [node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0 if block else 1, block_size=block),
         node("MatMul", ["x", "w"], ["y"])],
        {"x": (F32, ["m", rows])}, opset=21, q=q, s=scales.astype("float32"), z=zeros,
    )  # fmt: skip
    assert "B scale" in build(made).explain()
    wide = [np.repeat(x, block, 0) if block else x for x in (zeros.astype("float64"), scales)]
    weights = (q - wide[0]) * wide[1].astype("float32")
    cases = [[normal(m, rows)] for m in (1, 2, 5, 16, 33)]
    same(made, *cases, want=lambda x: x @ weights, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("given", [False, True])
def test_weights_of_few_bits_stay_bytes(bits: int, given: bool) -> None:
    rng, rows, columns, block = np.random.default_rng(1), 256, 320, 32
    q = rng.integers(0, 1 << bits, (columns, rows // block, block)).astype("uint8")
    zeros = rng.integers(0, 1 << bits, q.shape[:2]).astype("uint8")
    scales = rng.uniform(0.01, 0.1, q.shape[:2]).astype("float32")

    def packed(x: np.ndarray) -> np.ndarray:
        return x if bits == 8 else x[..., ::2] | (x[..., 1::2] << 4)

    more = {"z": packed(zeros).reshape(-1)} if given else {}
    made = model(
        [node("MatMulNBits", ["x", "q", "s", *more], ["y"], domain="com.microsoft", K=rows,
              N=columns, bits=bits, block_size=block)],
        {"x": (F32, ["m", rows])}, domains={"com.microsoft": 1}, q=packed(q),
        s=scales.reshape(-1), **more,
    )  # fmt: skip
    assert "B scale" in build(made).explain()
    origin = zeros.astype("float64") if given else np.full(zeros.shape, 1 << (bits - 1))
    weights = ((q - origin[..., None]) * scales[..., None]).reshape(columns, rows)
    cases = [[normal(m, rows)] for m in (1, 2, 5, 16, 33)]
    same(made, *cases, want=lambda x: x @ weights.T, rtol=1e-4, atol=1e-3)
