"""All rows: importing one of these modules adds its rows to the table."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from benchmarks.zoo.row import ROWS

MODULES = ("encoders", "decoders", "causal", "varied", "seq2seq", "sequences", "speech", "tables",
           "images", "detect")  # fmt: skip

# These modules require torchvision and are skipped without it.
_TORCHVISION = ("images", "detect")

for _name in MODULES:
    if _name not in _TORCHVISION or find_spec("torchvision") is not None:
        import_module(f"benchmarks.zoo.{_name}")

__all__ = ["MODULES", "ROWS"]
