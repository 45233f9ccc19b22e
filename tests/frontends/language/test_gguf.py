"""GGUF files of the LLaMA and Qwen families: weights, scores and words beside NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf = pytest.importorskip("gguf", reason="needs the package gguf")

import tvm_disc  # noqa: E402
from tests.frontends.language.gguf_files import K_HALVES, TinyModel  # noqa: E402
from tvm_disc.errors import BadInput, BadOption, Unsupported  # noqa: E402
from tvm_disc.frontends.gguf.blocks import FORMATS, READERS, matrix  # noqa: E402

HALVES = {**K_HALVES, "Q4_1": (0, 2)}
EXACT = {"Q4_0", "Q5_0", "Q8_0", "Q6_K"}


@pytest.mark.parametrize("kind", READERS)
def test_numbers_of_blocks(kind: str) -> None:
    """Random bytes: numbers times scales are what ``gguf`` computes, bit by bit if no minimum is
    added.
    """
    rng = np.random.default_rng(0)
    size, _ = READERS[kind]
    raw = rng.integers(0, 256, (5, 3, size), dtype=np.uint8)
    for at in HALVES.get(kind, (0,)):
        half = rng.standard_normal((5, 3)).astype("float16")
        half[0, :2] = 0  # constant groups
        raw[:, :, at : at + 2] = half.view(np.uint8).reshape(5, 3, 2)
    if kind in ("Q4_K", "Q5_K", "Q4_1"):
        raw[0, 1, 2:4] = np.array([0.5], "float16").view(np.uint8)
    raw = raw.reshape(5, -1)
    want = gguf.dequantize(raw, gguf.GGMLQuantizationType[kind])
    found = matrix(raw, kind)
    assert found.numbers.dtype.itemsize == 1
    assert found.numbers.shape[-1] == (16 if kind == "Q6_K" else 32)
    if kind in EXACT:
        np.testing.assert_array_equal(found.real(), want)
    else:
        np.testing.assert_allclose(found.real(), want, rtol=0, atol=1e-6 * np.abs(want).max())
        np.testing.assert_array_equal(found.real()[0, :32], want[0, :32])


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_floats(kind: str) -> None:
    value = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    raw = gguf.quants.quantize(value, gguf.GGMLQuantizationType[kind])
    want = gguf.dequantize(raw, gguf.GGMLQuantizationType[kind]).reshape(4, 8)
    np.testing.assert_array_equal(np.asarray(matrix(raw, kind)).astype("float32"), want)


MODELS: dict[str, Any] = {
    "llama": {"layers": 2},
    "qwen2": {"name": "qwen2"},
    "qwen3": {"name": "qwen3", "base": 1e6},
    "one group of heads, tied": {"groups": 1, "tied": True},
    "as many groups as heads": {"groups": 4},
    "positions scaled": {"keys": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}},
    "factors of angles": {"rope_factors": np.linspace(1, 8, 32, dtype="float32")},
    "Q4_0": {"kind": "Q4_0", "kinds": {"token_embd.weight": "Q8_0", "output.weight": "Q6_K"}},
    "Q8_0": {"name": "qwen2", "kind": "Q8_0"},
    "Q4_1 and Q5_0": {"kind": "Q4_1", "kinds": {"ffn_up.weight": "Q5_0"}},
    "Q4_K": {"kind": "Q4_K", "kinds": {"ffn_down.weight": "Q6_K", "attn_v.weight": "Q5_K"}},
    "BF16": {"kind": "BF16", "kinds": {"ffn_up.weight": "F16"}},
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_scores_and_words(name: str, tmp_path: Path) -> None:
    """Scores of a batch of prompts of different lengths, then greedy words."""
    tiny = TinyModel(**MODELS[name])
    lm = tvm_disc.language_model(tiny.write(tmp_path / "tiny.gguf"))
    assert (lm.vocabulary, lm.positions) == (tiny.words, tiny.positions)
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, tiny.words, n).tolist() for n in (1, 13, 6)]
    texts = [list(p) for p in prompts]
    for words in tvm_disc.generate(lm, prompts, 5, chunk=7):
        for text, word in zip(texts, words, strict=True):
            text.append(int(word))
    for prompt, text in zip(prompts, texts, strict=True):
        for n in range(len(prompt), len(text)):
            scores = tiny.scores(text[:n])[-1]
            assert scores.max() - scores[text[n]] < 1e-3 * np.abs(scores).max()
    for prompt in prompts:
        want = tiny.scores(prompt)[-1]
        _, found = lm.read(np.array([prompt]), np.ones((1, len(prompt)), int))
        np.testing.assert_allclose(found[0], want, rtol=0, atol=2e-5 * np.abs(want).max())


def test_weights_keep_their_bits(tmp_path: Path) -> None:
    """Matrices of products are stored in four and eight bits."""
    sizes = {}
    for kind in ("Q8_0", "Q4_0"):
        tiny = TinyModel(words=64, kind=kind, kinds={"embd.weight": "F32"})
        exe = tvm_disc.build(tiny.write(tmp_path / f"{kind}.gguf"))
        assert exe._constants is not None
        sizes[kind] = len(exe._constants)
    narrow = 2 * 256 * 256 + 3 * 256 * 512  # elements of matrices that are not small
    small = 2 * 64 * 256 + 2 * 128 * 256  # and of those that are: they become float32
    assert sizes["Q8_0"] < 1.4 * narrow + 4 * small
    assert 0.45 * narrow < sizes["Q8_0"] - sizes["Q4_0"] < 0.55 * narrow


def test_caches_are_results_without_a_state(tmp_path: Path) -> None:
    """``build`` of a file is a step that returns its caches."""
    tiny = TinyModel()
    exe = tvm_disc.build(str(tiny.write(tmp_path / "tiny.gguf")))
    assert exe.inputs == ["ids", "mask", "positions", "past_0", "past_1", "past_2"]
    ids = np.array([[5, 9, 2]])
    empty = np.zeros((1, 2, 0, 64), "float32")
    scores, seen, keys, values = exe(
        ids, np.ones_like(ids), np.arange(3)[None], np.ones((1, 0), int), empty, empty
    )
    want = tiny.scores(ids[0].tolist())[-1]
    np.testing.assert_allclose(scores[0], want, rtol=0, atol=2e-5 * np.abs(want).max())
    assert seen.shape == (1, 3) and keys.shape == values.shape == (1, 2, 3, 64)


@pytest.fixture(scope="module")
def tiny() -> TinyModel:
    return TinyModel(words=64)


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("embedding_length", "the key llama.embedding_length is missing"),
        ("blk.0.ffn_up.weight", "the tensor blk.0.ffn_up.weight is missing"),
        ("output_norm.weight", "the tensor output_norm.weight is missing"),
    ],
)
def test_something_is_missing(tiny: TinyModel, tmp_path: Path, without: str, message: str) -> None:
    path = tiny.write(tmp_path / "tiny.gguf", without)
    with pytest.raises(BadInput) as failed:
        tvm_disc.build(path)
    assert str(failed.value).startswith(f"{path}: {message}")


VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": (
        {"name": "gemma2"},
        "the architecture 'gemma2' is not supported; expected one of llama, qwen2, qwen3",
    ),
    "experts": ({"keys": {"expert_count": 8}}, "llama.expert_count: expected 0, found 8"),
    "yarn": (
        {"keys": {"rope.scaling.type": "yarn"}},
        "llama.rope.scaling.type: expected none or linear, found yarn",
    ),
    "part of a head turned": (
        {"keys": {"rope.dimension_count": 32}},
        "llama.rope.dimension_count: expected 64, found 32",
    ),
    "window": (
        {"keys": {"attention.sliding_window": 32}},
        "llama.attention.sliding_window: expected at least 64, found 32",
    ),
    "format": (
        {"kinds": {"ffn_up.weight": "Q5_1"}},
        f"tensor blk.0.ffn_up.weight has the format Q5_1; supported are {', '.join(FORMATS)}",
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_not_supported(tmp_path: Path, name: str) -> None:
    sizes, message = VARIANTS[name]
    path = TinyModel(**{"words": 64, **sizes}).write(tmp_path / "tiny.gguf")
    with pytest.raises(Unsupported) as failed:
        tvm_disc.language_model(path)
    assert str(failed.value).endswith(message) and str(failed.value).startswith(str(path))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("groups", 3, "expected a multiple of the number of key-value heads"),
        ("inner", 0, "llama.feed_forward_length: expected a positive number, found 0"),
        ("width", 512, "tensor token_embd.weight: expected the shape [?, 512], found [64, 256]"),
    ],
)
def test_sizes_that_do_not_fit(tmp_path: Path, key: str, value: int, message: str) -> None:
    made = TinyModel(words=64)
    setattr(made, key, value)
    path = made.write(tmp_path / "tiny.gguf")
    with pytest.raises(BadInput) as failed:
        tvm_disc.build(path)
    assert str(failed.value).startswith(f"{path}: {message}")


def test_damaged_files(tiny: TinyModel, tmp_path: Path) -> None:
    """Any prefix of a file, and a file with other bytes, is refused with the file's name."""
    data = tiny.write(tmp_path / "tiny.gguf").read_bytes()
    path = tmp_path / "part.gguf"
    for size in (0, 3, 24, 100, 400, 1000, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(BadInput) as failed:
            tvm_disc.build(path)
        assert str(failed.value).startswith(f"{path}: ")
    path.write_bytes(b"GGML" + data[4:])
    with pytest.raises(BadInput, match="not a complete GGUF file: ValueError: GGUF magic invalid"):
        tvm_disc.build(path)
    with pytest.raises(BadInput, match=r"none\.gguf: No such file or directory"):
        tvm_disc.language_model(tmp_path / "none.gguf")


@pytest.mark.parametrize("kept", ["float16", "bfloat16", "int8"])
def test_caches_of_fewer_bits(kept: str, tmp_path: Path) -> None:
    model = TinyModel(layers=2)
    path = model.write(tmp_path / "tiny.gguf")
    lm = tvm_disc.language_model(path, options=tvm_disc.Options(state_dtype=kept))
    held = {dtype for name, _, dtype in lm.program.signature if name.startswith("past_")}
    assert kept in held
    ids = np.random.default_rng(1).integers(0, model.words, 30).tolist()
    state, scores = lm.read(np.array([ids[:17]]), np.ones((1, 17), np.int64))
    want = model.scores(ids, int8=kept == "int8")
    bound = (2e-2 if kept == "bfloat16" else 2e-3) * np.abs(want).max()
    assert np.abs(scores[0] - want[16]).max() <= bound
    assert sum(line.calls for line in state.profile(np.array([[ids[17]]]), 2).lines()) > 10
    for k in range(17, 30):
        assert np.abs(state(np.array([[ids[k]]]))[0] - want[k]).max() <= bound


def test_a_state_is_chosen_by_the_model(tiny: TinyModel, tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "tiny.gguf")
    with pytest.raises(BadOption, match="state: language_model chooses the caches; leave it out"):
        tvm_disc.language_model(path, options=tvm_disc.Options(state=["past_1"]))
