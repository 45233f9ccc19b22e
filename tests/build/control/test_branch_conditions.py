"""What a branch or a loop requires of its own sizes holds there, and nowhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm_disc
from tvm_disc.errors import GuardFailed

# The branch requires 8 true elements of the mask. `%r` slices the mask in every call.
BRANCH = """#[version = "0.0.5"]
def @main(%x: Tensor[(?), float32], %c: Tensor[(), bool], %m: Tensor[(?), bool]) {
  let %a = if (%c) {
    let %k = cast(squeeze(argwhere(%m), axis=[1]), dtype="float32");
    max(reshape(%k, newshape=[2, 4]))
  } else { sum(%x) };
  let %r = strided_slice(cast(%m, dtype="float32"), begin=[0], end=[8], strides=[1], axes=[0]);
  (%a, %r)
}"""
# Both branches count; the counts must be 3 and 5.
TWO = """#[version = "0.0.5"]
def @main(%c: Tensor[(), bool], %m: Tensor[(?), bool]) {
  let %a = if (%c) {
    sum(reshape(argwhere(%m), newshape=[3]))
  } else {
    sum(reshape(argwhere(%m), newshape=[5]))
  };
  let %r = strided_slice(cast(%m, dtype="float32"), begin=[0], end=[4], strides=[1], axes=[0]);
  (%a, %r)
}"""
# A loop that requires the same of the elements of each iteration.
LOOP = """#[version = "0.0.5"]
def @loop(%i: int64, %t: int64, %m: Tensor[(?), bool]) -> int64 {
  if (less(%i, 3i64)) {
    let %s = cast(sum(reshape(argwhere(%m), newshape=[2, 2])), dtype="int64");
    @loop(add(%i, 1i64), add(%t, %s), %m)
  } else { %t }
}
def @main(%n: int64, %m: Tensor[(?), bool]) {
  let %t = @loop(%n, 0i64, %m);
  let %r = strided_slice(cast(%m, dtype="float32"), begin=[0], end=[4], strides=[1], axes=[0]);
  (%t, %r)
}"""


def mask(true: int, false: int) -> np.ndarray:
    return np.array([True] * true + [False] * false, dtype=bool)


@pytest.mark.parametrize("n", [0, 1, 5, 7, 8, 30])
def test_the_other_branch_needs_no_more_elements(n: int) -> None:
    exe = tvm_disc.build(BRANCH)
    m = mask(n, 0)
    total, head = exe(np.ones(3, "f4"), np.array(False), m)
    assert float(total) == 3
    np.testing.assert_array_equal(head, np.ones(min(n, 8)))
    if n == 8:
        largest, head = exe(np.ones(3, "f4"), np.array(True), m)
        assert float(largest) == 7 and head.shape == (8,)
        return
    with pytest.raises(GuardFailed, match=r"number of non-zero elements .* must equal 8"):
        exe(np.ones(3, "f4"), np.array(True), m)


def test_each_branch_requires_its_own_count() -> None:
    exe = tvm_disc.build(TWO)
    for n in (0, 3, 5, 2, 11):
        m = mask(n, 1)
        for cond, wanted in ((True, 3), (False, 5)):
            if n != wanted:
                with pytest.raises(GuardFailed, match=f"must equal {wanted}"):
                    exe(np.array(cond), m)
                continue
            total, head = exe(np.array(cond), m)
            assert int(total) == sum(range(n))
            np.testing.assert_array_equal(head, m[:4].astype("f4"))


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_that_does_not_run_requires_nothing(turns: int) -> None:
    exe = tvm_disc.build(LOOP)
    for n in (0, 1, 4, 6, 3):
        m, begin = mask(n, 0), np.array(3 - turns)
        if turns and n != 4:
            with pytest.raises(GuardFailed, match="must equal 4"):
                exe(begin, m)
            continue
        total, head = exe(begin, m)
        assert int(total) == turns * sum(range(n))
        assert head.shape == (min(n, 4),)
    text = exe.explain()
    assert len(re.findall("must equal 4", text)) == 1, text
