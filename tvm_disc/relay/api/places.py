"""Aliases of modules at Relay's paths, such as ``relay.scope_builder``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

# Relay's path, below relay -> module here that has its members.
PLACES: Mapping[str, str] = {
    "adt": "tvm_disc.relay.api.adt",
    "backend": "tvm_disc.executors.backend",
    "backend.executor": "tvm_disc.executors.backend",
    "backend.executor_factory": "tvm_disc.executors.factory",
    "backend.interpreter": "tvm_disc.executors.interpreter",
    "backend.runtime": "tvm_disc.executors.backend",
    "backend.te_compiler": "tvm_disc.executors.te_compiler",
    "backend.vm": "tvm_disc.executors.vm",
    "base": "tvm_disc.relay.api.base",
    "build_module": "tvm_disc.executors.build_module",
    "frontend.common": "tvm_disc.relay.api.frontend_common",
    "function": "tvm_disc.relay.expr",
    "op.algorithm": "tvm_disc.relay.op",
    "op.annotation": "tvm_disc.relay.api.annotation",
    "op.dyn": "tvm_disc.relay.dyn",
    "op.image": "tvm_disc.relay.image",
    "op.nn": "tvm_disc.relay.nn",
    "op.op": "tvm_disc.relay.api.registry",
    "op.random": "tvm_disc.relay.api.random",
    "op.reduce": "tvm_disc.relay.op",
    "op.tensor": "tvm_disc.relay.op",
    "op.transform": "tvm_disc.relay.op",
    "op.vision": "tvm_disc.relay.vision",
    "param_dict": "tvm_disc.relay.ndarray",
    "parser": "tvm_disc.relay.text.parser",
    "qnn.op": "tvm_disc.relay.qnn",
    "qnn.op.legalizations": "tvm_disc.relay.api.qnn_legalizations",
    "qnn.op.qnn": "tvm_disc.relay.qnn",
    "qnn.transform": "tvm_disc.relay.api.qnn_transform",
    "scope_builder": "tvm_disc.relay.builder",
    "ty": "tvm_disc.relay.types",
}


class _Elsewhere(ModuleType):
    """A module whose members are those of another module, which is imported on first use."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name, f"What Relay had here is ``{place}``.")
        self.__dict__["_place"] = place
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self.__dict__["_place"]), name)


def register() -> None:
    """Add the modules to ``sys.modules``."""
    for path, place in PLACES.items():
        name = f"tvm_disc.relay.{path}"
        sys.modules.setdefault(name, _Elsewhere(name, place))


__all__ = ["PLACES", "register"]
