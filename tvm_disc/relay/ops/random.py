"""Table entries of operators that generate random numbers."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OPAQUE, REQUIRED, OpRow, op

ref = References("random")

ROWS: tuple[OpRow, ...] = (
    op("random.threefry_generate", "key", OPAQUE, ref.threefry_generate, {"out_shape": REQUIRED}),
    op("random.threefry_split", "key", OPAQUE, ref.threefry_split),
    op(
        "random.uniform",
        "key low high",
        OPAQUE,
        ref.uniform,
        {"out_shape": REQUIRED, "out_dtype": ""},
    ),
    op(
        "random.normal",
        "key mean scale",
        OPAQUE,
        ref.normal,
        {"out_shape": REQUIRED, "out_dtype": ""},
    ),
    op("random.multinomial", "key probs", OPAQUE, ref.multinomial, {"num_samples": 1}),
)
