"""Inputs of PyTorch programs: names, symbols, ranges, numbers, what is written into."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import check, exported, module_of, tensors  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed, TypeMismatch, Unsupported  # noqa: E402
from tvm_disc.frontends import from_pytorch  # noqa: E402


def test_dims_have_the_names_that_the_user_gave_them() -> None:
    program = exported(lambda x, y: x + y.sum(), tensors((3, 4), (5, 3)), "b _", "t b")
    exe = tvm_disc.build(program)
    assert [dims for _, dims, _ in exe.signature] == [("b", "4"), ("t", "b")]


def test_one_name_in_two_inputs_is_one_dim() -> None:
    exe = tvm_disc.build(exported(lambda x, y: x + y, tensors((3, 4), (3, 4)), "b _", "b _"))
    assert exe(*tensors((1, 4), (1, 4))).shape == (1, 4)
    with pytest.raises((GuardFailed, BadInput), match=r"'y'|args_1|axis 0"):
        exe(*tensors((3, 4), (2, 4)))


def test_ranges_are_those_of_the_user() -> None:
    module = module_of(lambda x: x * 2)
    dims = ({0: torch.export.Dim("s", min=2, max=5), 1: torch.export.Dim("t")},)
    mod = from_pytorch(torch.export.export(module, tensors((3, 4)), dynamic_shapes=(dims,)))
    assert mod["main"].attrs["constraints"] == ("2 <= s <= 5",)


@pytest.mark.parametrize("size", [1, 6])
def test_a_size_outside_its_range_is_refused(size: int) -> None:
    module = module_of(lambda x: x * 2)
    dims = ({0: torch.export.Dim("s", min=2, max=5)},)
    program = torch.export.export(module, tensors((3, 4)), dynamic_shapes=(dims,))
    with pytest.raises(Exception, match="2 <= s and s <= 5 must hold"):
        tvm_disc.build(program)(*tensors((size, 4)))


def test_a_dim_that_is_twice_another() -> None:
    s = torch.export.Dim("s")
    module = module_of(lambda x, y: x + y[::2])
    program = torch.export.export(
        module, tensors((3,), (6,)), dynamic_shapes=(({0: s}, {0: 2 * s}),)
    )
    exe = tvm_disc.build(program)
    for n in (1, 2, 7, 64):
        x, y = tensors((n,), (2 * n,))
        assert torch.equal(exe(x, y), x + y[::2])
    with pytest.raises((GuardFailed, BadInput), match=r"axis 0|2"):
        exe(*tensors((3,), (5,)))


class Nested(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Inputs in a mapping and a list, a number, and one that is not there."""

    def forward(self, x: Any, rest: Any, scale: int, bias: Any = None) -> Any:
        total = x * scale + rest["a"] - rest["b"][0]
        return {"sum": total, "parts": (rest["b"][1], None)} if bias is None else total + bias


def test_inputs_inside_mappings_have_flat_names() -> None:
    x, a, b, c = tensors((3,), (3,), (3,), (2,))
    dim = torch.export.Dim("n")
    spec = {"a": {0: dim}, "b": [{0: dim}, None]}
    args = (x, {"a": a, "b": [b, c]}, 3)
    program = torch.export.export(Nested(), args, dynamic_shapes=({0: dim}, spec, None))
    exe = tvm_disc.build(program)
    assert [name for name, _, _ in exe.signature] == ["x", "rest_a", "rest_b_0", "rest_b_1"]
    found = exe(x=x, rest_a=a, rest_b_0=b, rest_b_1=c)
    torch.testing.assert_close(found["sum"], x * 3 + a - b)
    assert torch.equal(found["parts"][0], c) and found["parts"][1] is None


class Counter(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Writes into a buffer and into its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))
        self.register_buffer("scale", torch.full((2,), 2.0))

    def forward(self, x: Any) -> Any:
        self.seen.add_(x.sum(0))
        x.mul_(self.scale)
        return x + self.seen


def test_what_is_written_into_comes_after_the_results() -> None:
    dims = ({0: torch.export.Dim("n")},)
    program = torch.export.export(Counter(), tensors((3, 2)), dynamic_shapes=dims)
    exe = tvm_disc.build(program)
    assert [name for name, _, _ in exe.signature] == ["x", "seen"]
    for n in (1, 2, 5, 130):
        module, (x,) = Counter(), tensors((n, 2))
        result, seen, changed = exe(x.clone(), module.seen)
        given = x.clone()
        torch.testing.assert_close(result, module(given))
        torch.testing.assert_close(seen, module.seen)
        torch.testing.assert_close(changed, given)


