"""Run a module on the emulated GPU: ``python -m tests.cuda.first_hour.emulated MODULE ...``."""

from __future__ import annotations

import runpy
import sys

from tests.cuda import emulator
from tests.cuda.first_hour import poison


class _Filled:
    """The emulated driver fills free memory with NaN by itself."""

    def fill(self) -> None:
        """Do nothing."""


def main() -> None:
    """Run it as a script."""
    poison.poison = _Filled  # type: ignore[assignment]
    del sys.argv[0]
    with emulator.emulated():
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
