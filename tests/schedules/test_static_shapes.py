"""Every family of kernels with all, some and none of its dims known, for every level of x86-64.

What a machine can run is compared with NumPy; for other levels the code is made and looked at. A
program holds one kernel for each set of known sizes, so that there are few programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.schedules.emit import i64, index_var

# What of a level's instructions is asked for, and the widest registers that its code must name.
LEVELS = {"x86-64-v2": ("sse4.2", "xmm"), "x86-64-v3": ("avx2", "ymm"),
          "x86-64-v4": ("avx512f", "zmm")}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """Operands by the letters of their dims (digits are literal), what is done, and its truth.

    ``known`` lists the letters whose sizes are literals in a program; ``shapes`` gives sizes in
    the order of ``letters``.
    """

    letters: str
    operands: Mapping[str, str]
    body: Callable[..., Any]
    truth: Callable[..., np.ndarray]
    known: Sequence[str]
    shapes: Sequence[tuple[int, ...]]

    def kernels(self, known: str) -> dict[tuple[int, ...], list[dict[str, int]]]:
        """The shapes that one kernel serves, by the sizes that it knows."""
        groups: dict[tuple[int, ...], list[dict[str, int]]] = {}
        for shape in self.shapes:
            sizes = dict(zip(self.letters, shape, strict=True))
            groups.setdefault(tuple(sizes[a] for a in known), []).append(sizes)
        return groups

    def program(self, known: str) -> tuple[Any, list[list[dict[str, int]]]]:
        """A function of as many kernels as are needed, and what each is to serve."""
        inputs, results = [], []
        groups = self.kernels(known)
        for number, sizes in enumerate(groups):
            dim = dict(zip(known, sizes, strict=True))
            mine = [
                relay.var(f"{name}{number}", shape=tuple(self._dim(a, dim) for a in axes))
                for name, axes in self.operands.items()
            ]
            inputs += mine
            results.append(self.body(*mine))
        body = results[0] if len(results) == 1 else relay.Tuple(results)
        return relay.Function(inputs, body), list(groups.values())

    @staticmethod
    def _dim(axis: str, sizes: Mapping[str, int]) -> Any:
        return int(axis) if axis.isdigit() else sizes.get(axis, relay.Any())

    def arrays(self, sizes: Mapping[str, int], rng: np.random.Generator) -> list[np.ndarray]:
        """Operands of one shape."""
        shapes = [[int(a) if a.isdigit() else sizes[a] for a in d] for d in self.operands.values()]
        return [rng.standard_normal(s, dtype=np.float32) for s in shapes]


FAMILIES = {
    "dense": Family(
        "mkn", {"x": "mk", "w": "nk"}, relay.nn.dense, lambda x, w: x @ w.T,
        ("mkn", "n", ""), [(256, 64, 250), (64, 27, 250), (1, 13, 17), (5, 27, 17)],
    ),
    "batch_matmul": Family(
        "bmkn", {"x": "bmk", "w": "bnk"}, relay.nn.batch_matmul, lambda x, w: x @ w.swapaxes(1, 2),
        ("bmkn", "mn", ""), [(1, 96, 30, 95), (3, 7, 16, 33), (2, 7, 5, 33)],
    ),
}  # fmt: skip


def runs(level: str) -> bool:
    """Whether this machine can run code of a level."""
    features = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return bool(features.get(LEVELS[level][0], False))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("family", "known"), [(f, k) for f in FAMILIES for k in FAMILIES[f].known])
def test_known_sizes(family: str, known: str, level: str, rng: np.random.Generator) -> None:
    of = FAMILIES[family]
    function, served = of.program(known)
    options = Options(threads=2 if len(known) == len(of.letters) else 1, load=False)
    program = tvm_disc.build(function, target=f"llvm -mcpu={level}", options=options)
    if not runs(level):
        assert LEVELS[level][1] in program.source("asm")
        return
    for turn in range(max(len(shapes) for shapes in served)):
        given = [of.arrays(shapes[turn % len(shapes)], rng) for shapes in served]
        results = program(*(x for arrays in given for x in arrays))
        for arrays, got in zip(given, results if len(served) > 1 else [results], strict=True):
            truth = of.truth(*(x.astype("float64") for x in arrays))
            np.testing.assert_allclose(got, truth, rtol=1e-4, atol=1e-3)


def test_a_size_of_another_width_is_refused() -> None:
    """TVM makes an int32 of a choice between two Python ints."""
    choice = tirx.Select(index_var("n") > 3, 1, 2)
    with pytest.raises(TypeError, match=r"a size or an index must be int64, found int32: .*Select"):
        i64(choice)
