"""Check of optional dependencies."""

from __future__ import annotations

import importlib.util

from tvm_disc.errors import Unsupported


def require(module: str, extra: str, what: str) -> None:
    """Raise Unsupported if ``module`` is missing, naming the extra that installs it."""
    if importlib.util.find_spec(module) is None:
        raise Unsupported(
            f"{what} needs the package '{module}', which is not installed; "
            f"pip install 'tvm_disc[{extra}]'"
        )
