"""``relay.image.*``: operators, and resizes whose region of interest is optional."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_disc.errors import refusing
from tvm_disc.relay.builder import call, const
from tvm_disc.relay.expr import Call, ExprLike
from tvm_disc.relay_api import op


def __getattr__(name: str) -> Any:
    return op.member("image", name)


def _resize(rank: int, layout: str) -> Callable[..., Call]:
    def build(
        data: ExprLike,
        size: Any,
        roi: Any = None,
        layout: str = layout,
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "",
        cubic_alpha: float = -0.5,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: str | None = None,
    ) -> Call:
        size = op.known(size)
        size = (size,) * rank if isinstance(size, int) else size
        roi = (0.0,) * (2 * rank) if roi is None else op.known(roi)
        attrs: dict[str, object] = {
            "layout": layout,
            "method": method,
            "coordinate_transformation_mode": coordinate_transformation_mode,
            "rounding_method": rounding_method,
            "cubic_alpha": cubic_alpha,
            "cubic_exclude": cubic_exclude,
            "extrapolation_value": extrapolation_value,
            "out_dtype": out_dtype or "",
        }
        if rank == 2 and (op.is_expr(size) or op.is_expr(roi)):  # only rank 2 has a dyn operator
            where = size if op.is_expr(size) else const(np.array(size), "int64")
            region = roi if op.is_expr(roi) else const(np.array(roi), "float32")
            return call("dyn.image.resize2d", (data, where, region), **attrs)
        return call(f"image.resize{rank}d", (data,), size=size, roi=roi, **attrs)

    dyn = ", or its ``dyn`` form if the size or region is an expression" if rank == 2 else ""
    build.__name__ = build.__qualname__ = f"resize{rank}d"
    build.__doc__ = f"Return ``image.resize{rank}d``{dyn}."
    return refusing(build)  # after the names are set: messages contain them


resize1d = _resize(1, "NCW")
resize2d = _resize(2, "NCHW")
resize3d = _resize(3, "NCDHW")
