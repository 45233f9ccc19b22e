"""Conversion of a Relay module to a Relax module that any TVM pipeline accepts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvm_disc.errors import BadNode
from tvm_disc.relay.importer.inputs import check_params, with_input_types
from tvm_disc.relay.importer.module import import_module
from tvm_disc.relay.module import IRModule

__all__ = ["to_relax"]


def to_relax(mod: IRModule, params: Mapping[str, np.ndarray] | None = None) -> object:
    """Return ``mod`` as a Relax ``tvm.IRModule`` with a symbolic dim for every ``?``.

    Args:
        params: inputs of ``main``, by name, that become constants.

    Raises:
        Unsupported, TypeMismatch, ShapeConflict: with the position in the source.
    """
    if not isinstance(mod, IRModule):
        raise BadNode(f"expected a relay.IRModule, found {type(mod).__name__}")
    known = check_params(params or {})
    return import_module(with_input_types(mod, known), known).mod
