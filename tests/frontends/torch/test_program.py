"""Exported programs of PyTorch: one program for all shapes, whole models, types, indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tvm_disc.errors import TypeMismatch  # noqa: E402
from tvm_disc.frontends import from_pytorch  # noqa: E402


class Table(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A table sliced to the length of its input, as position embeddings are."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(32.0).reshape(1, 8, 4))

    def forward(self, x: Any) -> Any:
        return x + self.table[:, : x.shape[1]]


def exported() -> Any:
    dims = {0: torch.export.Dim("b"), 1: torch.export.Dim("s", max=8)}
    return torch.export.export(Table(), (torch.zeros(2, 3, 4),), dynamic_shapes=(dims,))


def test_one_program_serves_every_shape() -> None:
    program = tvm_disc.build(exported())
    table = np.arange(32, dtype="float32").reshape(1, 8, 4)
    for b, s in ((1, 1), (2, 8), (5, 3)):
        got = np.asarray(program(np.ones((b, s, 4), "float32")))
        assert np.array_equal(got, np.ones((b, s, 4)) + table[:, :s])


def test_a_range_given_to_export_is_checked() -> None:
    program = tvm_disc.build(exported())
    with pytest.raises(Exception, match="8"):
        program(np.ones((1, 9, 4), "float32"))


def test_a_module_that_is_not_exported_is_refused() -> None:
    with pytest.raises(TypeMismatch, match=r"torch\.export\.export"):
        from_pytorch(Table())


class Narrow(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Products whose biases are of 16 bits, which stay of 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.linear = torch.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        rows = torch.relu(self.conv(x)).flatten(2).transpose(1, 2)
        weights = torch.softmax(torch.bmm(rows, rows.transpose(1, 2)), -1)
        return self.linear(torch.bmm(weights, rows))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_of_16_bits(dtype: Any) -> None:
    torch.manual_seed(0)
    module = Narrow().eval().to(dtype)
    dims = {k: torch.export.Dim(n, min=2, max=64) for k, n in ((0, "b"), (2, "h"), (3, "w"))}
    sample = torch.zeros((2, 3, 6, 5), dtype=dtype)
    program = torch.export.export(module, (sample,), dynamic_shapes=(dims,))
    exe = tvm_disc.build(program)
    exact = Narrow().eval()
    exact.load_state_dict({k: v.float() for k, v in module.state_dict().items()})
    for b, h, w in ((2, 2, 2), (3, 7, 5), (2, 4, 4), (5, 3, 11), (2, 16, 17)):
        x = torch.randn(b, 3, h, w).to(dtype)
        got, want = exe(x), exact(x.float())
        assert got.dtype == dtype
        error = (got.float() - want).abs().max().item()
        assert error <= 0.02 * want.abs().max().item(), (b, h, w, error)


class Indexed(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Every way to index, by numbers and by tensors, with positions from the end."""

    def forward(self, x: Any, i: Any, j: Any, v: Any) -> Any:
        line = x[:, 0, 0]
        return (
            x[:, -1],
            x[-2],
            x[:, [-1, 0]],
            x[i],
            x[:, i],
            x[:, i, j],
            x[i - 1, :, j],
            x[:, i.reshape(-1, 1), j],
            torch.index_select(x, 1, i + 2),
            torch.take(x, j - 1),
            torch.gather(x, 1, (i + 2).reshape(1, 2, 1)),
            torch.index_put(x, (i,), v),
            torch.index_put(line, (i,), line[j], accumulate=True),
            torch.ops.aten.index_put(x, [i, None, j], v[:, :, 0]),
            torch.ops.aten.index_put(x, [None, i, j], v[0, 0, :2]),
            torch.index_fill(x, 2, i + 1, 5.0),
        )


def test_indices_count_from_the_end_and_go_together() -> None:
    i, j, v = torch.tensor([-1, 0]), torch.tensor([1, -2]), torch.full((2, 3, 4), 9.0)

    def given(b: int) -> tuple[Any, ...]:
        x = torch.arange(12.0 * b).reshape(b, 3, 4)
        return x, i, j, v

    module = Indexed()
    dims = ({0: torch.export.Dim("b", min=2)}, None, None, None)
    exe = tvm_disc.build(torch.export.export(module, given(5), dynamic_shapes=dims))
    for b in (2, 3, 7, 16, 65):
        for k, (found, want) in enumerate(zip(exe(*given(b)), module(*given(b)), strict=True)):
            assert torch.equal(found, want), (b, k)
