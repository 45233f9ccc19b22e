"""Neighbours by one access: elements, rows of operands that broadcast, and copies of rows."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cuda.forced import check_all, made, ptx
from tests.cuda.helpers import noise
from tests.models import function, rows
from tvm_disc import relay


def wide(functions: dict[str, str], words: str = "float4") -> list[str]:
    """The functions that take several elements at once."""
    return [k for k, text in functions.items() if words in text]


def test_elements_of_any_number(gpu: ctypes.CDLL) -> None:
    x = rows("n")
    program, code = made(function(x, relay.nn.relu(x)))
    assert wide(code) == ["k1"]
    assert not any("disc_div" in text for text in code.values())
    for n in (0, 1, 3, 4, 5, 127, 1027):
        check_all(gpu, program, [noise(n)], [np.maximum(noise(n), 0)])
    assembled = ptx(code)
    if assembled is not None:
        assert assembled["k1"].count("ld.global.v4") == 1
        assert assembled["k1"].count("st.global.v4") == 1
        assert ".local" not in assembled["k1"]


def test_rows_are_divided_by_once(gpu: ctypes.CDLL) -> None:
    x, y = rows("n", "m"), rows("m", name="y")
    program, code = made(function(x, y, relay.exp(relay.add(x, y))))
    assert wide(code) == ["k1"]
    assert code["k1"].count("disc_div") == 1  # for four elements
    assert "m % 4 == 0, operands at multiples of 16 bytes" in str(program.explain())
    for n, m in ((0, 4), (1, 1), (3, 4), (5, 7), (3, 8), (65, 132)):
        a, b = noise(n, m), noise(m)
        check_all(gpu, program, [a, b], [np.exp(a + b)])


def test_what_is_known_is_not_asked(gpu: ctypes.CDLL) -> None:
    x, y = rows("n", 12), rows(12, name="y")
    program, code = made(function(x, y, relay.add(x, y)))
    assert wide(code) == ["k1"]
    assert "lanes: 4 if operands at multiples of 16 bytes" in str(program.explain())
    check_all(gpu, program, [noise(3, 12), noise(12)], [noise(3, 12) + noise(12)])


@pytest.mark.parametrize("dims", [("n", 5), ("n", 3, 7)])
def test_rows_that_are_no_multiples_have_no_lanes(gpu: ctypes.CDLL, dims: Any) -> None:
    x, y = rows(*dims), rows(dims[-1], name="y")
    _, code = made(function(x, y, relay.add(x, y)))
    assert not wide(code)


def test_what_lies_apart_has_no_lanes(gpu: ctypes.CDLL) -> None:
    x = rows("n", 8)
    for program in (relay.reverse(x, 1), relay.strided_slice(x, [0], [8], [2], [1])):
        assert not wide(made(function(x, program))[1])


@pytest.mark.parametrize(
    ("dtype", "words"), [("float16", "uint4"), ("int8", "int4"), ("float64", "double2")]
)
def test_other_types(gpu: ctypes.CDLL, dtype: str, words: str) -> None:
    x = rows("n", dtype=dtype)
    program, code = made(function(x, relay.maximum(x, relay.const(1, dtype))))
    assert wide(code, words) == ["k1"]
    for n in (1, 7, 8, 16, 33):
        a = (noise(n) * 4).astype(dtype)
        check_all(gpu, program, [a], [np.maximum(a, np.array(1, dtype))])


def test_an_operand_that_may_be_broadcast(gpu: ctypes.CDLL) -> None:
    x, y = rows("n", 4), rows("?", 4, name="y")
    program, code = made(function(x, y, relay.subtract(x, y)))
    assert wide(code) == ["k1"]
    for n, m in ((4, 4), (9, 1), (1, 1)):
        check_all(gpu, program, [noise(n, 4), noise(m, 4)], [noise(n, 4) - noise(m, 4)])


def test_copies_of_rows(gpu: ctypes.CDLL) -> None:
    """Slices, padding and concatenation, along rows and across them."""
    x, y = rows("n", 16), rows("k", 16, name="y")
    pieces = [
        relay.strided_slice(x, [4], [12], axes=[1]),
        relay.nn.pad(x, [(2, 1), (0, 0)], 0.5),
        relay.nn.pad(x, [(0, 0), (4, 8)]),
        relay.concatenate([x, y], 0),
        relay.concatenate([x, relay.exp(x)], 1),
    ]
    program, code = made(function(x, y, relay.Tuple(pieces)))
    assert 2 * len(wide(code)) == len(code)
    for n, k in ((1, 1), (0, 2), (7, 3), (33, 0)):
        a, b = noise(n, 16), noise(k, 16) + 1
        wanted = [
            a[:, 4:12],
            np.pad(a, ((2, 1), (0, 0)), constant_values=0.5),
            np.pad(a, ((0, 0), (4, 8))),
            np.concatenate([a, b], 0),
            np.concatenate([a, np.exp(a)], 1),
        ]
        check_all(gpu, program, [a, b], wanted)


def test_rows_that_are_looked_up(gpu: ctypes.CDLL) -> None:
    x, at = rows("n", "m"), rows("k", name="at", dtype="int32")
    program, code = made(function(x, at, relay.take(x, at, axis=0, mode="clip")))
    assert wide(code) == ["k1"]
    for n, m, k in ((1, 1, 3), (5, 8, 7), (9, 33, 2), (9, 132, 5)):
        a, i = noise(n, m), np.arange(k, dtype="int32") * 7 % n
        check_all(gpu, program, [a, i], [a[i]])
