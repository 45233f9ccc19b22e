"""Table entries of losses, gradients, and a buffer of the latest elements."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OPAQUE, OUT_ELEMWISE, REQUIRED, OpRow, op
from .window_attrs import conv_attrs, pool_attrs

ref = References("loss")

ROWS: tuple[OpRow, ...] = (
    op("nn.cross_entropy", "predictions targets", OPAQUE, ref.cross_entropy),
    op(
        "nn.cross_entropy_with_logits", "predictions targets", OPAQUE, ref.cross_entropy_with_logits
    ),
    op(
        "nn.nll_loss",
        "predictions targets weights",
        OUT_ELEMWISE,
        ref.nll_loss,
        {"reduction": "mean", "ignore_index": REQUIRED},
    ),
    op(
        "nn.max_pool2d_grad",
        "out_grad data",
        OUT_ELEMWISE,
        ref.max_pool2d_grad,
        pool_attrs(2, average=False),
    ),
    op(
        "nn.avg_pool2d_grad",
        "out_grad data",
        OUT_ELEMWISE,
        ref.avg_pool2d_grad,
        pool_attrs(2, average=True),
    ),
    op(
        "nn.conv2d_backward_weight",
        "grad data",
        OUT_ELEMWISE,
        ref.conv2d_backward_weight,
        conv_attrs(2),
    ),
    op("nn.fifo_buffer", "data buffer", OPAQUE, ref.fifo_buffer, {"axis": 0}),
)
