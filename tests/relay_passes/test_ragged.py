"""Ragged batches: one program for items of any lengths, equal to calls item by item."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, load, rows
from tests.relay.helpers import DATA
from tests.relay_passes.ragged_helpers import (
    DEPTH,
    HEADS,
    LENGTHS,
    attended,
    batches,
    convolution,
    cross_attention,
    heads,
    norm,
    pack,
    self_attention,
    weights,
)
from tvm_disc import Options, Ragged, relay
from tvm_disc.compile import compile_counter
from tvm_disc.errors import BadInput, BadOption, GuardFailed, Unsupported

DRAWS = int(os.environ.get("DISC_RAGGED_DRAWS", "50"))


def check(exe: Any, plain: Any, given: Sequence[list[np.ndarray]], what: object) -> None:
    """Compare a ragged call with calls item by item."""
    out = exe(*given)
    assert isinstance(out, Ragged)
    assert len(out) == len(given[0])
    for k, item in enumerate(zip(*given, strict=True)):
        if len(item[0]):
            wanted = plain(*(x[None] for x in item)).reshape(out[k].shape)
            np.testing.assert_allclose(out[k], wanted, 1e-5, 1e-5, err_msg=f"{what} {k}")


# -- small graphs ------------------------------------------------------------------------------


def _data(*rest: int, name: str = "x") -> Any:
    return rows("b", "s", *rest, name=name)


def _positions(x: Any, axis: int) -> Any:
    """Positions along an axis of ``[b, s, ...]``, as a coordinate ``[b, s, 1]``."""
    zero, one = relay.const(np.int64(0)), relay.const(np.int64(1))
    size = relay.take(relay.shape_of(x, dtype="int64"), relay.const(axis))
    line = relay.arange(zero, size, one, dtype="int64")
    shape = relay.strided_slice(relay.shape_of(x, dtype="int64"), [0], [2])
    grid = relay.broadcast_to(relay.expand_dims(line, 1, 1 - axis), shape)
    return relay.expand_dims(grid, 2)


def _by_index(x: Any) -> Any:
    """``x[arange(b)[:, None], arange(s)]``, as ONNX exporters write it."""
    coords = relay.concatenate([_positions(x, 0), _positions(x, 1)], axis=2)
    return relay.gather_nd(x, relay.transpose(coords, (2, 0, 1)))


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "element-wise": lambda x: relay.exp(x * relay.const(np.float32(0.5))) + x,
    "constant of features": lambda x: x * weights(8) + weights(1, 1, 8),
    "features": lambda x: relay.nn.relu(relay.nn.dense(x, weights(6, 8))),
    "norm": norm,
    "softmax over features": lambda x: relay.nn.softmax(x),
    "sum of features": lambda x: relay.sum(x, axis=2),
    "largest feature": lambda x: relay.max(x, axis=-1, keepdims=True) - x,
    "slice of features": lambda x: relay.strided_slice(x, [2], [7], axes=[2]),
    "concatenated features": lambda x: relay.concatenate([x, relay.tanh(x)], axis=2),
    "heads and back": lambda x: relay.reshape(
        relay.transpose(relay.exp(heads(x)), (0, 2, 1, 3)), (0, 0, 8)
    ),
    "norm of heads": lambda x: relay.reshape(
        relay.transpose(relay.nn.softmax(heads(x)) * weights(HEADS, 1, DEPTH), (0, 2, 1, 3)),
        (0, 0, 8),
    ),
    "rows by index": _by_index,
    "merged rows": lambda x: relay.nn.dense(relay.reshape(x, (-3, 0)), weights(5, 8)),
    "convolution": lambda x: relay.nn.relu(convolution(x)),
    "dilated convolution": lambda x: convolution(x, 5, (4, 4), dilation=(2,)),
    "causal convolution": lambda x: convolution(x, 4, (3, 0)) + x,
    "two convolutions": lambda x: convolution(relay.tanh(convolution(x)), 5, (2, 2)),
    "prefix sums": lambda x: relay.cumsum(x, axis=1) + x,
    "mask with a reduction": attended,
    "self attention": self_attention,
    "two layers": lambda x: norm(self_attention(norm(self_attention(x)))),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_small_graphs_equal_calls_item_by_item(name: str) -> None:
    x = _data(8)
    module = function(x, GRAPHS[name](x))
    with compile_counter() as count:
        exe = tvm_disc.build(module, ragged={"x": 1}, options=Options(verify=True))
    assert count == [1]
    plain = tvm_disc.build(module)
    rng = np.random.default_rng(1)
    for lengths in batches(rng, 6):
        check(exe, plain, [pack(lengths, rng, 8)], (name, lengths))


def test_cross_attention_has_two_lengths_per_item() -> None:
    x, y = _data(8), rows("b", "n", 8, name="y")
    module = function(x, y, cross_attention(x, y))
    exe = tvm_disc.build(module, ragged={"x": 1, "y": 1}, options=Options(verify=True))
    plain = tvm_disc.build(module)
    rng = np.random.default_rng(6)
    for count in (0, 1, 3, 8):
        lengths = rng.choice(LENGTHS, count), rng.choice(LENGTHS[1:], count)
        check(exe, plain, [pack(n, rng, 8) for n in lengths], lengths)


def test_a_batch_uses_no_more_rows_than_it_has() -> None:
    x = _data(8)
    exe = tvm_disc.build(function(x, self_attention(x)), ragged={"x": 1})
    assert [dims for dims, _ in exe.results] == [("x_rows", "8")]
    assert "ragged: queries and keys; no padding is computed" in exe.explain()


# -- bert --------------------------------------------------------------------------------------


@cache
def bert() -> tuple[Any, Any]:
    """The recorded model as a ragged and as a padded program."""
    module = load(DATA / "models" / "bert.relay")
    return tvm_disc.build(module, ragged={"ids": 1, "mask": 1}), tvm_disc.build(module)


def test_bert_equals_calls_one_by_one() -> None:
    exe, plain = bert()
    rng = np.random.default_rng(2)
    for draw in range(DRAWS):
        lengths = rng.integers(0, 65, rng.integers(0, 33) if draw % 5 == 0 else rng.integers(0, 5))
        ids = [rng.integers(0, 100, n) for n in lengths]
        masks = [rng.integers(0, 4, n) > 0 for n in lengths] if draw % 2 else ids
        masks = [np.asarray(m != 0, np.int64) for m in masks]
        check(exe, plain, [ids, masks], (draw, list(lengths)))


def test_bert_reports_requests_that_are_too_long() -> None:
    exe, _ = bert()
    good, long = np.zeros(3, np.int64), np.zeros(65, np.int64)
    with pytest.raises(GuardFailed, match=r"input 'ids' axis 1 .* must be at most 64"):
        exe([good, long, good], [good, long, good])


def test_a_ragged_program_is_saved_and_loaded(tmp_path: Path) -> None:
    exe, plain = bert()
    exe.save(tmp_path / "bert.so")
    loaded = tvm_disc.load(tmp_path / "bert.so")
    assert loaded.inputs == ["ids", "mask"]
    ids = [np.arange(n) for n in (5, 0, 9)]
    check(loaded, plain, [ids, [np.ones_like(x) for x in ids]], "loaded")


def test_a_ragged_program_is_profiled() -> None:
    exe, _ = bert()
    ids = [np.arange(n) for n in (5, 9)]
    found = exe.profile(ids, ids, repeat=3)
    assert "attention" in str(found)


# -- interfaces --------------------------------------------------------------------------------


@cache
def doubled() -> Any:
    """``x + x`` over ragged ``[b, s, 3]``."""
    x = rows("b", "s", 3)
    return tvm_disc.build(function(x, x + x), ragged={"x": 1})


def test_packed_values_are_not_copied() -> None:
    values = np.arange(12, dtype="float32").reshape(4, 3)
    batch = Ragged(values, [0, 1, 1, 4])
    out = doubled()(batch)
    assert np.shares_memory(out.offsets, batch.offsets)
    np.testing.assert_array_equal(out.values, values * 2)
    assert [len(item) for item in out] == [1, 0, 3] == list(batch.lengths)
    assert repr(out) == "Ragged(3 items, float32[4, 3])"
    np.testing.assert_array_equal(out[-1], values[1:] * 2)


def test_a_tensor_is_a_batch_of_equal_lengths() -> None:
    value = np.arange(24, dtype="float32").reshape(2, 4, 3)
    np.testing.assert_array_equal(doubled()(value)[1], value[1] * 2)


def test_values_and_offsets_may_be_given_separately() -> None:
    values = np.ones((5, 3), "float32")
    out = doubled()(values, np.asarray([0, 2, 5]))
    assert [len(x) for x in out] == [2, 3]


def test_nested_tensors_go_in_and_out() -> None:
    torch = pytest.importorskip("torch")
    items = [torch.ones(2, 3), torch.zeros(0, 3), torch.full((4, 3), 2.0)]
    nested = torch.nested.nested_tensor(items, layout=torch.jagged)
    out = doubled()(nested).nested()
    assert out.layout == torch.jagged
    for found, item in zip(out.unbind(), items, strict=True):
        assert torch.equal(found, item * 2)
    assert torch.equal(doubled()(items)[2], items[2] * 2)


def test_a_model_with_inputs_that_are_not_ragged() -> None:
    x, y = rows("b", "s", 3), rows("b", 1, 1, name="y")
    module = function(x, y, x * relay.concatenate([y, relay.exp(y), y], axis=2))
    exe, plain = tvm_disc.build(module, ragged={"x": 1}), tvm_disc.build(module)
    rng = np.random.default_rng(4)
    items, scale = pack([3, 0, 5], rng, 3), rng.standard_normal((3, 1, 1)).astype("float32")
    out = exe(items, scale)
    for k in (0, 2):
        wanted = plain(items[k][None], scale[k : k + 1])[0]
        np.testing.assert_allclose(out[k], wanted, rtol=1e-6)


def test_positions_restart_in_every_item() -> None:
    x = rows("b", "s", 3)
    table = relay.const(np.arange(192, dtype="float32").reshape(64, 3))
    length = relay.take(relay.shape_of(x), relay.const(1))
    begin, one = relay.const(0), relay.const(1)
    position = relay.arange(begin, relay.cast(length, "int32"), one, dtype="int32")
    module = function(x, x + relay.take(table, position, axis=0))
    exe = tvm_disc.build(module, ragged={"x": 1})
    for lengths in ([4, 2], [], [1, 0, 64]):
        zeros = [np.zeros((n, 3), "float32") for n in lengths]
        for n, item in zip(lengths, exe(zeros), strict=True):
            np.testing.assert_array_equal(item, np.arange(3 * n).reshape(n, 3))


# -- refusals ----------------------------------------------------------------------------------

BAD_ARGUMENTS: list[tuple[Any, str]] = [
    (["x"], r"ragged: expected a mapping of inputs to axes, such as \{\"ids\": 1\}, found list"),
    ({1: 1}, "ragged: expected the name of an input, found 1"),
    ({"x": 0}, r"ragged: input 'x': expected axis 1 \(axis 0 counts the items\), found 0"),
    ({"x": True}, "ragged: input 'x': expected axis 1 .* found True"),
    ({"z": 1}, r"ragged: no input is called 'z'; the inputs are \['x', 'flat', 'fixed'\]"),
    ({"x": 1, "z": 1}, "ragged: no input is called 'z'; the inputs are"),
    ({"fixd": 1}, "ragged: no input is called 'fixd'; did you mean 'fixed'\\?; the inputs are"),
    ({"x": 1, "Flat": 1}, "ragged: no input is called 'Flat'; did you mean 'flat'"),
    ({"flat": 1}, "ragged: input 'flat': expected a tensor of rank 2 or more"),
    ({"fixed": 1}, "ragged: input 'fixed': expected a symbol as the size of axis 1, found 4"),
]


@pytest.mark.parametrize(("ragged", "message"), BAD_ARGUMENTS)
def test_bad_declarations_are_refused(ragged: Any, message: str) -> None:
    x, flat, fixed = _data(8), rows("n", name="flat"), rows("k", 4, name="fixed")
    module = function(x, flat, fixed, relay.Tuple([x, flat, fixed]))
    with pytest.raises(BadInput, match=message):
        tvm_disc.build(module, ragged=ragged)


def test_options_that_do_not_fit_are_refused() -> None:
    x = _data(8)
    module = function(x, relay.exp(x))
    with pytest.raises(BadOption, match="state: a ragged program cannot extend caches"):
        tvm_disc.build(module, ragged={"x": 1}, options=Options(state=["x"]))
    with pytest.raises(BadOption, match="fuse: a ragged program requires fusion"):
        tvm_disc.build(module, ragged={"x": 1}, options=Options(fuse=False))
    with pytest.raises(Unsupported, match="ragged: expected a CPU target, found a GPU"):
        tvm_disc.build(module, ragged={"x": 1}, target="cuda")


def _length(x: Any) -> Any:
    return relay.cast(relay.take(relay.shape_of(x), relay.const(1)), "float32")


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sum over items": (
        lambda x: relay.sum(x, axis=0),
        "ragged: sum.*it combines elements of different items",
    ),
    "slice of the sequence": (
        lambda x: relay.strided_slice(x, [0], [2], axes=[1]),
        "ragged: .*it slices the ragged axis",
    ),
    "items reversed": (
        lambda x: relay.reverse(x, axis=0),
        "ragged: .*it combines elements of different items",
    ),
    "sorted": (
        lambda x: relay.sort(x, axis=1),
        "ragged: .*it is not supported on items of different lengths",
    ),
    "gram matrix": (
        lambda x: relay.nn.batch_matmul(x, x),
        "ragged: matmul.*a matmul of two ragged values must be part of an attention",
    ),
    "length as a number": (
        lambda x: x / _length(x),
        "ragged: .*it computes with the length|its elements may depend on the length",
    ),
    "transposed result": (
        lambda x: relay.transpose(x, (0, 2, 1)),
        r"ragged: result 0: expected the item axis and the ragged axis first, found \(b, 8, s\)",
    ),
    "prefix sums over items": (
        lambda x: relay.cumsum(x, axis=0),
        "ragged: .*cumsum.*it combines elements of different items",
    ),
    "read by index": (
        lambda x: relay.take(x, relay.const(np.asarray([0, 1])), axis=0),
        "ragged: take.*it gathers from a ragged value",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operators_that_cannot_be_ragged_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    x = _data(8)
    with pytest.raises(Unsupported, match=message):
        tvm_disc.build(function(x, make(x)), ragged={"x": 1})


def test_lengths_that_may_differ_are_refused() -> None:
    x, y = _data(8), rows("b", "n", 8, name="y")
    joined = relay.concatenate([x, y], axis=2)
    out = relay.Tuple([relay.exp(x), relay.exp(y)])
    exe = tvm_disc.build(function(x, y, out), ragged={"x": 1, "y": 1})
    rng = np.random.default_rng(5)
    first, second = exe(pack([1, 4], rng, 8), pack([3, 0], rng, 8))
    assert [list(r.lengths) for r in (first, second)] == [[1, 4], [3, 0]]
    exe = tvm_disc.build(function(x, y, joined), ragged={"x": 1, "y": 1})
    with pytest.raises(
        BadInput, match=r"'y': expected items of the same lengths as input 'x', \[1\], found \[3\]"
    ):
        exe(pack([1], rng, 8), pack([3], rng, 8))


def test_another_input_of_the_same_length_is_refused() -> None:
    x, bias = _data(8), rows("s", 8, name="bias")
    with pytest.raises(Unsupported, match="axis 0 of input 'bias' has the length of 'x'"):
        tvm_disc.build(function(x, bias, x + bias), ragged={"x": 1})


BAD_OFFSETS = ([0, 3], [1, 4], [0, 3, 2, 4], [0, 5, 4])


@pytest.mark.parametrize("offsets", BAD_OFFSETS)
def test_wrong_offsets_are_reported(offsets: list[int]) -> None:
    values = np.ones((4, 3), "float32")
    with pytest.raises(GuardFailed, match="offsets of 'x' must begin with 0, must not decrease"):
        doubled()(Ragged(values, offsets))
    assert len(doubled()(Ragged(values, [0, 4]))) == 1


BAD_CALLS: list[tuple[Any, str]] = [
    (3, "input 'x': expected a list of tensors, a tvm_disc.Ragged, a nested tensor, or a tensor"),
    (np.ones((4, 3), "float32"), "input 'x': expected a list of tensors, a tvm_disc.Ragged"),
    ([np.ones((2, 3)), np.ones((2, 4))], "item 1 has the shape .2, 4., item 0 .2, 3."),
    ([np.ones((2, 3)), "text"], "input 'x': item 1: expected a tensor, found 'text'"),
]


@pytest.mark.parametrize(("value", "message"), BAD_CALLS)
def test_bad_batches_are_refused(value: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        doubled()(value)


def test_bad_ragged_values_are_refused() -> None:
    with pytest.raises(BadInput, match="Ragged: expected a tensor of values, found"):
        Ragged([1], [0, 1])
    with pytest.raises(BadInput, match="Ragged: expected offsets as a list of integers"):
        Ragged(np.ones(1), [])
    with pytest.raises(BadInput, match=r"Ragged\.pack: expected at least one item"):
        Ragged.pack([])
    with pytest.raises(BadInput, match="out: a ragged program allocates its results"):
        doubled()([np.ones((1, 3), "float32")], out=np.ones((1, 3), "float32"))
