"""Every family of kernels with all, some and none of its dims known, for every level of x86-64.

What a machine can run is compared with NumPy; for other levels the code is made and looked at. A
program holds one kernel for each set of known sizes, so that there are few programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tests.processor import absent_for
from tvm_disc import Options, relay
from tvm_disc.tir.builder import i64, index_var

LEVELS = {"x86-64-v2": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm"}  # the widest registers


@dataclass(frozen=True)
class Family:
    """Operands by the letters of their dims (digits are literal), what is done, and its truth.

    ``known`` lists the letters whose sizes are literals in a program, for several programs;
    ``shapes`` gives sizes in the order of ``letters``.
    """

    letters: str
    operands: Mapping[str, str]
    body: Callable[..., Any]
    truth: Callable[..., np.ndarray]
    known: Sequence[str]
    shapes: Sequence[tuple[int, ...]]

    def program(self, known: str) -> tuple[Any, list[list[dict[str, int]]]]:
        """A function of as many kernels as are needed, and the sizes that each is to serve."""
        groups: dict[tuple[int, ...], list[dict[str, int]]] = {}
        for shape in self.shapes:
            sizes = dict(zip(self.letters, shape, strict=True))
            groups.setdefault(tuple(sizes[a] for a in known), []).append(sizes)
        inputs, results = [], []
        for number, literals in enumerate(groups):
            dims: dict[str, Any] = {a: relay.Any(f"{a}{number}") for a in self.letters}
            dims |= dict(zip(known, literals, strict=True))
            mine = [
                relay.var(f"{name}{number}", shape=shape_of(axes, dims))
                for name, axes in self.operands.items()
            ]
            inputs += mine
            results.append(self.body(*mine))
        body = results[0] if len(results) == 1 else relay.Tuple(results)
        return relay.Function(inputs, body), list(groups.values())

    def arrays(self, sizes: Mapping[str, int], rng: np.random.Generator) -> list[np.ndarray]:
        """Operands of one shape."""
        shapes = [shape_of(axes, sizes) for axes in self.operands.values()]
        return [rng.standard_normal(s, dtype=np.float32) for s in shapes]


def shape_of(axes: str, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sizes[a] if a in sizes else int(a) for a in axes)


def conv_of(**attrs: Any) -> Callable[[Any, Any], Any]:
    """A convolution by 3 x 3 that keeps the size of images."""
    return lambda x, w: relay.nn.conv2d(x, w, padding=(1, 1), kernel_size=(3, 3), **attrs)


def windows(x: np.ndarray) -> np.ndarray:
    """``[n, c, h, w, 3, 3]``: what a filter of 3 x 3 sees of images with a border of zeros."""
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))


def conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("nchwij,ocij->nohw", windows(x), w, optimize=True)


def conv_channels_last(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)).transpose(0, 2, 3, 1)


def conv_transposed(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    apart = np.zeros((*x.shape[:2], 2 * x.shape[2] - 1, 2 * x.shape[3] - 1))
    apart[:, :, ::2, ::2] = x
    return conv(apart, w.swapaxes(0, 1)[:, :, ::-1, ::-1])


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q: Any, k: Any, v: Any) -> Any:
    scores = relay.nn.batch_matmul(q, k) * relay.const(0.3, "float32")
    return relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)


def norm(x: Any, w: Any, v: Any) -> Any:
    return relay.nn.layer_norm(x, w, v)


def normalised(x: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + v


IMAGES = [(2, 5, 9, 17, 20), (1, 5, 4, 17, 20)]
ROWS = [(5, 67), (37, 67)]
FAMILIES = {
    "dense": Family(
        "mkn", {"x": "mk", "w": "nk"}, relay.nn.dense, lambda x, w: x @ w.T,
        ("mkn", "n", ""), [(256, 64, 250), (37, 27, 250)],
    ),
    "batch_matmul": Family(
        "bmkn", {"x": "bmk", "w": "bnk"}, relay.nn.batch_matmul, lambda x, w: x @ w.swapaxes(1, 2),
        ("bmkn", "kn"), [(1, 96, 30, 95), (3, 7, 30, 95)],
    ),
    "conv": Family(
        "nchwo", {"x": "nchw", "w": "oc33"}, conv_of(), conv, ("nchwo", "cow", "co"), IMAGES,
    ),
    "conv of channels last": Family(
        "nchwo", {"x": "nhwc", "w": "33co"}, conv_of(data_layout="NHWC", kernel_layout="HWIO"),
        conv_channels_last, ("nchwo", "cow"), IMAGES,
    ),
    "depthwise": Family(
        "nchw", {"x": "nchw", "w": "c133"}, conv_of(groups=5),
        lambda x, w: np.einsum("nchwij,cij->nchw", windows(x), w[:, 0]),
        ("nchw", "cw", "c"), [(2, 5, 9, 17), (1, 5, 6, 17)],
    ),
    "transposed conv": Family(
        "nchwo", {"x": "nchw", "w": "co33"},
        lambda x, w: relay.nn.conv2d_transpose(x, w, (2, 2), (1, 1), kernel_size=(3, 3)),
        conv_transposed, ("nchwo", "co"), IMAGES,
    ),
    "softmax": Family("rc", {"x": "rc"}, relay.nn.softmax, softmax, ("rc", "c", ""), ROWS),
    "layer_norm": Family(
        "rc", {"x": "rc", "w": "c", "v": "c"}, norm, normalised, ("rc", "c"), ROWS,
    ),
    "sum of rows": Family(
        "abc", {"x": "abc"}, lambda x: relay.sum(x, [0, 2]), lambda x: x.sum((0, 2)),
        ("abc", "c", ""), [(4, 9, 35), (1, 2, 35)],
    ),
    "sum of columns": Family(
        "rc", {"x": "rc"}, lambda x: relay.sum(x, 0), lambda x: x.sum(0), ("rc", "r", ""), ROWS,
    ),
    "transpose": Family(
        "rc", {"x": "rc"}, lambda x: relay.transpose(x, [1, 0]), np.transpose,
        ("rc", "c", ""), [(64, 48), (33, 48)],
    ),
    "heads": Family(
        "bhsd", {"x": "bshd"}, lambda x: relay.transpose(x, [0, 2, 3, 1]),
        lambda x: x.transpose(0, 2, 3, 1), ("bhsd", "hd"), [(2, 3, 17, 16), (1, 3, 5, 16)],
    ),
    "argsort": Family(
        "rc", {"x": "rc"}, lambda x: relay.argsort(x, dtype="int64"), lambda x: np.argsort(x, -1),
        ("rc", ""), [(3, 1), (5, 33)],
    ),
    "attention": Family(
        "bmnde", {"q": "bmd", "k": "bnd", "v": "bne"}, attend,
        lambda q, k, v: softmax(q @ k.swapaxes(1, 2) * 0.3) @ v, ("bmnde", "de"),
        [(2, 37, 50, 1, 24), (1, 5, 7, 1, 24)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("family", "known"), [(f, k) for f in FAMILIES for k in FAMILIES[f].known])
def test_known_sizes(family: str, known: str, level: str, rng: np.random.Generator) -> None:
    of = FAMILIES[family]
    function, served = of.program(known)
    options = Options(threads=2 if len(known) == len(of.letters) else 1, load=False)
    program = tvm_disc.build(function, target=f"llvm -mcpu={level}", options=options)
    if absent_for(level):
        assert LEVELS[level] in program.source("asm")
        return
    check(of, program, served, rng)


def check(
    of: Family, program: Any, served: list[list[dict[str, int]]], rng: np.random.Generator
) -> None:
    """Every kernel of a program at each of its sizes."""
    for turn in range(max(map(len, served))):
        given = [of.arrays(sizes[turn % len(sizes)], rng) for sizes in served]
        results = program(*(x for arrays in given for x in arrays))
        for arrays, got in zip(given, results if len(served) > 1 else [results], strict=True):
            truth = of.truth(*(x.astype("float64") for x in arrays))
            assert got.shape == truth.shape
            np.testing.assert_allclose(got, truth, rtol=1e-4, atol=1e-3)


EMPTY: dict[str, list[tuple[int, ...]]] = {
    "dense": [(0, 5, 3), (4, 5, 0), (4, 0, 3)],
    "batch_matmul": [(0, 4, 5, 3), (2, 0, 5, 3), (2, 4, 0, 3)],
    "conv": [(0, 5, 9, 17, 8), (0, 5, 3, 3, 8)],
    "softmax": [(0, 5)],
    "sum of rows": [(0, 9, 35), (2, 0, 3), (2, 3, 0)],
    "transpose": [(0, 5), (5, 0)],
    "argsort": [(0, 5)],
    "attention": [(0, 3, 4, 5, 6), (2, 0, 4, 5, 6)],
}


@pytest.mark.parametrize("family", EMPTY)
def test_sizes_known_to_be_zero(family: str, rng: np.random.Generator) -> None:
    of = replace(FAMILIES[family], shapes=EMPTY[family])
    function, served = of.program(of.letters)
    program = tvm_disc.build(function, options=Options(threads=2))
    assert "template: empty" in program.explain()
    check(of, program, served, rng)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64"])
def test_a_reshape_to_a_dim_known_to_be_zero(dtype: str) -> None:
    """TVM's reshape takes a 0 for the operand's dim at the same place."""
    x = relay.var("x", shape=(3, 0), dtype=dtype)
    results = [relay.expand_dims(x, 1, 2), relay.expand_dims(x, 0), relay.reshape(x, (0, 0, 5))]
    shapes = [
        r.shape
        for r in tvm_disc.build(relay.Function([x], relay.Tuple(results)))(np.zeros((3, 0), dtype))
    ]
    assert shapes == [(3, 1, 1, 0), (1, 3, 0), (3, 0, 5)]


def test_a_size_of_another_width_is_refused() -> None:
    """TVM makes an int32 of a choice between two Python ints."""
    choice = tirx.Select(index_var("n") > 3, 1, 2)
    with pytest.raises(TypeError, match=r"a size or an index must be int64, found int32: .*Select"):
        i64(choice)


def test_profiled_calls_compute_sizes_once(tmp_path: Path) -> None:
    """TVM took seconds for a choice among variants, of two dims of a product, as one expression."""
    function, _ = replace(FAMILIES["dense"], shapes=[(37, 27, 250)]).program("k")
    tvm_disc.build(function, options=Options(threads=2, load=False, dump_dir=tmp_path))
    (text,) = [p.read_text() for p in tmp_path.glob("*program.tir.py")]
    recorded = [line for line in text.splitlines() if "tvm_disc_record(profile" in line]
    assert recorded
    assert max(map(len, recorded)) < 500
