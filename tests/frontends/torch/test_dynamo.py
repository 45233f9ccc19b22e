"""``torch.compile(model, backend="tvm_disc", dynamic=True)``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.programs import tensors  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402
from tvm_disc.dynamo import backend  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A layer with a norm."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.LayerNorm(8)
        self.linear = torch.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        y = torch.softmax(self.linear(self.norm(x)), -1)
        return y.reshape(x.shape[0], -1), y.sum() * x.shape[1]


def same(found: Any, wanted: Any) -> None:
    for f, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(f, w, rtol=2e-5, atol=2e-5)


def test_one_program_for_all_shapes() -> None:
    model = Model().eval()
    compiled = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad(), compile_counter() as count:
        for b, s in ((2, 3), (5, 7), (3, 64), (16, 33), (7, 2)):
            (x,) = tensors((b, s, 8))
            same(compiled(x), model(x))
    assert count == [1]


def test_weights_that_change_are_seen() -> None:
    model = Model().eval()
    compiled = torch.compile(model, backend=backend, dynamic=True)
    (x,) = tensors((3, 4, 8))
    with torch.no_grad():
        same(compiled(x), model(x))
        model.linear.weight.mul_(2.0)
        same(compiled(x), model(x))
        model.linear.weight.add_(1.0)
        same(compiled(x), model(x))


def test_results_are_views_of_nothing() -> None:
    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=True)
    (x,) = tensors((3, 4))
    with torch.no_grad():
        first, second = compiled(x), compiled(x * 2)
        torch.testing.assert_close(first, x + 1)
        torch.testing.assert_close(second, x * 2 + 1)


class Numbers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Numbers among the inputs, positions from the end, a branch that only the data knows."""

    def forward(self, x: Any, k: int, scale: float) -> Any:
        y = x[:k] * scale + k
        if y.sum() > 0:
            y = y - 1
        return y, x[..., -1], x[-2:]


def test_numbers_and_graph_breaks(caplog: pytest.LogCaptureFixture) -> None:
    model = Numbers()
    compiled = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "tvm_disc"):
        for n, k, scale in ((9, 3, 2.0), (12, 5, 0.5), (7, 2, 1.25), (40, 33, -3.0), (5, 4, 0.0)):
            (x,) = tensors((n, 4), seed=n)
            same(compiled(x, k, scale), model(x, k, scale))
    assert "run in PyTorch" not in caplog.text


def test_gradients_run_in_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    model = Model().eval()
    compiled = torch.compile(model, backend=backend, dynamic=True)
    (x,) = tensors((3, 4, 8))
    with caplog.at_level(logging.WARNING, "tvm_disc"), compile_counter() as count:
        compiled(x)[1].backward()
    assert model.linear.weight.grad is not None
    assert count == [0]
    assert "gradients are needed" in caplog.text


def test_what_cannot_be_compiled_runs_in_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    def strange(x: Any) -> Any:
        return torch.fft.fft(x).real + 1

    compiled = torch.compile(strange, backend=backend, dynamic=True)
    (x,) = tensors((6,))
    with torch.no_grad(), caplog.at_level(logging.WARNING, "tvm_disc"):
        torch.testing.assert_close(compiled(x), strange(x))
    assert "run in PyTorch" in caplog.text and "_fft_r2c" in caplog.text


def test_it_is_registered(root: Path) -> None:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    points = text.split("[project.entry-points.torch_dynamo_backends]")[1].split("[")[0]
    assert 'tvm_disc = "tvm_disc.dynamo:backend"' in points
