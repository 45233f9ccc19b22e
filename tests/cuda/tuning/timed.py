"""What is tuned on the emulated GPU, and how long its kernels take: what a test says."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.tuning import tune
from tvm_disc.tuning.measure import Effort

Times = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int)
QUICK = Effort(rounds=2)
SIZES, WIDTH = [1, 7, 33], 64
BEST = 128  # threads of a block, in the variant that the model does not choose


class Clock:
    """Blocks of some threads take a microsecond, all others more."""

    def __init__(self, best: int) -> None:
        self.best, self.threads = best, [0]
        self.entry = Times(self._took)

    def _took(self, threads: int) -> float:
        self.threads.append(threads)
        return 0.001 if threads == self.best else 0.005


def softmax() -> Any:
    """``softmax(x)`` over rows."""
    x = rows("n", WIDTH)
    return function(x, relay.nn.softmax(x))


def tuned(path: Path, **kwargs: Any) -> Any:
    arguments = {"shapes": {"x.0": SIZES}, "points": 3, "effort": QUICK, **kwargs}
    return tune(softmax(), target="cuda", records=path, progress=False, **arguments)


def wave(n: int) -> np.ndarray:
    return np.linspace(-3, 3, n * WIDTH, dtype="float32").reshape(n, WIDTH)


def wanted(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return np.asarray(e / e.sum(-1, keepdims=True))
