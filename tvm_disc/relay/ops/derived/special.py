"""Rows of element-wise operators that Relay lacks and front ends need."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import OpRow, Pattern, Reference, Sample

ref = References("elementwise")

_ANY = (Sample((("n", 3, "float32"),), ("n", 3)),)
_POSITIVE = (Sample((("n", 3, "float32"),), ("n", 3), ranges={0: (0.1, 4.0)}),)


def _row(name: str, reference: Reference, samples: tuple[Sample, ...] = _ANY) -> OpRow:
    return OpRow(name, ("data",), {}, Pattern.ELEMWISE, True, reference=reference, samples=samples)


ROWS: tuple[OpRow, ...] = (
    _row("erfc", ref.erfc),
    _row("exp2", ref.unary.of(np.exp2)),
    _row("expm1", ref.unary.of(np.expm1)),
    _row("lgamma", ref.lgamma, _POSITIVE),
    _row("log1p", ref.unary.of(np.log1p), _POSITIVE),
    _row("round_even", ref.unary.of(np.rint)),
)
