"""Programs of many inputs: parts of the inputs are read by functions of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.host.inputs import PART
from tvm_disc.codegen.host.outputs import FEW
from tvm_disc.errors import BadInput

RANKS = (2, 0, 1, 3)
COUNT = FEW + PART // 2 + 3


def program(count: int) -> Any:
    """Sum inputs of several ranks that broadcast to the first one's shape."""
    n = relay.Any()
    shapes = [(n, 4), (), (4,), (1, 1, 4)]
    inputs = [relay.var(f"x{k}", shape=shapes[k % 4] if k % 4 else (n, 4)) for k in range(count)]
    total = inputs[0]
    for x in inputs[1:]:
        total = relay.reshape(relay.add(total, x), (-1, 4))
    return relay.Function(inputs, total)


def arrays(count: int, n: int) -> list[np.ndarray]:
    shapes = [(n, 4), (), (4,), (1, 1, 4)]
    rng = np.random.default_rng(n)
    return [rng.standard_normal(shapes[k % 4]).astype("float32") for k in range(count)]


def one_dim(count: int) -> Any:
    """Inputs of equal rank, whose first dims are equal in every call."""
    inputs = [relay.var(f"x{k}", shape=(4, 2)) for k in range(count)]
    total = inputs[0]
    for x in inputs[1:]:
        total = relay.add(total, x)
    return relay.Function(inputs, total)


def test_inputs_of_several_ranks() -> None:
    exe = tvm_disc.build(program(COUNT))
    for n in (1, 5, 8, 0, 33):
        xs = arrays(COUNT, n)
        want = xs[0]
        for x in xs[1:]:
            want = (want + x).reshape(-1, 4)
        np.testing.assert_array_equal(exe(*xs), want)
        out = np.empty_like(want)
        exe(*xs, out=[out])
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("position", [0, PART - 1, PART, COUNT - 1])
def test_an_input_of_any_part_is_checked(position: int) -> None:
    exe, xs = tvm_disc.build(program(COUNT)), arrays(COUNT, 5)
    name, x = f"input 'x{position}'", xs[position]
    wrong = [
        (np.asarray(x, "float64"), f"{name}: expected dtype float32"),
        (np.zeros((2,) * 4, "float32"), f"{name}: expected {x.ndim} dims?"),
    ]
    for value, message in wrong:
        with pytest.raises(BadInput, match=message):
            exe(*xs[:position], value, *xs[position + 1 :])


def test_the_entry_grows_little_with_each_input() -> None:
    """Most of the code for an input is in the function of its part."""

    def lines(count: int) -> int:
        text = tvm_disc.build(one_dim(count)).source("ll")
        entry = text[text.index("@__tvm_ffi_main(") :]
        return entry[: entry.index("\n}")].count("\n")

    alone = lines(FEW) - lines(FEW // 2)
    parts = lines(3 * FEW) - lines(3 * FEW - FEW // 2)
    assert parts < alone / 2
