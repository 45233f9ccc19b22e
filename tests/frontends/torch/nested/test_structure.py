"""Nested arguments and results: programs take and give them as the module does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import tensors  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed  # noqa: E402


class Nested(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A mapping, lists, numbers and None, both ways."""

    def forward(self, x: Any, rest: Any, scale: int, *, bias: Any = None) -> Any:
        total = x * scale + rest["b"][0]
        return {"sum": total, "none": None, "rows": x.shape[0], "list": [x, (rest["a"], 3)]}


def nested(n: int) -> tuple[Any, Any]:
    x, a, b, c = tensors((n, 3), (n,), (3,), (2,))
    return x, {"a": a, "b": [b, c]}


def checked(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        found, wanted = list(found.values()), list(wanted.values())
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            checked(f, w)
    elif isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted)
    else:
        assert found == wanted


def built() -> Any:
    x, rest = nested(6)
    example = {"x": x, "rest": rest, "scale": 3, "bias": None}
    return tvm_disc.build(Nested(), example_inputs=example)


def test_nested_values_go_in_and_come_out(tmp_path: Path) -> None:
    exe = built()
    exe.save(str(tmp_path / "nested.so"))
    for program in (exe, tvm_disc.load(str(tmp_path / "nested.so"))):
        for n in (1, 2, 5, 6, 33):
            x, rest = nested(n)
            wanted = Nested()(x, rest, 3)
            checked(program(x, rest, 3), wanted)
            checked(program(x, rest=rest, scale=3, bias=None), wanted)
            checked(program(x, rest["a"], *rest["b"]), wanted)  # flat
            checked(program(x=x, rest_a=rest["a"], rest_b_0=rest["b"][0], rest_b_1=rest["b"][1]),
                    wanted)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 4}, "input 'scale': the program was exported with 3, found 4"),
        ({"bias": tensors((3,))[0]}, "input 'bias': the program was exported with None"),
        ({"rest": {"a": tensors((6,))[0]}}, r"input 'rest': expected the structure of the example"),
        ({"rest": None}, r"input 'rest': expected the structure.*found None"),
        ({"more": 1}, "unknown input more; expected x, rest, scale, bias"),
    ],
)
def test_other_structures_are_refused(change: Any, message: str) -> None:
    x, rest = nested(6)
    with pytest.raises(BadInput, match=message):
        built()(**{"x": x, "rest": rest, "scale": 3, "bias": None, **change})


def test_missing_and_repeated_arguments_are_refused() -> None:
    x, rest = nested(6)
    exe = built()
    with pytest.raises(BadInput, match="missing input rest"):
        exe(x)
    with pytest.raises(BadInput, match="repeated input x"):
        exe(x, rest, 3, x=x)
    with pytest.raises(BadInput, match="found 5 by position"):
        exe(x, rest, 3, None, 4)


@dataclasses.dataclass
class Pair:
    """Two tensors."""

    first: Any
    second: Any


class Swapped(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, pair: Pair) -> Pair:
        x = pair.first * 2 if pair.first.shape[0] % 2 == 0 else pair.first
        return Pair(pair.second + 1, x)


def test_dataclasses() -> None:
    exe = tvm_disc.build(Swapped(), example_inputs=(Pair(*tensors((4, 3), (5,))),))
    for n in (2, 4, 8):
        pair = Pair(*tensors((n, 3), (5,)))
        found, wanted = exe(pair), Swapped()(pair)
        assert type(found) is Pair
        checked((found.first, found.second), (wanted.first, wanted.second))
    with pytest.raises(GuardFailed, match=r"% 2 == 0 must hold"):
        exe(Pair(*tensors((3, 3), (5,))))


def test_none_as_a_default_may_be_given_or_left_out() -> None:
    class Maybe(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, bias: Any = None) -> Any:
            return x * 2 if bias is None else x + bias

    exe = tvm_disc.build(Maybe(), example_inputs=tensors((4, 3)))
    (x,) = tensors((5, 3))
    assert torch.equal(exe(x), x * 2)
    exe = tvm_disc.build(Maybe(), example_inputs=(x, None))
    for given in ((x,), (x, None)):
        assert torch.equal(exe(*given), x * 2)


def test_a_cache_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")

    class Attend(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, past: Any) -> Any:
            keys, values = past.update(x, x + 1, 0)
            return torch.nn.functional.scaled_dot_product_attention(x, keys, values), past

    def given(b: int, s: int, p: int) -> tuple[Any, Any]:
        x, old = tensors((b, 2, s, 8), (b, 2, p, 8))
        cache = transformers.DynamicCache()
        cache.update(old, old * 2, 0)
        return x, cache

    exe = tvm_disc.build(Attend(), example_inputs=given(2, 3, 5))
    for b, s, p in ((2, 3, 5), (1, 1, 4), (3, 2, 9)):
        found, past = exe(*given(b, s, p))
        wanted, kept = Attend()(*given(b, s, p))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert type(past) is type(kept)
        torch.testing.assert_close(past.layers[0].keys, kept.layers[0].keys)


def test_a_dim_that_differs_is_told_with_both_values() -> None:
    class Two(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return input_ids * attention_mask

    spec = {0: torch.export.Dim("b"), 1: torch.export.Dim("seq")}
    example = tensors((2, 9), (2, 9))
    exe = tvm_disc.build(Two(), example_inputs=example, dynamic_shapes=(spec, spec))
    told = (
        r"input 'attention_mask' axis 1: expected seq; found .*; "
        "seq is 9 in input 'input_ids' axis 1, but 7 in input 'attention_mask'"
    )
    with pytest.raises(BadInput, match=told):
        exe(*tensors((2, 9), (2, 7)))
