"""Converters of Col2Im and of n-gram counts."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import add, and_

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calc import Expr, const
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Row


def _col2im(n: OnnxNode) -> Expr:
    """Convert Col2Im: each element is the sum of the window elements at its position.

    The sums are computed along one axis after another.
    """
    x = n[0]
    rank = max(len(n.attr(a) or ()) for a in ("strides", "dilations"))
    rank = rank or len(n.attr("pads") or ()) // 2 or _axes(n)
    image, block = (n.sizes_in(n.reshape(n[k], [rank]), "a shape") for k in (1, 2))
    strides, dilations = (n.ints(name, [1] * rank) for name in ("strides", "dilations"))
    pads = n.ints("pads", [0] * 2 * rank)
    if n.rank(x) != 3:
        raise TypeMismatch(f"expected an input of rank 3, found rank {n.rank(x)}")
    counts = []
    for k in range(rank):
        span = n.dim("multiply", n.dim("subtract", block[k], 1), dilations[k])
        rest = n.dim("subtract", n.dim("add", image[k], pads[k] + pads[k + rank] - 1), span)
        counts.append(n.dim("add", n.dim("floor_divide", rest, strides[k]), 1))
    channels = n.dim("floor_divide", n.size(x, 1), n.product(block))
    x = n.reshape(x, [n.size(x, 0), channels, *block, *counts])
    # For each axis, merge the position in the window with the number of the window.
    order = [0, 1, *(a for k in range(rank) for a in (2 + k, 2 + rank + k))]
    lines = [n.dim("multiply", b, c) for b, c in zip(block, counts, strict=True)]
    x = n.reshape(n.transpose(x, order), [n.size(x, 0), channels, *lines])
    for k in range(rank):
        tap, place = n.arange(block[k]), n.expand(n.arange(image[k]), 1)
        begin = place + pads[k] - tap * dilations[k]  # [image, block]
        window = begin // strides[k]
        inside = (begin >= 0) & (window < n.scalar(counts[k]))
        inside = inside & n.equal(begin % strides[k], 0)
        at = tap * n.scalar(counts[k]) + n.maximum(window, 0)
        read = n.take(x, n.where(inside, at, 0), 2 + k)
        shown = n.expand(inside, 2, rank - 1 - k) if k < rank - 1 else inside
        x = n.reduce("sum", n.where(shown, read, n.like(0, x)), [3 + k])
    return x


def _axes(n: OnnxNode) -> int:
    what = "the image's shape"
    return n.count(n.entries(n[1], what, lambda rank: rank - 2), what)


# -- n-grams -----------------------------------------------------------------------------------


def _tf_idf(n: OnnxNode) -> Expr:
    """Convert TfIdfVectorizer: return the weighted counts of the n-grams of ``pool_int64s``.

    Up to max_skip_count elements may be skipped between two elements of an n-gram. The weights are
    in the order of the result, as in ONNX's evaluator and ONNX Runtime.
    """
    if n.attr("pool_int64s") is None:
        raise Unsupported(
            "attribute 'pool_int64s' is missing; n-grams of strings are not supported"
        )
    pool, starts = list(n.required("pool_int64s")), list(n.required("ngram_counts"))
    most = int(n.required("max_gram_length"))
    x = n.expand(n[0], 0) if n.rank(n[0]) == 1 else n[0]
    found, chosen, first = [], list[int](), 0
    for size, (begin, end) in enumerate(pairwise([*starts, len(pool)]), 1):
        many = (end - begin) // size
        if many and int(n.required("min_gram_length")) <= size <= most:
            grams = np.asarray(pool[begin:end]).reshape(many, size)
            found.append(_counted(n, x, grams))
            chosen += range(first, first + many)
        first += many
    places = list(n.required("ngram_indexes"))
    weights = list(n.attr("weights") or [1.0] * len(places))
    mode, width = str(n.required("mode")), max(places) + 1
    if mode not in ("TF", "IDF", "TFIDF"):
        raise Unsupported(f"mode: expected TF, IDF or TFIDF, found {mode!r}")
    if not found:
        return n.full(0, [*n.sizes(n[0])[:-1], width], "float32")
    counts = n.cast(n.concat(found, 1), "float32")
    laid = np.zeros((len(chosen), width), "float32")
    for line, gram in enumerate(chosen):
        laid[line, places[gram]] = 1 if mode == "TF" else weights[places[gram]]
    made = n.matmul(n.minimum(counts, 1) if mode == "IDF" else counts, const(laid))
    return n.squeeze(made, [0]) if n.rank(n[0]) == 1 else made


def _counted(n: OnnxNode, x: Expr, grams: np.ndarray) -> Expr:
    """Return how often each row of ``grams`` occurs in each row of ``x``, for all skip counts."""
    size = grams.shape[1]
    steps = range(1, 2 + int(n.required("max_skip_count"))) if size > 1 else range(1, 2)
    return reduce(add, [_hits(n, x, grams, step) for step in steps])


def _hits(n: OnnxNode, x: Expr, grams: np.ndarray, step: int) -> Expr:
    """Return how often each n-gram occurs in each row of ``x`` with elements ``step`` apart."""
    size = grams.shape[1]
    reach = n.dim("subtract", n.size(x, 1), step * (size - 1))
    begins = n.arange(n.dim("maximum", reach, 0))
    words = [n.expand(n.take(x, begins + (step * k), 1), 2) for k in range(size)]
    same = [n.equal(w, n.like(grams[:, k], x)) for k, w in enumerate(words)]
    return n.reduce("sum", n.cast(reduce(and_, same), "int32"), [1])


ROWS: tuple[Row, ...] = (
    Row("Col2Im", _col2im),
    Row("TfIdfVectorizer", _tf_idf),
)
