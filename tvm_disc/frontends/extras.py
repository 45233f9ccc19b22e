"""Optional dependencies."""

from __future__ import annotations

import importlib.util

from tvm_disc.errors import Unsupported


def require(module: str, extra: str, what: str) -> None:
    """Say which extra of the package brings ``module``, where it is missing."""
    if importlib.util.find_spec(module) is None:
        raise Unsupported(
            f"{what} needs the package '{module}', which is not installed; "
            f"pip install 'tvm_disc[{extra}]'"
        )
