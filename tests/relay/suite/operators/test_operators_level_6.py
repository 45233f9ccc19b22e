"""Sorting, places of sorted elements, the greatest elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.suite.expressions import Case, Program, case, counts, parameters, reals
from tvm_disc import relay

X = reals(3, 4, 5)


def ordered(x: np.ndarray, axis: int, up: bool) -> np.ndarray:
    """Places of the elements in order, those of equal ones as they were."""
    return np.argsort(x if up else -x, axis, kind="stable")


def sorting() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for axis in (0, 1, -1):
        for up in (True, False):
            places = ordered(X, axis, up)
            made[f"sort {axis} {up}"] = case(
                lambda v, a=axis, u=up: relay.sort(v, axis=a, is_ascend=u),
                np.take_along_axis(X, places, axis),
                X,
            )
            for dtype in ("int32", "int64", "float32")[: 1 if axis else 3]:
                made[f"argsort {axis} {up} {dtype}"] = case(
                    lambda v, a=axis, u=up, d=dtype: relay.argsort(v, axis=a, is_ascend=u, dtype=d),
                    places.astype(dtype),
                    X,
                )
    made["argsort default"] = case(relay.argsort, ordered(X, -1, True).astype("int32"), X)
    made["sort int32"] = case(relay.sort, lambda v: np.sort(v), counts(7, least=-9))
    made["sort uint8"] = case(
        lambda v: relay.sort(v, is_ascend=0), lambda v: np.sort(v)[::-1], counts(6, dtype="uint8")
    )
    return made


def greatest() -> dict[str, Case]:
    made: dict[str, Case] = {}
    for k in (0, 1, 3):
        for axis in (0, -1):
            for up in (False, True):
                n = k if k else X.shape[axis]
                places = np.take(ordered(X, axis, up), range(n), axis)
                values = np.take_along_axis(X, places, axis)
                for kind, dtype in [("both", "int32"), ("values", "int32"), ("indices", "int64")]:
                    if kind != "both" and (k != 3 or up):
                        continue
                    want: Any = [values, places.astype(dtype)]
                    want = want if kind == "both" else want[kind == "indices"]
                    made[f"topk {k} {axis} {up} {kind}"] = case(
                        lambda v, a=(k, axis, kind, up, dtype): relay.topk(v, *a), want, X
                    )
    first = ordered(X, -1, False)[..., :2]
    both = [np.take_along_axis(X, first, -1), first.astype("int32")]
    made["topk of an input"] = case(lambda v, k: relay.topk(v, k), both, X, np.array([2], "int64"))
    made["topk of a number"] = case(
        lambda v, k: relay.topk(v, k, ret_type="indices"), both[1], X, np.int32(2)
    )
    made["topk unpacked"] = case(lambda v: relay.topk(v, k=2)[1], both[1], X)
    made["topk int32"] = case(
        lambda v: relay.topk(v, 2, ret_type="values"), lambda v: np.sort(v)[::-1][:2], counts(7)
    )
    return made


PROGRAMS = {"sorting": Program(sorting(), "vm"), "greatest": Program(greatest(), "graph")}


@pytest.mark.parametrize(("program", "name"), parameters(PROGRAMS))
def test_results(program: str, name: str) -> None:
    PROGRAMS[program].check(name)
