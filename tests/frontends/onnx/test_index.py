"""Elements read and written by position, sorting and counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import TypeMismatch, Unsupported

from .helpers import BOOL, F32, I64, build, model, node, normal, same


def test_positions_count_from_the_end() -> None:
    """From data, from constants, and a single one."""
    nodes = [
        node("Gather", ["x", "i"], ["a"], axis=1),
        node("Gather", ["x", "c"], ["b"], axis=0),
        node("Gather", ["x", "last"], ["d"], axis=1),
        node("GatherElements", ["x", "j"], ["e"], axis=-1),
    ]
    made = model(
        nodes, {"x": (F32, ["m", "n"]), "i": (I64, ["k"]), "j": (I64, ["m", "k"])},
        results=list("abde"), c=np.array([[-1, 0]]), last=np.int64(-1),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    cases = []
    for m, n, k in ((1, 1, 1), (3, 4, 2), (2, 7, 7), (5, 16, 3), (64, 3, 1)):
        i, j = (rng.integers(-n, n, s) for s in ((k,), (m, k)))
        cases.append([normal(m, n), i, j])

    def want(x: np.ndarray, i: np.ndarray, j: np.ndarray) -> list[np.ndarray]:
        return [x[:, i], x[[[-1, 0]]], x[:, -1], np.take_along_axis(x, j, 1)]

    same(made, *cases, want=want)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(reduction: str) -> None:
    nodes = [
        node("ScatterElements", ["x", "i", "u"], ["a"], axis=1, reduction=reduction),
        node("ScatterND", ["x", "p", "v"], ["b"], reduction=reduction),
    ]
    inputs = {
        "x": (F32, ["m", "n"]), "i": (I64, ["m", 2]), "u": (F32, ["m", 2]),
        "p": (I64, ["k", 1]), "v": (F32, ["k", "n"]),
    }  # fmt: skip
    made = model(nodes, inputs, results=["a", "b"])
    cases = []
    for m, n in ((1, 2), (3, 4), (2, 7), (5, 16), (64, 3)):
        i = np.stack([np.arange(m) % n, np.arange(m) % n - 1], 1)
        p = np.array([[-1]] if m == 1 else [[0], [-1]])
        cases.append([normal(m, n), i, normal(m, 2, seed=1), p, normal(len(p), n, seed=2)])
    same(made, *cases)


def test_gather_nd_with_batches() -> None:
    made = model(
        [node("GatherND", ["x", "i"], ["y"], batch_dims=1)],
        {"x": (F32, ["b", "m", "n"]), "i": (I64, ["b", "k", 2])},
    )
    cases = []
    for b, m, n in ((1, 1, 1), (2, 3, 4), (3, 1, 7), (1, 16, 2), (5, 2, 2)):
        i = np.random.default_rng(b).integers(0, [m, n], (b, 3, 2)) - [[[m, n]]]
        cases.append([normal(b, m, n), i])
    same(made, *cases)


def test_gather_nd_of_all_positions_is_a_view() -> None:
    """PyTorch exports ``mask[arange(b), arange(s)]`` as such a gather."""
    nodes = [
        node("Shape", ["x"], ["b"], start=0, end=1),
        node("Shape", ["x"], ["s"], start=1, end=2),
        node("Shape", ["x"], ["both"]),
    ]
    for size in "bs":
        nodes += [
            node("Squeeze", [size], [f"{size}_number"]),
            node("Range", ["zero", f"{size}_number", "one"], [f"{size}_line"]),
            node("Unsqueeze", [f"{size}_line", f"to_{size}"], [f"{size}_column"]),
            node("Expand", [f"{size}_column", "both"], [f"{size}_grid"]),
            node("Unsqueeze", [f"{size}_grid", "last"], [f"{size}_places"]),
        ]
    nodes += [
        node("Concat", ["b_places", "s_places"], ["places"], axis=2),
        node("GatherND", ["x", "places"], ["picked"]),
        node("Exp", ["picked"], ["y"]),
    ]
    made = model(
        nodes, {"x": (F32, ["b", "s"])},
        zero=np.int64(0), one=np.int64(1), last=np.array([2]),
        to_b=np.array([1]), to_s=np.array([0]),
    )  # fmt: skip
    exe = build(made)
    assert "gather" not in exe.explain()
    for b, s in ((1, 1), (3, 7), (2, 1), (5, 64), (0, 3)):
        np.testing.assert_allclose(exe(normal(b, s)), np.exp(normal(b, s)), rtol=1e-6)


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0])
def test_unique(axis: int | None, ordered: int) -> None:
    attrs = {} if axis is None else {"axis": axis}
    made = model(
        [node("Unique", ["x"], ["y", "i", "j", "c"], sorted=ordered, **attrs)],
        {"x": (F32, ["m", 2])},
    )
    rng = np.random.default_rng(0)

    def want(x: np.ndarray) -> list[np.ndarray]:
        _, first, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, axis=axis
        )
        order = np.arange(len(first)) if ordered else np.argsort(first)
        places = np.argsort(order)[inverse.reshape(-1)]
        lines = x.reshape(-1) if axis is None else x
        return [lines[first[order]], first[order], places, counts[order]]

    cases = [[rng.integers(0, 2, (m, 2)).astype("float32")] for m in (1, 2, 5, 9, 31)]
    same(made, *cases, want=want)


def test_top_k_by_data() -> None:
    made = model(
        [node("TopK", ["x", "k"], ["v", "i"], largest=0)], {"x": (F32, ["m", "n"]), "k": (I64, [1])}
    )
    sizes = ((1, 1, 1), (3, 4, 2), (2, 7, 7), (5, 16, 3), (2, 64, 1))
    same(made, *[[normal(m, n), np.array([k])] for m, n, k in (*sizes, (3, 4, 0))])


def test_top_none() -> None:
    made = model([node("TopK", ["x", "k"], ["v", "i"])], {"x": (F32, ["m", 4])}, k=np.array([0]))
    same(made, *[[normal(m, 4)] for m in (0, 1, 5)])


def test_one_hot_compress_and_non_zero() -> None:
    nodes = [
        node("OneHot", ["i", "depth", "values"], ["a"], axis=0),
        node("Compress", ["x", "c"], ["b"], axis=0),
        node("NonZero", ["x"], ["d"]),
    ]
    made = model(
        nodes, {"i": (I64, ["n"]), "x": (F32, ["n", 2]), "c": (9, ["n"])},
        results=["a", "b", "d"], depth=np.int64(4), values=np.array([2, 5], "float32"),
    )  # fmt: skip
    cases = []
    for n in (1, 3, 8, 17, 64):
        i = np.arange(n) % 9 - 4
        cases.append([i, np.round(normal(n, 2)), np.arange(n) % 3 == 0])

    def want(i: np.ndarray, x: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        wrapped = np.where(i < 0, i + 4, i)
        hot = wrapped[None] == np.arange(4)[:, None]
        return [np.where(hot, 5, 2).astype("float32"), x[c], np.array(np.nonzero(x))]

    same(made, *cases, want=want)


@pytest.mark.parametrize("dims", [("n", "k"), (3, "k"), ("n", 3), (2, 3), (3, 2)])
def test_compress_cuts_a_condition_to_its_axis(dims: tuple[Any, Any]) -> None:
    """As ONNX Runtime does; a longer condition once repeated the last row."""
    made = model(
        [node("Compress", ["x", "c"], ["y"], axis=0)],
        {"x": (F32, [dims[0], 2]), "c": (BOOL, [dims[1]])},
    )
    sizes = [(n, k) for n in (0, 1, 2, 3) for k in (0, 1, 2, 3, 7)]
    fits = [s for s in sizes if all(d in (s[i], "nk"[i]) for i, d in enumerate(dims))]
    cases = [[normal(n, 2), np.arange(k) % 2 == 0] for n, k in fits]
    same(made, *cases, want=lambda x, c: x[: len(c)][c[: len(x)]])


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        (node("GatherND", ["x", "i"], ["y"]), Unsupported, "last dim of the indices"),
        (
            node("ScatterElements", ["x", "i", "x"], ["y"], reduction="mean"),
            Unsupported,
            "reduction: expected one of none, add",
        ),
        (node("Gather", ["x", "i"], ["y"], axis=2), TypeMismatch, "axis 2 is out of range"),
        (node("Gather", ["x", "x"], ["y"]), TypeMismatch, "accepts int32, int64, found float32"),
    ],
)
def test_what_does_not_fit_is_refused(made: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=f"ONNX {made.op_type} 'y': .*{words}"):
        build(model([made], {"x": (F32, ["a", "b"]), "i": (I64, ["a", "b"])}))


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("dims", [["t"], ["n", "t"]])
def test_n_grams_are_counted(mode: str, dims: list[str]) -> None:
    """Of one word and of two, with up to one left out; rows may be shorter than an n-gram."""
    made = model(
        [
            node(
                "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=2,
                max_skip_count=1, ngram_counts=[0, 2], ngram_indexes=[1, 0, 3, 2],
                pool_int64s=[2, 3, 2, 3, 3, 3], weights=[0.5, 2.0, 3.0, 1.5],
            )
        ],
        {"x": (I64, dims)},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    shapes = ((1, 1), (2, 5), (3, 16)) if len(dims) > 1 else ((1,), (2,), (17,))
    same(made, *[[rng.integers(2, 4, s)] for s in shapes])


def test_operators_of_classic_machine_learning() -> None:
    ml = "ai.onnx.ml"
    nodes = [
        node("ArrayFeatureExtractor", ["x", "i"], ["a"], domain=ml),
        node("ArrayFeatureExtractor", ["v", "i"], ["b"], domain=ml),
        node("Binarizer", ["x"], ["c"], domain=ml, threshold=0.5),
    ]
    inputs = {"x": (F32, ["n", "k"]), "v": (F32, ["k"]), "i": (I64, ["m"])}
    made = model(nodes, inputs, results=list("abc"), domains={ml: 3})
    picks = np.array([2, 0, 2])
    same(made, *[[normal(n, k), normal(k), picks] for n, k in ((1, 3), (2, 5), (5, 16))])
