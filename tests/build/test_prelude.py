"""Relay's own prelude, as an old TVM printed it: every function on lists, trees, tensor arrays."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.interpreter import NoClause, interpret
from tests.relay.helpers import DATA
from tvm_disc import relay
from tvm_disc.errors import GuardFailed
from tvm_disc.options import Options

MAIN = re.compile(r"def @main\(\) \{.*?\n\}\n", re.DOTALL)
LISTS = """def @main(%l: List[int32], %m: List[float32], %n: int32) {
  let %odd = @filter(fn (%a: int32) -> bool { equal(mod(%a, 2), 1) }, %l);
  let %more = @concat(%l, Cons(%n, @rev(%odd)));
  let %less = fn (%a: int32, %b: int32) -> int32 { subtract(%a, %b) };
  let %step = fn (%s: int32, %b: int32) -> (int32, int32) { (add(%s, %b), multiply(%s, %b)) };
  let %down = fn (%s: int32) -> Option[(int32, int32)] {
    if (less(%s, 1)) { None } else { Some((subtract(%s, 1), multiply(%s, %s))) } };
  let %twice = @iterate(fn (%a: int32) -> int32 { multiply(%a, 2) }, @length(%odd));
  let %after = @compose(%twice, fn (%a: float32) -> int32 { cast(%a, dtype="int32") });
  let %sum = @map_accuml(%step, 0, %l);
  let %rsum = @map_accumr(%step, 1, %more);
  (%more, @zip(%l, %m), @foldr1(%less, %more), @foldl(@flip(%less), 3, %more),
   @nth(%more, @length(%l)), @hd(@tl(@update(Cons(%n, %more), 1, 77))), %sum, %rsum,
   @unfoldl(%down, %n), @unfoldr(%down, %n), @map(%after, %m), @sum(%more), @id(%odd)) }
"""
TREES = """def @main(%t: Tree[Tensor[(?), float32]]) {
  let %widths = @tmap(fn (%x: Tensor[(?), float32]) -> int32 {
    take(shape_of(%x, dtype="int32"), 0) }, %t);
  (@size(%t), %widths, @tmap(fn (%w: int32) -> float32 { cast(%w, dtype="float32") }, %widths)) }
"""
ARRAYS = """def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?), float32],
    %at: Tensor[(?), int32]) {
  let %rows = @tensor_array_unstack_tensor2_float32(%x);
  let %count = take(shape_of(%x, dtype="int32"), 0);
  let %last = @tensor_array_read_float32(%rows, subtract(%count, 1));
  let %written = @tensor_array_write_float32(%rows, 0, tensor1_float32(%y));
  let %blank = @tensor_array_float32(%count);
  let %spread = @tensor_array_scatter_float32(%blank, %at, %rows);
  (%rows, %last, @tensor_array_concat_float32(%written), @tensor_array_stack_float32(%rows),
   %spread, @tensor_array_split_float32(%blank, tensor1_float32(%y), %at)) }
"""


@cache
def built(main: str) -> tuple[Any, Any]:
    """(module, program) of the prelude with another ``main``."""
    text = (DATA / "printed" / "adt_list_map.relay").read_text()
    assert MAIN.search(text)
    mod = relay.parse(MAIN.sub(lambda _: main, text))
    return mod, tvm_disc.build(mod, options=Options(verify=True))


def same(found: Any, wanted: Any) -> bool:
    """Whether two nested values are equal."""
    if isinstance(wanted, relay.ConstructorValue):
        return bool(found == wanted)
    if isinstance(wanted, tuple):
        return all(same(a, b) for a, b in zip(found, wanted, strict=True))
    return bool(np.array_equal(found, wanted))


def ints(*items: int) -> Any:
    return relay.from_list([np.array(i, "int32") for i in items])


def floats(*items: float) -> Any:
    return relay.from_list([np.array(i, "float32") for i in items])


def agree(main: str, *args: Any) -> None:
    mod, exe = built(main)
    found, wanted = exe(*args), interpret(mod, *args)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert same(a, b), f"field {k}: {a}, expected {b}"


@pytest.mark.parametrize("size", [0, 1, 2, 7, 30])
def test_lists(size: int) -> None:
    numbers = [5 * k % 11 - 3 for k in range(size)]
    agree(LISTS, ints(*numbers), floats(*range(size // 2 + 1)), np.array(size, "int32"))


@pytest.mark.parametrize("size", [1, 2, 5, 17])
def test_trees(size: int) -> None:
    tree = relay.ConstructorValue("Rose", np.ones(size, "float32"), relay.from_list([]))
    for k in range(size):
        tree = relay.ConstructorValue(
            "Rose", np.ones(k, "float32"), relay.from_list([tree] * (k % 3))
        )
    agree(TREES, tree)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (2, 3), (3, 16), (5, 7), (4, 0)])
def test_tensor_arrays(rows: int, width: int) -> None:
    x = np.arange(rows * width, dtype="float32").reshape(rows, width)
    y = np.arange(2 * rows * rows, dtype="float32")
    agree(ARRAYS, x, y, np.random.default_rng(rows).permutation(rows).astype("int32"))


def test_the_head_of_nothing() -> None:
    mod, exe = built("def @main(%l: List[int32]) { @hd(@tl(%l)) }\n")
    with pytest.raises(NoClause):
        interpret(mod, ints(1))
    with pytest.raises(GuardFailed, match="no clause of the match fits"):
        exe(ints(1))
    assert exe(ints(1, 9)) == 9


def test_a_read_outside_of_an_array_is_refused() -> None:
    main = """def @main(%x: Tensor[(?), float32], %k: int32) {
      @tensor_array_read_float32(@tensor_array_unstack_tensor1_float32(%x), %k) }\n"""
    _, exe = built(main)
    x = np.arange(3, dtype="float32")
    with pytest.raises(GuardFailed, match="no clause of the match fits"):
        exe(x, np.array(3, "int32"))
    assert exe(x, np.array(2, "int32")) == relay.ConstructorValue(
        "tensor0_float32", np.array(2, "float32")
    )
