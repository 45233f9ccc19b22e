"""Table entries of element-wise operators that Relay lacks and front ends need."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import ELEMWISE, OpRow, op

ref = References("elementwise")

ROWS: tuple[OpRow, ...] = (
    op("erfc", "data", ELEMWISE, ref.erfc),
    op("exp2", "data", ELEMWISE, ref.unary.of(np.exp2)),
    op("expm1", "data", ELEMWISE, ref.unary.of(np.expm1)),
    op("lgamma", "data", ELEMWISE, ref.lgamma),
    op("log1p", "data", ELEMWISE, ref.unary.of(np.log1p)),
    op("round_even", "data", ELEMWISE, ref.unary.of(np.rint)),
)
