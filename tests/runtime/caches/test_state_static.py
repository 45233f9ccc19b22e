"""Caches of a fixed size in models of PyTorch and ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc.errors import BadOption, IndexOutside

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

RNG = np.random.default_rng(0)
DEPTH, SLOTS = 16, 64
Array = np.ndarray[Any, Any]


class Step(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Attention over a static cache, of which new rows replace those at their positions."""

    def forward(self, q: Any, k: Any, v: Any, at: Any, past_k: Any, past_v: Any) -> Any:
        keys, values = (p.index_copy(2, at, x) for p, x in ((past_k, k), (past_v, v)))
        mask = torch.arange(keys.shape[2])[None, :] <= at[:, None]
        mixed = torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return mixed, keys, values


def exported(heads: int) -> Any:
    new = [torch.zeros(1, heads, 3, DEPTH) for _ in "qkv"]
    past = [torch.zeros(1, heads, SLOTS, DEPTH) for _ in "kv"]
    n = torch.export.Dim("n", min=1, max=SLOTS)
    dims = ({2: n}, {2: n}, {2: n}, {0: n}, None, None)
    return torch.export.export(Step(), (*new, torch.arange(3), *past), dynamic_shapes=dims)


@pytest.mark.parametrize("heads", [1, 3])
def test_index_copy(heads: int) -> None:
    program = exported(heads)
    exe = tvm_disc.build(program, options=tvm_disc.Options(state=["past_*"]))
    assert sum("update" in name for name in exe.launches) == 2
    assert not any("scatter" in name for name in exe.launches)
    state, caches = exe.state(), [torch.zeros(1, heads, SLOTS, DEPTH) for _ in "kv"]
    first = 0
    for count in (7, 1, 1, 13, 1, 40):
        given = [torch.randn(1, heads, count, DEPTH) for _ in "qkv"]
        at = torch.arange(first, first + count)
        first += count
        want, *caches = Step()(*given, at, *caches)
        found = state(*(x.numpy() for x in (*given, at)))
        np.testing.assert_allclose(found, want.numpy(), rtol=1e-5, atol=1e-5)
        for name, cache in zip(("past_k", "past_v"), caches, strict=True):
            np.testing.assert_array_equal(state.cache(name), cache.numpy())
    # The check of the positions precedes both updates.
    before = [state.cache(name) for name in ("past_k", "past_v")]
    with pytest.raises(IndexOutside, match="index_copy"):
        state(*(x.numpy() for x in (*given, at + 5)))
    for name, cache in zip(("past_k", "past_v"), before, strict=True):
        np.testing.assert_array_equal(state.cache(name), cache)


class Buffers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module that holds its cache, as ``transformers`` does, and writes into it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("past", torch.zeros(1, 2, 8, 4))

    def forward(self, k: Any, at: Any) -> Any:
        self.past.index_copy_(2, at, k)
        return self.past.sum(2)


def test_buffers_of_a_module() -> None:
    module = Buffers()
    n = torch.export.Dim("n", min=1, max=8)
    args = torch.zeros(1, 2, 3, 4), torch.arange(3)
    program = torch.export.export(module, args, dynamic_shapes=({2: n}, {0: n}))
    exe = tvm_disc.build(program, options=tvm_disc.Options(state=["past"]))
    state = exe.state()
    for count in (3, 1, 8):
        k, at = torch.randn(1, 2, count, 4), torch.randperm(8)[:count]
        want = module(k, at).numpy()
        np.testing.assert_allclose(state(k.numpy(), at.numpy()), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(state.cache("past"), module.past.numpy())


def onnx_model(operator: str, inputs: dict[str, tuple[str, list[Any]]], **attrs: Any) -> Any:
    """A cache ``past`` that an operator updates, and the sum of it."""
    kinds = {"float": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64}
    make = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node(operator, ["past", *inputs], ["now"], **attrs),
        onnx.helper.make_node("ReduceSum", ["now"], ["total"], keepdims=0),
    ]
    shape = [2, 9, 4]
    given = [make("past", onnx.TensorProto.FLOAT, shape)]
    given += [make(name, kinds[kind], dims) for name, (kind, dims) in inputs.items()]
    results = [make("total", kinds["float"], []), make("now", kinds["float"], shape)]
    graph = onnx.helper.make_graph(nodes, "step", given, results)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)])


