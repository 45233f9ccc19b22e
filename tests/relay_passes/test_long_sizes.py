"""Long sizes become one number of a kernel if no other size of the group shares their symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc.relay_passes import fuse
from tvm_disc.shape import Solver

# The rows of five images after pooling: a sum of products of rounded sizes, of a and b alone.
ROWS = " + ".join(f"((a + {k}) // {k + 1}) * ((b + {k}) // {k + 1})" for k in range(1, 6))


def _size(solver: Solver, text: str) -> Any:
    return eval(text, {}, {str(v.name): v for v, _ in solver.symbols()})


@pytest.fixture
def solver() -> Solver:
    found = Solver()
    for name in "abc":
        found.symbol(name)
    return found


def test_a_long_size_is_one_number(solver: Solver) -> None:
    long = _size(solver, ROWS)
    assert fuse._long_sizes([long, _size(solver, "c")], [], solver, True).values == [long]


@pytest.mark.parametrize(
    ("sizes", "prims"),
    [
        ([ROWS, "a"], []),  # a symbol of it is a size, too
        ([ROWS, "a + 1"], []),  # a symbol of it occurs in another size
        ([ROWS], ["b"]),  # an operand of an operator depends on a symbol of it
        (["a + b", "c"], []),  # it is short
    ],
)
def test_sizes_that_keep_their_form(solver: Solver, sizes: list[str], prims: list[str]) -> None:
    dims, read = ([_size(solver, t) for t in texts] for texts in (sizes, prims))
    assert fuse._long_sizes(dims, read, solver, False).values == []


def test_a_size_that_is_equal_to_another_keeps_its_form(solver: Solver) -> None:
    long, c = _size(solver, ROWS), _size(solver, "c")
    solver.assume_eq(c, long, "a test")
    assert fuse._long_sizes([long, c], [], solver, False).values == []


def test_an_equation_keeps_sizes_in_groups_with_views(solver: Solver) -> None:
    long, c = _size(solver, ROWS), _size(solver, "c")
    solver.assume_eq(c * 3, long, "a test")
    assert fuse._long_sizes([long, c], [], solver, True).values == []
    assert fuse._long_sizes([long, c], [], solver, False).values == [long]


def _pyramid(levels: int) -> str:
    """Relay text: slices of the joined rows of several pooled images; one long size."""
    lines, parts = [], []
    for k in range(2, levels + 2):
        lines.append(
            f"let %p{k} = nn.max_pool2d(%x, pool_size=[{k}, {k}], strides=[{k}, {k}], "
            "padding=[0, 0, 0, 0], ceil_mode=True);"
        )
        lines.append(f"let %r{k} = reshape(%p{k}, newshape=[-1, 4]);")
        parts.append(f"%r{k}")
    lines.append(f"let %j = concatenate(({', '.join(parts)}));")
    for k in range(3):
        lines.append(
            f"let %s{k} = strided_slice(%j, begin=[0, {k}], end=[2147483647, {k + 1}], "
            "strides=[1, 1], axes=[0, 1]);"
        )
        lines.append(f"let %t{k} = greater(%s{k}, {k}f);")
    body = "\n  ".join(lines)
    head = "def @main(%x: Tensor[(1, 4, ?, ?), float32]) {"
    return f'#[version = "0.0.5"]\n{head}\n  {body}\n  (%t0, %t1, %t2)\n}}\n'


def test_kernels_over_a_long_size_are_right() -> None:
    exe = tvm_disc.build(_pyramid(6))
    rng = np.random.default_rng(0)
    for h, w in ((1, 1), (7, 1), (16, 15), (33, 64)):
        x = rng.normal(size=(1, 4, h, w)).astype("float32")
        rows = []
        for k in range(2, 8):
            high, wide = -(-h // k), -(-w // k)
            padded = np.full((4, high * k, wide * k), -np.inf, "float32")
            padded[:, :h, :w] = x[0]
            pooled = padded.reshape(4, high, k, wide, k).max((2, 4))
            rows.append(pooled.reshape(-1, 4))
        joined = np.concatenate(rows)
        for k, found in enumerate(exe(x)):
            np.testing.assert_array_equal(np.asarray(found), joined[:, k : k + 1] > k)
