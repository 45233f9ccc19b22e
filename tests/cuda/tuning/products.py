"""A product that the library computes, too, and how it is tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cuda.helpers import noise
from tests.cuda.tuning.timed import QUICK
from tests.models import function, rows
from tvm_disc import Options, relay
from tvm_disc.tuning import tune

SIZES = [1, 2, 8, 16, 48, 64, 65, 100]
LIBRARY = "cublasLt"


def dense() -> Any:
    """``x @ w.T``."""
    x = rows("n", 24)
    return function(x, relay.nn.dense(x, relay.const(noise(10, 24))))


def tuned(path: Path, remote: Any = None) -> Any:
    given = Options(cache=False)
    shapes = {"x.0": SIZES}
    return tune(
        dense(),
        target="cuda",
        records=path,
        shapes=shapes,
        points=len(SIZES),
        effort=QUICK,
        options=given,
        progress=False,
        remote=remote,
    )
