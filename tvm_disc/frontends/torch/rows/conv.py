"""Converters of convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Value
from tvm_disc.typing import Ints


def per_axis(given: Any, rank: int) -> tuple[int, ...]:
    """Return one integer per spatial axis.

    Raises:
        Unsupported: a value is unknown at compile time.
    """
    values = [given] if isinstance(given, int) else list(given)
    if not all(isinstance(v, int) for v in values):
        raise Unsupported(f"expected window attributes known at compile time, found {values}")
    return tuple(values * rank if len(values) == 1 else values)


def _convolution(
    m: Maker,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: object,
    groups: int,
) -> Value:
    rank = weight.rank - 2
    if rank not in (1, 2, 3):
        raise Unsupported(f"expected 1 to 3 spatial axes, found {rank}")
    alone = x.rank == rank + 1
    x = m.expand(x, 0) if alone else x
    x = m.nonempty(x, range(2, 2 + rank), unless=0)
    stride, padding, dilation, more = (
        per_axis(v, rank) for v in (stride, padding, dilation, output_padding)
    )
    dims = (1, *m.out_dims) if alone else m.out_dims
    window = {"strides": stride, "dilation": dilation, "groups": groups}
    if transposed:
        made = _transposed(m, x, weight, (window, padding, more))
    else:
        made = m.call(
            f"nn.conv{rank}d",
            x,
            weight,
            padding=padding * 2,
            channels=None,
            kernel_size=None,
            **window,
        )
    if bias is not None:
        made = m.call("nn.bias_add", made, bias, axis=1)
    found = m.nonempty(Value(made, x.dtype, dims), range(2, 2 + rank))
    return m.squeeze(found, [0]) if alone else found


def _transposed(
    m: Maker, x: Value, weight: Value, how: tuple[Any, Sequence[int], Sequence[int]]
) -> object:
    """Return a transposed convolution; padding wider than the kernel is cropped afterwards."""
    window, padding, more = how
    rank = weight.rank - 2
    taps = weight.dims[2:]
    if not all(isinstance(t, int) for t in taps):
        raise Unsupported("expected a transposed convolution with a kernel of constant size")
    reach = [d * (t - 1) for d, t in zip(window["dilation"], taps, strict=True)]
    inside = tuple(min(p, r) for p, r in zip(padding, reach, strict=True))
    made = m.call(
        f"nn.conv{rank}d_transpose",
        x,
        weight,
        padding=inside * 2,
        output_padding=tuple(more),
        channels=None,
        kernel_size=None,
        **window,
    )
    extra = [p - i for p, i in zip(padding, inside, strict=True)]
    for axis, cut in enumerate(extra):
        if cut:
            where = {"begin": (cut,), "end": (-cut,), "strides": (1,), "axes": (2 + axis,)}
            made = m.call("strided_slice", made, **where)
    return made


def _plain(m: Maker, x: Value, weight: Value, bias: Value | None = None, stride: Ints = 1,
           padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1) -> Value:  # fmt: skip
    if isinstance(padding, str):
        return _padded(m, x, weight, bias, stride, padding, dilation, groups)
    return _convolution(m, x, weight, bias, stride, padding, dilation, False, 0, groups)


def _padded(m: Maker, x: Value, weight: Value, bias: Value | None, stride: Ints, padding: str,
            dilation: Ints, groups: int) -> Value:  # fmt: skip
    """Return a convolution with ``same`` or ``valid`` padding.

    If the total width of ``same`` is odd, the end gets one element more than the start.
    """
    rank = weight.rank - 2
    if padding == "valid":
        return _convolution(m, x, weight, bias, stride, 0, dilation, False, 0, groups)
    steps = per_axis(dilation, rank)
    totals = [d * (int(t) - 1) for d, t in zip(steps, weight.dims[2:], strict=True)]
    pairs = [(0, 0)] * (x.rank - rank) + [(t // 2, t - t // 2) for t in totals]
    wide = m.call("nn.pad", x, m.literal(0, x.dtype), pad_width=tuple(pairs))
    dims = (*x.dims[: x.rank - rank], *[None] * rank)
    return _convolution(
        m, Value(wide, x.dtype, dims), weight, bias, stride, 0, dilation, False, 0, groups
    )


def _plain_transposed(m: Maker, x: Value, weight: Value, bias: Value | None = None,
                      stride: Ints = 1, padding: Ints = 0, output_padding: object = 0,
                      groups: int = 1, dilation: Ints = 1) -> Value:  # fmt: skip
    return _convolution(m, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


ROWS: Mapping[str, Row] = {
    "convolution.default": _convolution,
    "_convolution.default": lambda m, *args: _convolution(m, *args[:9]),
    **{f"conv{n}d.{o}": _plain for n in (1, 2, 3) for o in ("default", "padding")},
    "conv_transpose1d.default": _plain_transposed,
    "conv_transpose2d.input": _plain_transposed,
    "conv_transpose3d.input": _plain_transposed,
}
