"""Relay to Relax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_disc.relay.module import IRModule


def to_relax(mod: IRModule, params: Mapping[str, np.ndarray] | None = None) -> Any:
    """The Relax module that a Relay module becomes, for TVM's own passes and virtual machine.

    Raises: as :func:`tvm_disc.build`.
    """
    from tvm_disc.relay.importer.module import import_module

    return import_module(mod, params).mod


__all__ = ["to_relax"]
