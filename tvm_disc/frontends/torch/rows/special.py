"""Converters of special functions, which are computed in float64 and cast to the result's dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_disc.frontends import special
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Value


def _in_float64(function: Callable[[Maker, Value], Value]) -> Row:
    def row(m: Maker, x: Value) -> Value:
        # PyTorch first casts integers to the dtype of the result.
        return m.cast(function(m, m.cast(m.cast(x, m.out_dtype), "float64")), m.out_dtype)

    return row


ROWS: Mapping[str, Row] = {
    "digamma.default": _in_float64(special.digamma),
    "erfinv.default": _in_float64(special.erfinv),
    "special_erfcx.default": _in_float64(special.erfcx),
    "special_log_ndtr.default": _in_float64(special.log_ndtr),
    "special_ndtri.default": _in_float64(special.ndtri),
    "i0.default": _in_float64(special.bessel_i(0, scaled=False)),
    "special_i0e.default": _in_float64(special.bessel_i(0, scaled=True)),
    "special_i1.default": _in_float64(special.bessel_i(1, scaled=False)),
    "special_i1e.default": _in_float64(special.bessel_i(1, scaled=True)),
}
