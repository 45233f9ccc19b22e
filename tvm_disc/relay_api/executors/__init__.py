"""Relay's executors: ``create_executor``, ``relay.build`` and the virtual machine.

Thin wrappers of :class:`tvm_disc.Executable`: each compiles once by ``tvm_disc.build``, and runs
the program for every shape. ``relay.create_executor``, ``relay.build`` and ``relay.vm`` refer to
these.
"""

from __future__ import annotations

from tvm_disc.relay_api.executors import backend, build_module, factory, graph, vm
from tvm_disc.relay_api.executors.evaluate import Executor, create_executor
from tvm_disc.relay_api.executors.factory import build

__all__ = [
    "Executor",
    "backend",
    "build",
    "build_module",
    "create_executor",
    "factory",
    "graph",
    "vm",
]
