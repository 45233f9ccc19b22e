"""Converters of torchvision's operators."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Value
from tvm_disc.relay.expr import TupleGetItem

_LEAST = -3.4e38  # score threshold that accepts every box


def _nms(m: Maker, boxes: Value, scores: Value, threshold: float) -> Value:
    """Return the indices of the boxes that remain, in descending order of scores."""
    # Relay drops a box if its overlap is >= the threshold, torchvision if it is >; so the threshold
    # is increased by the smallest step. In Relay a threshold of 0 would drop nothing.
    overlap = max(threshold * (1 + 2.0**-22), 1.2e-38)
    limits = [m.tensor(0, "int64"), m.tensor(overlap, "float32"), m.tensor(_LEAST, "float32")]
    made = m.call(
        "vision.all_class_non_max_suppression",
        m.expand(m.cast(boxes, "float32"), 0),
        m.expand(m.cast(scores, "float32"), 0, 2),
        *limits,
    )
    # The results are rows of (batch entry, class, box), and the number of valid rows.
    kept = m.pick(Value(TupleGetItem(made, 0), "int64", (None, 3)), 1, 2)
    count = m.call("reshape", TupleGetItem(made, 1), newshape=(1,))
    ends = [m.literal([0], "int64"), m.call("cast", count, dtype="int64"), m.literal([1], "int64")]
    found = m.call(
        "dyn.strided_slice", kept, *ends, begin=None, end=None, strides=None, axes=(0,)
    )  # fmt: skip
    return m.cast(Value(found, kept.dtype, (None,)), "int64")


ROWS: Mapping[str, Row] = {
    "torchvision::nms.default": _nms,
}
