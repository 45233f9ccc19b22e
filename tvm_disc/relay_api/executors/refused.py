"""Attributes of Relay's executors that are not supported, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from tvm_disc.errors import Unsupported

_BYTECODE = "a program is native code without bytecode; .program.explain() describes it"
_CONSTANTS = "constants are part of the program's library, whose file is mapped"
REASONS: Mapping[str, str] = {
    "bytecode": _BYTECODE,
    "constants": _CONSTANTS,
    "debug_get_output": "a kernel computes several operators; .program.profile(...) times kernels",
    "get_late_bound_consts": _CONSTANTS,
    "load_late_bound_consts": _CONSTANTS,
    "load_late_bound_consts_from_map": _CONSTANTS,
    "lowered_ir_mods": "functions are lowered together; Options(dump_dir=...) writes every stage",
    "function_metadata": "memory depends on shapes; .program.workspace_bytes(shapes) computes it",
    "move_late_bound_consts": _CONSTANTS,
    "primitive_ops": _BYTECODE,
    "primitives": _BYTECODE,
    "share_params": "processes share a saved program's constants automatically, as mapped pages",
    "stats": _BYTECODE,
    "virtual_devices": "there is one device, the CPU",
}


def refuse(name: str) -> NoReturn:
    """Raise an error with the reason why attribute ``name`` is not supported.

    Raises:
        Unsupported: always.
    """
    raise Unsupported(f"{name}: {REASONS[name]}")


def refused_attribute(owner: object, name: str, among: frozenset[str]) -> NoReturn:
    """Implement ``__getattr__``: raise Unsupported for names in ``among``, else AttributeError."""
    if name in among:
        refuse(name)
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")


__all__ = ["REASONS", "refuse", "refused_attribute"]
