"""Table entries of convolution and pooling operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import OUT_ELEMWISE, OpRow, op
from .window_attrs import conv_attrs, pool_attrs

image = References("image")
ref = References("nn")

_LAYOUTS = ("NCW", "NCHW", "NCDHW")


def _conv(rank: int) -> OpRow:
    return op(f"nn.conv{rank}d", "data weight", OUT_ELEMWISE, ref.conv.of(rank), conv_attrs(rank))


def _conv_transpose(rank: int) -> OpRow:
    return op(
        f"nn.conv{rank}d_transpose",
        "data weight",
        OUT_ELEMWISE,
        image.conv_transpose.of(rank),
        conv_attrs(rank, transposed=True),
    )


def _pool(kind: str, rank: int) -> OpRow:
    average = kind == "avg"
    return op(
        f"nn.{kind}_pool{rank}d",
        "data",
        OUT_ELEMWISE,
        ref.avg_pool if average else ref.max_pool,
        pool_attrs(rank, average=average),
    )


def _adaptive_pool(kind: str, rank: int, reduce: Callable[..., object]) -> OpRow:
    return op(
        f"nn.adaptive_{kind}_pool{rank}d",
        "data",
        OUT_ELEMWISE,
        ref.adaptive_pool.of(reduce),
        {"output_size": (), "layout": _LAYOUTS[rank - 1], "out_layout": ""},
    )


def _global_pool(kind: str, reduce: Callable[..., object]) -> OpRow:
    return op(
        f"nn.global_{kind}_pool2d",
        "data",
        OUT_ELEMWISE,
        ref.global_pool.of(reduce),
        {"layout": "NCHW", "out_layout": ""},
    )


_KINDS: tuple[tuple[str, Callable[..., object]], ...] = (("avg", np.mean), ("max", np.max))

ROWS: tuple[OpRow, ...] = (
    *(row for rank in (1, 2, 3) for row in (_conv(rank), _conv_transpose(rank))),
    *(_adaptive_pool(kind, rank, reduce) for kind, reduce in _KINDS for rank in (1, 2, 3)),
    *(_pool("avg", rank) for rank in (1, 2, 3)),
    *(_global_pool(kind, reduce) for kind, reduce in _KINDS),
    *(_pool("max", rank) for rank in (1, 2, 3)),
)
