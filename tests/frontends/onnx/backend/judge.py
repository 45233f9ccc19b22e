"""What becomes of a case: it passes, is refused, is wrong, or ends in an error that is not ours."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tvm_disc
from tests.frontends.onnx.backend.cases import MODES, is_random, plain
from tvm_disc.errors import DiscError

RELATIVE = 1e-3  # of ONNX's own runner
ABSOLUTE = 1e-5
ABSOLUTE_16 = 1e-2  # of floats of 16 bits and less
REASON = 300  # characters


class Differs(AssertionError):
    """A result is not the one of the case."""


def judge(case: Any, mode: str, tell: Callable[[str], None] = str) -> dict[str, Any]:
    """The status of a case, why, and how long its build took."""
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    record: dict[str, Any] = {"status": "passed"}
    try:
        tell("build")
        program = tvm_disc.build(MODES[mode](case.model))
        record["build_s"] = round(time.perf_counter() - begin, 2)
        tell("call")
        for inputs, wanted in case.data_sets:
            result = program(*map(plain, inputs))
            got = list(result) if len(case.model.graph.output) != 1 else [result]
            check(got, plain(wanted), values=not is_random(case))
    except Differs as error:
        record |= {"status": "wrong", "reason": _short(error)}
    except DiscError as error:
        record |= {"status": "refused", "reason": _short(error), "error": type(error).__name__}
    except Exception as error:  # what a user must never see
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{at.filename.rpartition('site-packages/')[2]}:{at.lineno}"
        reason = f"{type(error).__name__}: {_short(error)} ({place})"
        record |= {"status": "raw", "reason": reason}
    return record


def listed(results: Any) -> list[Any]:
    """The results of a call, however many."""
    return list(results) if isinstance(results, list | tuple) else [results]


def check(got: list[Any], wanted: list[Any], values: bool = True) -> None:
    """Compare results with those of the case, but for their values where those are random.

    Raises:
        Differs: in number, shape, element type or value.
    """
    if len(got) != len(wanted):
        raise Differs(f"{len(got)} results for {len(wanted)}")
    for x, want in zip(got, wanted, strict=True):
        if isinstance(want, list):
            check(listed(x), want, values)
        else:
            _equal(_array(x), want, values)


def _array(x: Any) -> np.ndarray:
    """A result as an array; without inputs in NumPy, results are tensors of TVM."""
    made: np.ndarray = x if isinstance(x, np.ndarray) else x.numpy()
    return made


def _equal(got: np.ndarray, want: np.ndarray, values: bool) -> None:
    if got.shape != want.shape:
        raise Differs(f"shape {got.shape} for {want.shape}")
    if got.dtype != want.dtype:
        raise Differs(f"{got.dtype} for {want.dtype}")
    if not values:
        return
    try:
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
            return
        absolute = ABSOLUTE if want.dtype.itemsize > 2 else ABSOLUTE_16
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            got.astype(wide), want.astype(wide), rtol=RELATIVE, atol=absolute
        )
    except AssertionError as error:
        raise Differs(str(error)) from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:REASON]


def reason_class(record: dict[str, Any]) -> str:
    """A reason without what is particular to one case: names, numbers, dims."""
    text = str(record.get("reason", ""))
    text = re.sub(r"^ONNX (\S+) '[^']*':", r"\1:", text)
    text = re.sub(r"'[^']*'", "'..'", text)
    text = re.sub(r"\d+", "N", text)
    return text[:110]


__all__ = ["Differs", "check", "judge", "listed", "reason_class"]
