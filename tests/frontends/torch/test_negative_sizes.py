"""Sizes that shape arithmetic makes negative, in exported PyTorch programs.

A program runs with inputs of 0 to 6 elements. A call gives what the module gives, or is refused in
the input's name: export narrows some ranges further than the operators need.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed  # noqa: E402

# All that the module computes must be computed.
EVERYWHERE: dict[str, Callable[[Any], Any]] = {
    "pad or trim at the end": lambda x: F.pad(x, (0, 4 - x.shape[0])),
    "pad or trim at the start": lambda x: F.pad(x, (4 - x.shape[0], 0), value=2.0),
    "pad or trim both": lambda x: F.pad(x, (2, 2 - x.shape[0])),
    "max with 0": lambda x: torch.zeros(max(x.shape[0] - 3, 0)),
}
SOMEWHERE: dict[str, Callable[[Any], Any]] = {
    "pad both": lambda x: F.pad(x, (x.shape[0] - 3, x.shape[0] - 3)),
    "pad reflect": lambda x: F.pad(x[None], (x.shape[0] - 3, 0), mode="reflect"),
    "pad replicate": lambda x: F.pad(x[None], (x.shape[0] - 3, 0), mode="replicate"),
    "full": lambda x: torch.full((x.shape[0] - 3,), 2.0),
    "full, summed": lambda x: torch.full((x.shape[0] - 3,), 2.0).sum() + x.sum(),
    "zeros, two": lambda x: torch.zeros(x.shape[0] - 3, x.shape[0] - 3).sum() + x.sum(),
    "new_ones": lambda x: x.new_ones(2 * x.shape[0] - 5),
    "expand": lambda x: torch.ones(1).expand(x.shape[0] - 3),
    "repeat": lambda x: x.repeat(x.shape[0] - 3),
    "split": lambda x: x.split([x.shape[0] - 3, 3])[0],
    "narrow": lambda x: x.narrow(0, 0, x.shape[0] - 3),
    "slice": lambda x: x[: x.shape[0] - 3],
    "slice from": lambda x: x[x.shape[0] - 3 :],
    "arange": lambda x: torch.arange(x.shape[0] - 3),
    "topk": lambda x: x.topk(x.shape[0] - 3)[0],
    "view": lambda x: x[3:].view(x.shape[0] - 3),
    "eye": lambda x: torch.eye(x.shape[0] - 3),
    "tril": lambda x: torch.ones(x.shape[0] - 3, 2).tril(),
    "interpolate": lambda x: F.interpolate(x[None, None], size=x.shape[0] - 3),
}


def built(function: Callable[[Any], Any]) -> Any:
    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto = torch.export.Dim.AUTO
        dims = ({0: auto},)
        return tvm_disc.build(torch.export.export(Module(), (torch.rand(8),), dynamic_shapes=dims))


def asked(function: Callable[[Any], Any], x: Any) -> Any:
    """What the module gives; None if PyTorch refuses the call."""
    try:
        return function(x)
    except (RuntimeError, ValueError, IndexError):
        return None


@pytest.mark.parametrize("name", [*EVERYWHERE, *SOMEWHERE])
def test_operators(name: str) -> None:
    function = {**EVERYWHERE, **SOMEWHERE}[name]
    exe, refused = built(function), 0
    for n in (0, 1, 2, 3, 4, 5, 6, 16):
        x = torch.arange(1, n + 1, dtype=torch.float32)
        want = asked(function, x)
        try:
            got = np.asarray(exe(x))
        except (GuardFailed, BadInput) as error:
            assert "input 'x'" in str(error)
            refused += 1
            continue
        assert want is not None, (n, got)
        assert got.shape == tuple(want.shape)
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)
    assert refused <= (0 if name in EVERYWHERE else 5)
