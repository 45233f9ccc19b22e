"""Programs of many results: what is written for them grows as they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import BadInput


def program(count: int) -> Any:
    """As many inputs of shapes of their own, and one result of each."""
    inputs = [relay.var(f"x{k}", shape=(relay.Any(),)) for k in range(count)]
    return relay.Function(inputs, relay.Tuple([relay.nn.relu(x) for x in inputs]))


def test_the_entry_grows_with_the_results() -> None:
    """Not with their pairs: which tensors share memory, and what is given back before an error."""
    sizes = []
    for count in (3, 6, 12):
        text = tvm_disc.build(program(count)).source("ll")
        entry = text[text.index("@__tvm_ffi_main(") :]
        sizes.append(entry[: entry.index("\n}")].count("\n"))
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


def test_every_pair_of_tensors_is_asked() -> None:
    exe, n = tvm_disc.build(program(4)), 5
    xs = [np.arange(-2, n - 2, dtype="float32") + k for k in range(4)]
    outs = [np.empty(n, "float32") for _ in range(4)]
    assert exe(*xs, out=outs) is not None
    for x, out in zip(xs, outs, strict=True):
        np.testing.assert_array_equal(out, np.maximum(x, 0))
    # The last result may lie where an input was that nobody reads any more.
    exe(*xs, out=[*outs[:3], xs[0]])
    for k in range(4):
        for other in range(k):
            shared = [*outs[:k], outs[other], *outs[k + 1 :]]
            with pytest.raises(BadInput, match=f"output {k}: shares memory with output {other}, "):
                exe(*xs, out=shared)
        for other in range(k + 1, 4):
            shared = [*outs[:k], xs[other], *outs[k + 1 :]]
            with pytest.raises(BadInput, match=f"output {k}: shares memory with input 'x{other}'"):
                exe(*xs, out=shared)


def test_empty_tensors_share_nothing() -> None:
    exe = tvm_disc.build(program(2))
    base = np.zeros(4, "float32")
    exe(base[2:2], np.ones(4, "float32"), out=[base[2:2], base])
    np.testing.assert_array_equal(base, np.ones(4, "float32"))
