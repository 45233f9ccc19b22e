"""Relay's analyses that are not supported, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_disc.errors import Unsupported

_CODE_GENERATORS = "programs are not handed to external code generators"
REFUSED: Mapping[str, str] = {
    "AnnotatedRegionSet": _CODE_GENERATORS,
    "get_calibration_data": _CODE_GENERATORS,
    "extract_fused_functions": (
        "fusion is planned over symbolic shapes, not as functions of a Relay module; "
        "Executable.explain() lists what was fused, and Executable.kernels the kernels"
    ),
    "sparse_conv2d": "weights are not converted to sparse tensors",
    "sparse_dense": "weights are not converted to sparse tensors",
}


def refused(name: str, *args: object, **kwargs: object) -> Any:
    """Refuse an analysis, whatever its arguments.

    Raises:
        Unsupported: always, with the reason.
    """
    raise Unsupported(f"relay.analysis.{name}: {REFUSED[name]}")


__all__ = ["REFUSED", "refused"]
