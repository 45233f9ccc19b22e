"""Recurrent layers and control flow of PyTorch: loops of compiled code."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import check, exported, tensors  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

SHAPES = ((3, 5), (2, 2), (1, 7), (4, 33), (2, 64))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers(kind: str, bidirectional: bool) -> None:
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(
        4, 6, num_layers=2, batch_first=True, bidirectional=bidirectional
    ).eval()

    class Both(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            y, state = self.layer(x)
            return (y, *state) if isinstance(state, tuple) else (y, state)

    module, dims = Both().eval(), {0: torch.export.Dim("b"), 1: torch.export.Dim("s")}
    exe = tvm_disc.build(module, example_inputs=tensors((3, 5, 4)), dynamic_shapes=(dims,))
    for b, s in (*SHAPES, (1, 1)):
        (x,) = tensors((b, s, 4))
        for found, wanted in zip(exe(x), module(x), strict=True):
            torch.testing.assert_close(found, wanted, rtol=5e-5, atol=5e-5)


def test_a_recurrent_layer_of_one_length() -> None:
    layer = torch.nn.GRU(4, 6).eval()
    check(layer, [tensors((3, b, 4)) for b in (2, 5, 3, 17, 64)], "_ b _", tolerance=5e-5)


def test_a_branch() -> None:
    def chosen(x: Any, y: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a * b - 1, (x, y))

    cases = [tensors((b, s), (b, s), seed=k) for k, (b, s) in enumerate(SHAPES)]
    check(chosen, cases, "b s", "b s")


def test_a_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def grown(x: Any, n: Any) -> Any:
        def again(k: Any, y: Any) -> Any:
            return k < n

        def turn(k: Any, y: Any) -> Any:
            return k + 1, y * 1.5 + x

        return while_loop(again, turn, (torch.zeros((), dtype=torch.int64), x + 1))

    cases = [(*tensors((b, s)), torch.tensor(k)) for k, (b, s) in enumerate(SHAPES)]
    check(grown, cases, "b s", "", tolerance=1e-4)


def test_a_scan() -> None:
    from torch._higher_order_ops.scan import scan

    def running(x: Any, start: Any) -> Any:
        def turn(state: Any, row: Any) -> Any:
            after = state * 0.5 + row
            return after, after * 2

        return scan(turn, start, x, dim=0)

    cases = [tensors((s, b), (b,)) for b, s in SHAPES]
    check(running, cases, "s b", "b")


def test_a_map() -> None:
    from torch._higher_order_ops.map import map as torch_map

    def mapped(x: Any, y: Any) -> Any:
        return torch_map(lambda row, other: row * other + 1, x, y)

    cases = [tensors((s, b), (b,)) for b, s in SHAPES]
    check(mapped, cases, "s b", "b")


def test_dropout_of_training_is_refused() -> None:
    layer = torch.nn.LSTM(4, 6, num_layers=2, dropout=0.5).train()
    program = torch.export.export(layer, tensors((5, 2, 4)))
    with pytest.raises(Unsupported, match=r"eval\(\)"):
        tvm_disc.build(program)


def test_an_inner_graph_names_its_nodes() -> None:
    def chosen(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a + torch.rand_like(a), lambda a: -a, (x,))

    with pytest.raises(Unsupported, match=r"rand_like.*random numbers"):
        tvm_disc.build(exported(chosen, tensors((3,)), "_"))
