"""Values of branches and loops that are one tensor, or lie in a block that somebody else holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay

Reference = Callable[[np.ndarray, int, bool], tuple[np.ndarray, ...]]

SIZES = (0, 1, 5, 300, 5000)  # the last ones are larger than what lies on the stack
HEAD = """#[version = "0.0.5"]
def @main(%x: Tensor[(?), float32], %n: int32, %c: bool) {
  %0 = (
    let %loop = fn (%i: int32, %a: Tensor[(?), float32], %b: Tensor[(?), float32]) {
      if (less(%i, %n)) {
"""
TAIL = """      }
    };
    %loop
  );
  %0(0, %x, %x)
}
"""


def one_of_two_is_replaced(x: np.ndarray, n: int, c: bool) -> tuple[np.ndarray, ...]:
    a = b = x
    for i in range(n):
        a, b = (np.negative(a),) * 2 if i == 0 else (np.concatenate([a, x]), b)
    return a, b


def the_last_two(x: np.ndarray, n: int, c: bool) -> tuple[np.ndarray, ...]:
    a = b = x
    for _ in range(n):
        a, b = np.concatenate([a, x]), a
    return a, b, a


def exchanged(x: np.ndarray, n: int, c: bool) -> tuple[np.ndarray, ...]:
    a = b = x
    for i in range(n):
        t = np.concatenate([a, x])
        s = (t, t) if c else (t, b)
        a, b = s if i < 1 else s[::-1]
    return (a, a) if c else (b, a)


LOOPS: dict[str, tuple[str, Reference]] = {
    "one of two is replaced": (
        """        let %t = negative(%a);
        let %s = if (equal(%i, 0)) { (%t, %t) } else { (concatenate((%a, %x)), %b) };
        %loop(add(%i, 1), %s.0, %s.1)
      } else {
        (%a, %b)
""",
        one_of_two_is_replaced,
    ),
    "the last two": (
        """        let %t = concatenate((%a, %x));
        %loop(add(%i, 1), %t, %a)
      } else {
        (%a, %b, %a)
""",
        the_last_two,
    ),
    "exchanged": (
        """        let %t = concatenate((%a, %x));
        let %s = if (%c) { (%t, %t) } else { (%t, %b) };
        let %u = if (less(%i, 1)) { (%s.1, %s.0) } else { (%s.0, %s.1) };
        %loop(add(%i, 1), %u.1, %u.0)
      } else {
        if (%c) { (%a, %a) } else { (%b, %a) }
""",
        exchanged,
    ),
}


def called(exe: Any, **given: Any) -> Any:
    """With those inputs that the program has."""
    return exe(**{n: given[n] for n, _, _ in exe.signature})


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_whose_values_are_one_tensor_now_and_then(name: str) -> None:
    body, reference = LOOPS[name]
    exe = tvm_disc.build(relay.parse(HEAD + body + TAIL))
    for size in SIZES:
        x = np.arange(1, size + 1, dtype="float32")
        for n in (0, 1, 2, 3, 7):
            for c in (False, True):
                found = called(exe, x=x, n=np.array(n, "int32"), c=np.array(c))
                for one, other in zip(found, reference(x, n, c), strict=True):
                    np.testing.assert_array_equal(one, other)


def test_a_tensor_that_a_branch_gives_twice_outlives_the_branch_around() -> None:
    """The first of two results, which holds the block, goes where the second is still read."""
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(?), float32], %y: Tensor[(?), float32], %n: int32, %c: bool, %d: bool) {
  %0 = negative(%x);
  %1 = if (%c) {
    (%y, %0)
  } else {
    (%0, %0)
  };
  %2 = %1.1;
  %3 = if (%d) {
    %2
  } else {
    %2
  };
  %4 = (
    let %loop = fn (%i: int32, %s: Tensor[(?), float32]) {
      if (less(%i, %n)) {
        %loop(add(%i, 1), concatenate((%s, %y)))
      } else {
        %s
      }
    };
    %loop
  );
  %4(0, %3)
}
"""
    exe = tvm_disc.build(relay.parse(text))
    for size in SIZES:
        x, y = np.arange(1, size + 1, dtype="float32"), np.zeros(2, "float32")
        for n in (0, 1, 3):
            for c in (False, True):
                flags = {"c": np.array(c), "d": np.array(not c)}
                found = called(exe, x=x, y=y, n=np.array(n, "int32"), **flags)
                np.testing.assert_array_equal(found, np.concatenate([-x, *[y] * n]))
