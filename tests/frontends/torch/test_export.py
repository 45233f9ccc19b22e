"""Modules that ``build`` exports: dims of size 1, derived sizes, parameters and names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import tensors  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed, Unsupported  # noqa: E402

F = torch.nn.functional
nn = torch.nn


def of(function: Callable[..., Any]) -> Any:
    class Function(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return function(x)

    return Function().eval()


def same(exe: Any, module: Any, *calls: Any) -> None:
    for call in calls:
        with torch.no_grad():
            wanted = module(*call)
        torch.testing.assert_close(exe(*call), wanted, rtol=1e-4, atol=1e-4)


# module, example, shapes of other calls
ONES: dict[str, tuple[Callable[[], Any], tuple[int, ...], list[tuple[int, ...]]]] = {
    "linear": (lambda: nn.Linear(8, 4), (1, 8), [(1, 8), (4, 8), (0, 8)]),
    "two leading ones": (lambda: nn.Linear(8, 4), (1, 1, 8), [(1, 1, 8), (4, 1, 8), (3, 7, 8)]),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        (1, 1, 9, 9),
        [(1, 1, 9, 9), (5, 1, 9, 9), (2, 1, 12, 7)],
    ),
    "normalized": (lambda: nn.LayerNorm(8), (1, 3, 8), [(1, 3, 8), (4, 1, 8), (2, 9, 8)]),
    "batch norm": (lambda: nn.BatchNorm1d(8), (1, 8), [(1, 8), (7, 8)]),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        (1, 5, 16),
        [(1, 5, 16), (3, 7, 16), (4, 2, 16)],
    ),
    "recurrent": (lambda: nn.GRU(4, 6, batch_first=True), (1, 3, 4), [(1, 3, 4), (3, 5, 4)]),
    "attention": (
        lambda: of(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
        (1, 2, 1, 8),
        [(1, 2, 1, 8), (3, 2, 6, 8)],
    ),
    "pooled and flattened": (
        lambda: of(lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1)),
        (1, 3, 7, 7),
        [(1, 3, 7, 7), (4, 3, 9, 8), (2, 3, 1, 1)],
    ),
    "reshaped": (
        lambda: of(lambda x: x.reshape(x.shape[0], -1, 4).mean(1)),
        (1, 3, 8),
        [(1, 3, 8), (4, 2, 4), (5, 1, 8)],
    ),
    "joined with a token": (
        lambda: of(lambda x: torch.cat([torch.zeros(x.shape[0], 1, 8), x], 1)),
        (1, 3, 8),
        [(1, 3, 8), (4, 1, 8)],
    ),
    "unsqueezed": (lambda: of(lambda x: x[:, None] * x[None]), (1, 4), [(1, 4), (3, 4)]),
    "unfolded": (lambda: of(lambda x: x.unfold(1, 2, 1)), (1, 5), [(1, 5), (4, 2), (3, 9)]),
    "einsum": (lambda: of(lambda x: torch.einsum("bij,bkj->bik", x, x)), (1, 3, 4),
               [(1, 3, 4), (5, 1, 4), (2, 7, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", ONES)
def test_an_example_of_batch_1_leaves_the_batch_dynamic(name: str) -> None:
    make, example, shapes = ONES[name]
    module = make().eval()
    exe = tvm_disc.build(module, example_inputs=tensors(example))
    same(exe, module, *(tensors(s, seed=3) for s in shapes))


def test_a_dim_that_is_squeezed_away_stays_1_and_is_reported(caplog: Any) -> None:
    module = of(lambda x: x.squeeze(0) * 2)
    with caplog.at_level(logging.WARNING, "tvm_disc"):
        exe = tvm_disc.build(module, example_inputs=tensors((1, 5)))
    assert "input 'x' axis 0 is 1 in the example and is fixed to 1" in caplog.text
    assert "is fixed to 1" in exe.explain()
    same(exe, module, tensors((1, 5)), tensors((1, 9)))
    with pytest.raises(BadInput, match=r"input 'x'.*axis 0"):
        exe(*tensors((3, 5)))


def test_a_dim_that_the_module_decides_on_stays_1() -> None:
    module = of(lambda x: x * 2 if x.shape[0] == 1 else x * 3)
    exe = tvm_disc.build(module, example_inputs=tensors((1, 5)))
    same(exe, module, tensors((1, 5)), tensors((1, 2)))
    with pytest.raises((BadInput, GuardFailed), match="'x'"):
        exe(*tensors((2, 5)))


def test_a_dim_of_1_that_is_broadcast_stays_1_and_the_others_do_not() -> None:
    class Masked(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, mask: Any) -> Any:
            scores = x @ x.transpose(-1, -2) + mask
            return scores.softmax(-1) @ x

    module = Masked()
    exe = tvm_disc.build(module, example_inputs=tensors((1, 4, 5, 8), (1, 1, 5, 5)))
    for b, s in ((1, 5), (3, 5), (2, 1), (2, 9)):
        same(exe, module, tensors((b, 4, s, 8), (b, 1, s, s)))


def test_derived_sizes_do_not_narrow_ranges() -> None:
    module = of(lambda x: torch.cat([x, torch.zeros(16 - x.shape[0], 3)]))
    exe = tvm_disc.build(module, example_inputs=tensors((6, 3)))
    same(exe, module, *(tensors((n, 3)) for n in (1, 2, 6, 14, 15, 16)))
    with pytest.raises(GuardFailed, match=r"x_0"):
        exe(*tensors((17, 3)))


class Length(nn.Module):  # type: ignore[misc, name-defined]
    """Sizes that become integers of Python."""

    def __init__(self, length: Callable[[Any], int]) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: Any) -> Any:
        return x + torch.arange(self.length(x))[:, None]


LENGTHS = {"int": lambda x: int(x.shape[0]), "len": len}


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_sizes_as_integers_of_python(length: Callable[[Any], int]) -> None:
    """PyTorch fixes them in a module that is run, which contradicts ``dynamic_shapes``."""
    shapes = ({0: torch.export.Dim("rows")},)
    exe = tvm_disc.build(Length(length), example_inputs=tensors((6, 3)), dynamic_shapes=shapes)
    same(exe, Length(length), *(tensors((n, 3)) for n in (1, 2, 5, 6, 31)))


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("automatic", [False, True], ids=["default", "automatic"])
def test_sizes_as_integers_of_python_remain_dynamic(
    length: Callable[[Any], int], automatic: bool
) -> None:
    """PyTorch fixes them in a module that is run, without an error."""
    shapes = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},) if automatic else None
    exe = tvm_disc.build(Length(length), example_inputs=tensors((6, 3)), dynamic_shapes=shapes)
    same(exe, Length(length), *(tensors((n, m)) for n, m in ((1, 3), (2, 1), (5, 7), (6, 3))))


def test_a_computed_size_as_integer_remains_dynamic() -> None:
    module = of(lambda x: x[:, : int(x.shape[1] // 2)])
    exe = tvm_disc.build(module, example_inputs=tensors((4, 6)))
    same(exe, module, *(tensors((n, m)) for n, m in ((1, 2), (3, 7), (4, 6), (2, 31))))


def only_four(x: Any) -> Any:
    if x.shape[0] != 4:
        raise ValueError("four rows")
    return x * 2


def test_a_first_axis_that_the_module_checks_is_fixed() -> None:
    exe = tvm_disc.build(of(only_four), example_inputs=tensors((4, 3)))
    same(exe, of(only_four), *(tensors((4, m)) for m in (1, 3, 7)))
    with pytest.raises(BadInput, match=r"input 'x' axis 0: expected 4"):
        exe(*tensors((5, 3)))


def test_a_size_that_the_module_fixes_contradicts_dynamic_shapes() -> None:
    shapes = ({0: torch.export.Dim("rows")},)
    module = of(lambda x: x + torch.zeros(6, 1))
    with pytest.raises(Unsupported, match=r"PyTorch cannot export.*rows"):
        tvm_disc.build(module, example_inputs=tensors((6, 3)), dynamic_shapes=shapes)


def test_small_volumes() -> None:
    layers = [nn.Conv3d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 4, 3, 1, 1)]
    module = nn.Sequential(*layers, nn.MaxPool3d(2)).eval()
    exe = tvm_disc.build(module, example_inputs=tensors((2, 1, 8, 16, 16)))
    same(exe, module, *(tensors(s) for s in ((2, 1, 4, 4, 4), (1, 1, 8, 4, 5), (3, 1, 9, 7, 8))))
    with pytest.raises(GuardFailed, match="must"):
        exe(*tensors((2, 1, 3, 8, 8)))


def test_parts_of_one_row() -> None:
    module = of(lambda x: torch.cat([t * 2 for t in x.split(4)]))
    exe = tvm_disc.build(module, example_inputs=tensors((6, 3)))
    same(exe, module, *(tensors((n, 3)) for n in (5, 6, 7, 8)))
    with pytest.raises(GuardFailed, match="x_0"):
        exe(*tensors((9, 3)))


class Several(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, *parts: Any, **named: Any) -> Any:
        x = parts[0] + parts[1]
        return x * named["scale"] if x.shape[0] % 2 == 0 else x


def test_parameters_without_names() -> None:
    module = Several()
    example = {"scale": tensors((3,))[0]}
    exe = tvm_disc.build(of(lambda x: x), example_inputs=tensors((2,)))
    assert exe.inputs == ["x"]

    class Sum(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *parts: Any) -> Any:
            return parts[0] + parts[1]

    exe = tvm_disc.build(Sum(), example_inputs=tensors((4, 3), (4, 3)))
    assert exe.inputs == ["parts_0", "parts_1"]
    same(exe, Sum(), tensors((5, 3), (5, 3)), tensors((1, 2), (1, 2)))

    class Named(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, **named: Any) -> Any:
            return module(x, x, **named)

    exe = tvm_disc.build(Named(), example_inputs={"x": tensors((6, 3))[0], **example})
    assert exe.inputs == ["x", "scale"]
    for n in (2, 4, 8):
        (x,) = tensors((n, 3))
        torch.testing.assert_close(exe(x=x, **example), module(x, x, **example))
    with pytest.raises(GuardFailed, match=r"x_0 % 2 == 0 must hold \(x_0: input 'x' axis 0\)"):
        exe(x=tensors((3, 3))[0], **example)


def test_a_call_that_does_not_fit_forward_is_refused() -> None:
    with pytest.raises(Unsupported, match="PyTorch cannot export this module"):
        tvm_disc.build(Several(), example_inputs=tensors((4, 3)))
    with pytest.raises(Unsupported, match="TypeError: missing a required"):
        tvm_disc.build(nn.Bilinear(2, 3, 4), example_inputs=tensors((4, 2)))


def test_names_are_those_of_parameters_and_dims() -> None:
    class Two(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, ids: Any, mask: Any) -> Any:
            return ids * mask

    exe = tvm_disc.build(Two(), example_inputs=tensors((2, 7), (2, 7)))
    assert [d for _, d, _ in exe.signature] == [("ids_0", "ids_1"), ("ids_0", "ids_1")]
    b = torch.export.Dim("b")
    spec = {"ids": {0: b}, "mask": {0: b}}
    exe = tvm_disc.build(Two(), example_inputs=tensors((1, 7), (1, 7)), dynamic_shapes=spec)
    assert [d for _, d, _ in exe.signature] == [("b", "7"), ("b", "7")]
    same(exe, Two(), tensors((1, 7), (1, 7)), tensors((5, 7), (5, 7)))
