"""The text form of samples."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.relay.samples import SAMPLES, Sample, parse_sample, read, samples_of
from tvm_disc.relay.ops.table import OPS


def same(text: str, **parts: Any) -> bool:
    """Return whether the sample has exactly the parts that differ from the defaults."""
    return parse_sample(text) == Sample(**parts)


def test_dims_and_types() -> None:
    assert same(
        "f32[n,3] i64[m] bool -> f32[n*2,3]",
        inputs=(("n", 3, "float32"), ("m", "int64"), ("bool",)),
        out=("n*2", 3),
        out_dtypes=("float32",),
    )
    assert same("-> bf16[2] u8", inputs=(), out=((2,), ()), out_dtypes=("bfloat16", "uint8"))


def test_tuples_ranges_and_values() -> None:
    assert same(
        "(f32[n],f32[m,2]):0.5..2 i64[2]=(n,-1) (i32,i32)=(3,-2) -> f32[?]",
        inputs=((("n", "float32"), ("m", 2, "float32")), (2, "int64"), (("int32",), ("int32",))),
        out=("?",),
        out_dtypes=("float32",),
        ranges={0: (0.5, 2)},
        values={1: ("n", -1), 2: (3, -2)},
    )
    (matrix,) = parse_sample("i8[2,3]=weights(2,3) -> i8[2,3]").values.values()
    assert [len(row) for row in matrix] == [3, 3]


def test_attributes_and_sizes() -> None:
    text = 'f32[n,m] -> f32[m] {axis=(0,), mode="a b"} for m=3,2 n=1,5'
    sample = parse_sample(text)
    assert sample.attrs == {"axis": (0,), "mode": "a b"}
    assert sample.sizes == ((1, 3), (5, 2))  # in order of first appearance


def test_sections_share_samples_and_continue() -> None:
    text = "# a comment\na, b:\n    f32[n]\n        -> f32[n]\n    i8 -> i8\nc: i8 -> i8\n"
    found = dict(read(text))
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == found["b"] == (*map(parse_sample, ("f32[n] -> f32[n]", "i8 -> i8")),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f32[n]", "a sample has the form 'f32[n] -> f32[n] {axis=0}', found 'f32[n]'"),
        ("float[n] -> f32", "a tensor has the form 'f32[n,3]', found 'float[n]'"),
        ("fbool -> f32", "found 'fbool'"),
        ("(f32[n] -> f32", "a tuple of tensors has the form '(f32[n],f32)', found '(f32[n]'"),
        ("i64=3+n -> f32", "not a value: '3+n'"),
        ("f32 -> f32 {1}", "attributes have the form 'axis=1, mode=\"clip\"', found '1'"),
        ("f32 -> f32 {axis=x}", "found 'axis=x'"),
        ("f32[n] -> f32 for m=1", "sizes are given for ['m'], but the symbols are ['n']"),
    ],
)
def test_malformed_samples_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_sample(text)


def test_every_sample_belongs_to_an_operator_and_every_rule_has_one() -> None:
    assert sorted(SAMPLES.keys() - OPS.keys()) == []
    rows = [row for row in OPS.values() if row.lower or row.value]
    assert [row.name for row in rows if not samples_of(row)] == []
