"""``from tvm_disc.contrib import graph_executor``, the replacement of TVM's module."""

from __future__ import annotations

from tvm_disc.relay_api.executors.graph import GraphModule, create, load_module

__all__ = ["GraphModule", "create", "load_module"]