@pytest.mark.parametrize("how", ["none", "add", "max"])
def test_scatter_elements(how: str) -> None:
    dims: list[Any] = [2, "n", 4]
    inputs = {"at": ("int64", dims), "new": ("float", dims)}
    model = onnx_model("ScatterElements", inputs, axis=1, reduction=how)
    exe = tvm_disc.build(model, options=tvm_disc.Options(state=["past"]))
    plain, state = tvm_disc.build(model), exe.state()
    cache = np.zeros((2, 9, 4), "float32")
    for count in (1, 3, 0, 20):
        at = RNG.integers(-9, 9, (2, count, 4))
        new = RNG.standard_normal((2, count, 4)).astype("float32")
        want, cache = plain(cache, at, new)
        np.testing.assert_allclose(state(at, new), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(state.cache("past"), cache)


def test_scatter_nd() -> None:
    inputs = {"at": ("int64", ["n", 2]), "new": ("float", ["n", 4])}
    model = onnx_model("ScatterND", inputs)
    exe = tvm_disc.build(model, options=tvm_disc.Options(state=["past"]))
    plain, state = tvm_disc.build(model), exe.state()
    cache = np.zeros((2, 9, 4), "float32")
    for count in (1, 3, 0, 20):
        at = np.stack([RNG.integers(-2, 2, count), RNG.integers(-9, 9, count)], axis=1)
        new = RNG.standard_normal((count, 4)).astype("float32")
        want, cache = plain(cache, at, new)
        np.testing.assert_allclose(state(at, new), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(state.cache("past"), cache)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, 2])
def test_tensor_scatter(mode: str, axis: int) -> None:
    dims: list[Any] = [2, 9, 4]
    dims[axis] = "n"
    inputs = {"new": ("float", dims), "first": ("int64", [2])}
    model = onnx_model("TensorScatter", inputs, mode=mode, axis=axis)
    plain = tvm_disc.build(model)
    owning, donating = (
        tvm_disc.build(model, options=tvm_disc.Options(**{option: ["past"]}))
        for option in ("state", "donate")
    )
    assert [n for n in owning.launches if "where" in n] == []
    assert sum("update_slice" in name for name in owning.launches) == 1
    state, donated = owning.state(), np.zeros((2, 9, 4), "float32")
    cache = donated.copy()
    slots = cache.shape[axis]
    for count in (1, 3, slots, 1, 2):
        shape = [count if a == axis else d for a, d in enumerate((2, 9, 4))]
        new = RNG.standard_normal(shape).astype("float32")
        first = RNG.integers(0, slots - (count if mode == "linear" else 0) + 1, 2)
        want, cache = plain(cache, new, first)
        np.testing.assert_allclose(state(new, first), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(state.cache("past"), cache)
        _, now = donating(donated, new, first)
        assert np.shares_memory(now, donated)
        np.testing.assert_array_equal(now, cache)


def test_rows_outside_of_a_cache_are_dropped() -> None:
    inputs = {"new": ("float", [2, "n", 4]), "first": ("int64", [2])}
    model = onnx_model("TensorScatter", inputs, axis=1)
    plain = tvm_disc.build(model)
    state = tvm_disc.build(model, options=tvm_disc.Options(state=["past"])).state()
    cache = np.zeros((2, 9, 4), "float32")
    for first in ([-3, 8], [9, -9], [2**40, 0], [-(2**40), 5]):
        new = RNG.standard_normal((2, 5, 4)).astype("float32")
        _, cache = plain(cache, new, np.array(first))
        state(new, np.array(first))
        np.testing.assert_array_equal(state.cache("past"), cache)


def test_a_tensor_that_is_selected_from_is_no_cache() -> None:
    """The cache is read by another operator, so that nothing may overwrite it before."""
    model = onnx_model("TensorScatter", {"new": ("float", [2, "n", 4])}, axis=1)
    model.graph.node[1].input[0] = "past"
    with pytest.raises(BadOption, match="it is also read by operator 'sum'"):
        tvm_disc.build(model, options=tvm_disc.Options(state=["past"]))
