"""All import rules and shape-value rules by Relay name, for the operator table."""

from __future__ import annotations

from collections.abc import Mapping

from tvm_disc.relay.importer.lowering import (
    checks,
    detect,
    image,
    index,
    layout,
    loss,
    nn,
    order,
    packed,
    qnn,
    quantize,
    random,
    region,
    run_time,
    sample,
    signal,
    slice,
    sparse,
    tensor,
    transform,
    transposed,
    window,
)
from tvm_disc.relay.importer.lowering.tensor import Rule
from tvm_disc.relay.importer.values import VALUES

LOWER: Mapping[str, Rule] = {
    **tensor.LOWER,
    **transform.LOWER,
    **slice.LOWER,
    **index.LOWER,
    **checks.LOWER,
    **run_time.LOWER,
    **order.LOWER,
    **nn.LOWER,
    **window.LOWER,
    **transposed.LOWER,
    **image.LOWER,
    **detect.LOWER,
    **signal.LOWER,
    **region.LOWER,
    **random.LOWER,
    **loss.LOWER,
    **sample.LOWER,
    **layout.LOWER,
    **sparse.LOWER,
    **quantize.LOWER,
    **qnn.LOWER,
    **packed.LOWER,
}

__all__ = ["LOWER", "VALUES"]
