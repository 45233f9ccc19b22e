"""Check that optional dependencies are installed."""

from __future__ import annotations

import importlib.util

from tvm_disc.errors import Unsupported


def require(module: str, extra: str, what: str) -> None:
    """Raise Unsupported if ``module`` is not installed; the message names the pip extra."""
    if importlib.util.find_spec(module) is None:
        raise Unsupported(
            f"{what} needs the package '{module}', which is not installed; "
            f"pip install 'tvm_disc[{extra}]'"
        )
