"""Rows of pooling operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import OpRow, Pattern, Sample
from .window_attrs import pool_attrs

ref = References("nn")

_DIMS = (("w",), ("h", "w"), ("d", "h", "w"))
_LAYOUTS = ("NCW", "NCHW", "NCDHW")


def _halves(rank: int, channels: int, sizes: tuple[tuple[int, ...], ...]) -> Sample:
    """Return a sample that halves every spatial dim."""
    dims = _DIMS[rank - 1]
    return Sample(
        (("n", channels, *dims, "float32"),),
        ("n", channels, *(f"{d}//2" for d in dims)),
        {"pool_size": (2,) * rank, "strides": (2,) * rank},
        sizes=sizes,
    )


def _images(**attrs: Any) -> Sample:
    """Return a sample that halves image dims, rounded up."""
    return Sample(
        (("n", 3, "h", "w", "float32"),),
        ("n", 3, "(h+1)//2", "(w+1)//2"),
        {"strides": (2, 2), **attrs},
        sizes=((1, 4, 5), (2, 9, 8)),
    )


_SAMPLES: tuple[tuple[Sample, ...], ...] = (
    (_halves(1, 3, ((1, 4), (2, 9))),),
    (
        _images(pool_size=(3, 3), padding=(1, 1, 1, 1)),
        _images(pool_size=(2, 2), ceil_mode=True),
    ),
    (_halves(3, 2, ((1, 2, 3, 4), (2, 4, 5, 4))),),
)


def _pool(kind: str, rank: int) -> OpRow:
    average = kind == "avg"
    return OpRow(
        f"nn.{kind}_pool{rank}d",
        ("data",),
        pool_attrs(rank, average=average),
        Pattern.OUT_ELEMWISE,
        rank == 2,
        reference=ref.avg_pool if average else ref.max_pool,
        samples=_SAMPLES[rank - 1],
    )


def _adaptive_pool(kind: str, rank: int, reduce: Callable[..., Any]) -> OpRow:
    return OpRow(
        f"nn.adaptive_{kind}_pool{rank}d",
        ("data",),
        {"output_size": (), "layout": _LAYOUTS[rank - 1], "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.adaptive_pool.of(reduce),
        samples=(
            Sample(
                (("n", 3, *_DIMS[rank - 1], "float32"),),
                ("n", 3, *(2,) * rank),
                {"output_size": (2,) * rank},
                sizes=((1, *(5,) * rank),),
            ),
        ),
    )


def _global_pool(kind: str, reduce: Callable[..., Any]) -> OpRow:
    return OpRow(
        f"nn.global_{kind}_pool2d",
        ("data",),
        {"layout": "NCHW", "out_layout": ""},
        Pattern.OUT_ELEMWISE,
        True,
        reference=ref.global_pool.of(reduce),
        samples=(Sample((("n", 3, "h", "w", "float32"),), ("n", 3, 1, 1)),),
    )


_KINDS: tuple[tuple[str, Callable[..., Any]], ...] = (("avg", np.mean), ("max", np.max))

ROWS: tuple[OpRow, ...] = (
    *(_adaptive_pool(kind, rank, reduce) for kind, reduce in _KINDS for rank in (1, 2, 3)),
    *(_pool("avg", rank) for rank in (1, 2, 3)),
    *(_global_pool(kind, reduce) for kind, reduce in _KINDS),
    *(_pool("max", rank) for rank in (1, 2, 3)),
)
