"""All import rules and shape-value rules by Relay name; the operator table takes them from here."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_disc.relay.importer import (
    lower_detect,
    lower_image,
    lower_index,
    lower_layout,
    lower_loss,
    lower_nn,
    lower_order,
    lower_qnn,
    lower_quantize,
    lower_random,
    lower_region,
    lower_sample,
    lower_signal,
    lower_slice,
    lower_sparse,
    lower_tensor,
    lower_transform,
    lower_window,
)
from tvm_disc.relay.importer.lower_tensor import Rule
from tvm_disc.relay.importer.values import VALUES

LOWER: Mapping[str, Rule] = {
    **lower_tensor.LOWER,
    **lower_transform.LOWER,
    **lower_slice.LOWER,
    **lower_index.LOWER,
    **lower_order.LOWER,
    **lower_nn.LOWER,
    **lower_window.LOWER,
    **lower_image.LOWER,
    **lower_detect.LOWER,
    **lower_signal.LOWER,
    **lower_region.LOWER,
    **lower_random.LOWER,
    **lower_loss.LOWER,
    **lower_sample.LOWER,
    **lower_layout.LOWER,
    **lower_sparse.LOWER,
    **lower_quantize.LOWER,
    **lower_qnn.LOWER,
}

__all__ = ["LOWER", "VALUES"]
