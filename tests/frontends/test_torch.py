"""PyTorch programs through TVM's importer; needs the package `torch`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tvm_disc.errors import TypeMismatch  # noqa: E402
from tvm_disc.frontends import from_torch  # noqa: E402


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
        from_torch(Table())
