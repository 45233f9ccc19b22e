"""``relay.build_module``: where older scripts find ``build``, ``create_executor`` and binding."""

from __future__ import annotations

from tvm_disc.executors.evaluate import Executor, create_executor
from tvm_disc.executors.factory import build
from tvm_disc.executors.graph import load_module
from tvm_disc.executors.vm import VMExecutor
from tvm_disc.relay.analysis.binding import bind_params_by_name

__all__ = [
    "Executor",
    "VMExecutor",
    "bind_params_by_name",
    "build",
    "create_executor",
    "load_module",
]
