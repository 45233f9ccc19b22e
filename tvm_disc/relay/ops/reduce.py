"""Table entries of reductions."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.ops.references import Reference, References

from .row import REDUCE, OpRow, op

ref = References("elementwise")


def _reduction(name: str, reference: Reference, args: str = "data", **more: bool) -> OpRow:
    attrs = {"axis": None, "keepdims": False, "exclude": False, **more}
    return op(name, args, REDUCE, reference, attrs)


ROWS: tuple[OpRow, ...] = (
    _reduction("all", ref.reduction.of(np.all)),
    _reduction("any", ref.reduction.of(np.any)),
    _reduction("argmax", ref.arg_reduction.of(np.argmax), select_last_index=False),
    _reduction("argmin", ref.arg_reduction.of(np.argmin), select_last_index=False),
    _reduction("max", ref.reduction.of(np.max)),
    _reduction("mean", ref.reduction.of(np.mean)),
    _reduction("min", ref.reduction.of(np.min)),
    _reduction("prod", ref.reduction.of(np.prod)),
    _reduction("sum", ref.reduction.of(np.sum)),
    _reduction("variance", ref.variance, "data mean", unbiased=False),
)
