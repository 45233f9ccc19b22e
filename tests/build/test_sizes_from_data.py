"""Sizes that only the data knows: none is negative, none overflows, alone or with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed

HUGE = 1 << 62
TWO_BY_THREE = np.ones((2, 3), "float32")


def one() -> Any:
    """The number one."""
    return relay.const(np.float32(1))


def first(s: Any) -> Any:
    """The first of several numbers."""
    return relay.take(s, relay.const(np.int64(0)), axis=0)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "full": lambda s: relay.full(one(), s, dtype="float32"),
    "zeros": lambda s: relay.zeros(s, dtype="float32"),
    "broadcast_to": lambda s: relay.broadcast_to(one(), s),
    "tile": lambda s: relay.tile(relay.const(TWO_BY_THREE), s),
    "reshape": lambda s: relay.reshape(relay.const(TWO_BY_THREE), s),
    "one_hot": lambda s: relay.one_hot(
        relay.const(np.array([0, 1])), one(), one(), first(s), -1, "float32"
    ),
    "arange": lambda s: relay.arange(
        relay.const(np.int64(0)), first(s), relay.const(np.int64(1)), dtype="int64"
    ),
    "pad": lambda s: relay.nn.pad(relay.const(np.ones(3, "float32")), relay.reshape(s, (1, 2))),
    "resize": lambda s: relay.image.resize2d(relay.const(np.ones((1, 1, 4, 4), "float32")), s),
    "join": lambda s: relay.concatenate([relay.full(one(), s, dtype="float32")] * 2, axis=0),
}
TOO_LARGE = [(HUGE + 1, 4), (HUGE, 1), (1 << 40, 1 << 40), (2**63 - 1, 2), (0, HUGE)]


@pytest.mark.parametrize("name", MAKERS)
def test_a_size_from_data(name: str) -> None:
    s = relay.var("s", shape=(2,), dtype="int64")
    executable = tvm_disc.build(relay.Function([s], MAKERS[name](s)))
    assert executable(np.array([3, 2])).size > 0
    for sizes in TOO_LARGE:
        if name in ("one_hot", "arange") and sizes[0] <= 1 << 40:
            continue  # they take the first alone
        with pytest.raises((GuardFailed, MemoryError), match=r"within|too large|must equal|memory"):
            executable(np.array(sizes))
    for sizes in ((-1, 2), (-(2**63), 2)):
        if name == "arange":
            continue  # a range to a negative number is empty
        with pytest.raises(GuardFailed, match=r"at least|must lie within"):
            executable(np.array(sizes))
