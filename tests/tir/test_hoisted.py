"""Sizes as code: shared parts once, and no arithmetic that TVM's analyzer would look through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.build import emit_tir
from tvm_disc.compile import prepare
from tvm_disc.options import Options
from tvm_disc.support.debug import Trace
from tvm_disc.tir.builder import Block, dtype_of, i64
from tvm_disc.tir.hoisted import Sizes


def half(x: Any) -> Any:
    """A quotient."""
    return tirx.truncdiv(x + i64(1), i64(2))


def test_a_part_is_computed_once() -> None:
    block = Block()
    n = tirx.Var("n", "int64")
    sizes = Sizes(block)
    first = sizes.emit("first", half(half(n)) + half(half(n)) * 3)
    again = sizes.emit("again", tirx.max(half(half(n)), i64(4)))
    assert isinstance(first, tirx.Var) and isinstance(again, tirx.Var)
    text = str(block.stmt())
    assert text.count("T.Div") == 2 and text.count("T.max") == 1


def test_variables_of_one_name_are_two() -> None:
    block = Block()
    n, m = (tirx.Var("n", "int64") for _ in range(2))
    sizes = Sizes(block)
    first, second = (sizes.emit("x", tirx.max(v, i64(4))) for v in (n, m))
    assert not first.same_as(second)
    assert str(block.stmt()).count("T.max") == 2


@pytest.mark.parametrize("literal", [0, 7])
def test_literals_and_variables_stay(literal: int) -> None:
    sizes = Sizes(Block())
    n = tirx.Var("n", "int64")
    assert sizes.emit("x", n) is n or sizes.emit("x", n).same_as(n)
    assert int(sizes.emit("x", i64(literal)).value) == literal


def test_truth_is_not_the_number_one() -> None:
    """Though literals of one value hash alike."""
    n = tirx.Var("n", "int64")
    sizes = Sizes(Block())
    sizes.plain(n + 1)
    chosen = sizes.plain(tirx.Select(n < 4, tirx.IntImm("bool", 1), n > 9))
    assert dtype_of(chosen.true_value) == "bool"


def images(count: int) -> relay.Function:
    """Convolutions of stride 2, one behind the other: each has dims of dims."""
    any_dim = relay.Any()
    x = y = relay.var("x", shape=(any_dim, 8, relay.Any(), relay.Any()), dtype="float32")
    weights = np.full((8, 8, 3, 3), 0.01, "float32")
    for _ in range(count):
        y = relay.nn.conv2d(y, relay.const(weights), strides=(2, 2), padding=(1, 1),
                            channels=8, kernel_size=(3, 3))  # fmt: skip
    return relay.Function([x], y)


def test_no_size_is_a_page() -> None:
    front = prepare(images(6), None, None, [], Options(), Trace(0, None))
    tir, _ = emit_tir(front.programs, front.machine)
    main = next(f for gv, f in tir.module.functions_items() if gv.name_hint == "main")
    assert max(len(line) for line in str(main).splitlines() if "assert" not in line) < 1500


def joined_product() -> relay.Function:
    """A product whose rows are dims of two operands that broadcast."""
    x = relay.var("x", shape=(relay.Any(), relay.Any(), 1), dtype="float32")
    y = relay.var("y", shape=(relay.Any(), relay.Any(), 1, relay.Any()), dtype="float32")
    w = relay.var("w", shape=(relay.Any(), relay.Any()), dtype="float32")
    joined = relay.minimum(y, relay.expand_dims(x, axis=0))
    return relay.Function([x, y, w], relay.nn.dense(joined, w))


def test_what_a_kernel_asks_is_no_page() -> None:
    front = prepare(joined_product(), None, None, [], Options(), Trace(0, None))
    tir, _ = emit_tir(front.programs, front.machine)
    named = [(gv.name_hint, f) for gv, f in tir.module.functions_items()]
    [entry] = [f for name, f in named if name.startswith("dot") and "body" not in name]
    text = str(entry)
    assert "T.parallel" in text
    assert max(map(len, text.splitlines())) < 500  # they were 1138 long


def test_the_workspace_is_what_the_formula_says() -> None:
    exe = tvm_disc.build(images(3))
    for shape in ((1, 8, 1, 1), (1, 8, 7, 7), (2, 8, 15, 33), (3, 8, 64, 17), (0, 8, 5, 5)):
        result = exe(np.ones(shape, "float32"))
        assert result.shape[0] == shape[0]
        assert exe.workspace_bytes({"x": shape}) >= 0