def test_arithmetic_on_sizes() -> None:
    def sizes(x: Any, y: Any) -> Any:
        n, s = x.shape[0], y.shape[0]
        half = x.new_full((n // 2 + 1, max(n, s)), n % 3)
        return half, x.reshape(-1) * (n * s - 1), torch.arange(n - s, 2 * n + 3), x.sum() / n

    cases = [tensors((n, 2), (s,)) for n, s in ((6, 4), (2, 3), (7, 7), (31, 2), (128, 65))]
    check(sizes, cases, "n _", "s")


def test_numbers_as_inputs() -> None:
    def scaled(x: Any, k: int) -> Any:
        return x * k, x[:k]

    dims = (({0: torch.export.Dim.DYNAMIC}, torch.export.Dim.DYNAMIC),)
    program = torch.export.export(module_of(scaled), (*tensors((9,)), 4), dynamic_shapes=dims)
    exe = tvm_disc.build(program)
    for n, k in ((9, 4), (5, 3), (70, 33)):
        (x,) = tensors((n,))
        product, part = exe(x, k)
        torch.testing.assert_close(product, x * k)
        torch.testing.assert_close(part, x[:k])


def test_sizes_that_only_the_data_knows() -> None:
    def found(x: Any) -> Any:
        places = torch.nonzero(x > 0)
        return places, x[places[:, 0], places[:, 1]] * 2, torch.masked_select(x, x < 0)

    cases = [tensors((n, 3), seed=n) for n in (4, 1, 7, 33, 100)]
    check(found, cases, "n _")


def test_a_number_read_from_data() -> None:
    def part(x: Any, n: Any) -> Any:
        size = n.item()
        torch._check(size >= 0)
        torch._check(size <= x.shape[0])
        return x[:size] + 1, torch.zeros(size, 2)

    cases = [(*tensors((s,)), torch.tensor(n)) for s, n in ((8, 3), (8, 8), (2, 0), (70, 65))]
    check(part, cases, "s", "")


def test_a_module_is_not_a_program() -> None:
    with pytest.raises(TypeMismatch, match=r"torch\.export\.export.*example_inputs"):
        tvm_disc.build(module_of(lambda x: x))


class Strange(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Two operators that are not compiled."""

    def forward(self, x: Any) -> Any:
        return torch.fft.fft(x).real + torch.linalg.svdvals(x.reshape(2, -1)).sum()


def test_every_node_without_a_rule_is_named() -> None:
    program = torch.export.export(Strange(), tensors((6,)))
    with pytest.raises(Unsupported) as caught:
        tvm_disc.build(program)
    text = str(caught.value)
    assert "_fft_r2c" in text and "svd" in text
    assert "test_inputs.py" in text and "torch.fft.fft(x)" in text


def test_random_numbers_are_refused() -> None:
    program = exported(lambda x: x + torch.rand_like(x), tensors((3,)), "_")
    with pytest.raises(Unsupported, match="random numbers"):
        tvm_disc.build(program)


def test_complex_inputs_are_refused() -> None:
    program = exported(lambda x: x + 1, (torch.zeros(3, dtype=torch.complex64),), "_")
    with pytest.raises(Unsupported, match="complex64"):
        tvm_disc.build(program)


def test_a_node_that_makes_complex_numbers_is_refused_for_them() -> None:
    program = exported(lambda x: torch.fft.rfft(x), tensors((3, 8)), "n _")
    with pytest.raises(
        Unsupported, match=r"aten._fft_r2c.default at .*: expected elements of .*, found complex64"
    ):
        tvm_disc.build(program)


class Even(torch.nn.Module):  # type: ignore[misc]
    """Adds 1 if a size is even, so that the trace holds for even sizes only."""

    def forward(self, x, mask):  # type: ignore[no-untyped-def]
        if x.shape[1] % 2 == 0:
            x = x + 1
        return x.sum() + mask[: mask.shape[0] // 2].sum()


def test_explain_names_the_source_of_each_condition() -> None:
    sizes = torch.export.Dim("n", max=500), torch.export.Dim.AUTO
    shapes = {"x": dict(enumerate(sizes)), "mask": {0: torch.export.Dim.AUTO}}
    made = torch.export.export(Even(), (torch.zeros(4, 6), torch.zeros(8)), dynamic_shapes=shapes)
    text = tvm_disc.build(made, constraints=["2 * mask.0 <= 2 * n"]).explain()
    assert "n <= 500    [range of Dim('n') in torch.export]" in text
    here = r"\[guard of torch.export, from test_inputs.py:\d+\]"
    assert re.search(rf"x_1 % 2 == 0    {here}", text)
    assert "mask.0 <= n    [constraint of the caller of build]" in text
    assert "every call checks; x.1 is the size of axis 1 of input x" in text
