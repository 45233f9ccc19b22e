"""Rows: windows of images as columns, and back."""

from __future__ import annotations

from tvm_disc.errors import TypeMismatch
from tvm_disc.frontends.calc import Expr
from tvm_disc.frontends.onnx.node import Node
from tvm_disc.frontends.onnx.table import row


@row("Col2Im")
def _col2im(n: Node) -> Expr:
    """An image as the sum of the windows that cover each element, one axis after the other."""
    x = n[0]
    rank = max(len(n.attr(a) or ()) for a in ("strides", "dilations"))
    rank = rank or len(n.attr("pads") or ()) // 2 or n.count(n[1], "the image's shape")
    image, block = (n.sizes_in(n.reshape(n[k], [rank]), "a shape") for k in (1, 2))
    strides = [int(s) for s in n.attr("strides") or [1] * rank]
    dilations = [int(d) for d in n.attr("dilations") or [1] * rank]
    pads = [int(p) for p in n.attr("pads") or [0] * 2 * rank]
    if n.rank(x) != 3:
        raise TypeMismatch(f"expected an input of rank 3, found rank {n.rank(x)}")
    counts = []
    for k in range(rank):
        span = n.dim("multiply", n.dim("subtract", block[k], 1), dilations[k])
        rest = n.dim("subtract", n.dim("add", image[k], pads[k] + pads[k + rank] - 1), span)
        counts.append(n.dim("add", n.dim("floor_divide", rest, strides[k]), 1))
    channels = n.dim("floor_divide", n.size(x, 1), n.product(block))
    x = n.reshape(x, [n.size(x, 0), channels, *block, *counts])
    # Each block axis next to its windows, as one line.
    order = [0, 1, *(a for k in range(rank) for a in (2 + k, 2 + rank + k))]
    lines = [n.dim("multiply", b, c) for b, c in zip(block, counts, strict=True)]
    x = n.reshape(n.transpose(x, order), [n.size(x, 0), channels, *lines])
    for k in range(rank):
        tap, place = n.arange(block[k]), n.expand(n.arange(image[k]), 1)
        begin = n.sub(n.add(place, pads[k]), n.mul(tap, dilations[k]))  # [image, block]
        window = n.floor_div(begin, strides[k])
        inside = n.logical_and(n.greater_equal(begin, 0), n.less(window, n.scalar(counts[k])))
        inside = n.logical_and(inside, n.equal(n.floor_mod(begin, strides[k]), 0))
        at = n.add(n.mul(tap, n.scalar(counts[k])), n.maximum(window, 0))
        read = n.take(x, n.where(inside, at, 0), 2 + k)
        shown = n.expand(inside, 2, rank - 1 - k) if k < rank - 1 else inside
        x = n.reduce("sum", n.where(shown, read, n.like(0, x)), [3 + k])
    return x
