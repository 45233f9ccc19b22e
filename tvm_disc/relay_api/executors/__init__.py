"""Relay's executors: ``create_executor``, ``relay.build`` and the virtual machine.

They are thin wrappers of :class:`tvm_disc.Executable`: each calls ``tvm_disc.build`` once, and runs
the program for every shape. ``relay.create_executor``, ``relay.build`` and ``relay.vm`` are defined
here.
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
