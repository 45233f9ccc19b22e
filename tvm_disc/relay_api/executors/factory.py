"""``relay.build``: a program with the interface of Relay's executor factory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_disc.errors import BadOption, Unsupported, shown
from tvm_disc.relay_api.executors.graph import Instance, Library, graph_json
from tvm_disc.relay_api.executors.programs import Programs, as_relay_module, one_target
from tvm_disc.relay_api.executors.refused import refused_attribute

if TYPE_CHECKING:
    from tvm_disc.relay.module import IRModule


_REFUSED = frozenset(["function_metadata", "lowered_ir_mods"])


class Executor:
    """``relay.backend.Executor("graph")``; ``graph`` and ``aot`` select the same program."""

    def __init__(self, name: str = "graph", options: Mapping[str, object] | None = None) -> None:
        if name not in ("graph", "aot"):
            raise BadOption(f"executor: expected graph or aot, found {shown(name)}")
        self.name, self.options = name, dict(options or {})

    def __getitem__(self, name: str) -> Any:
        return self.options[name]


class Runtime:
    """``relay.backend.Runtime("cpp")``; microcontroller runtimes are not supported."""

    def __init__(self, name: str = "cpp", options: Mapping[str, object] | None = None) -> None:
        if name != "cpp":
            raise Unsupported(f"runtime: expected 'cpp', TVM's C++ runtime, found {shown(name)}")
        self.name, self.options = name, dict(options or {})


class ExecutorFactoryModule:
    """Result of ``relay.build``: ``lib["default"](device)``, ``export_library``, ``get_params``.

    Parameters are constants of the program and need not be set.
    """

    def __init__(self, programs: Programs, executor: Executor, libmod_name: str) -> None:
        self.ir_mod, self.target = programs.mod, programs.target
        self.executor, self.libmod_name = executor, libmod_name
        self.program = programs("main")
        self.lib = Library(self.program, programs.bound(programs.mod))
        self.module = self

    def __getattr__(self, name: str) -> Any:
        refused_attribute(self, name, _REFUSED)

    def __getitem__(self, item: str) -> Callable[..., Instance]:
        if item != self.libmod_name:
            raise AttributeError(
                f"the library has no function {item!r}; its only function is {self.libmod_name!r}"
            )
        return self.lib.instance

    def __iter__(self) -> Iterator[Any]:
        """Support ``graph, lib, params = relay.build(...)``, the interface of Relay before 2021."""
        warnings.warn(
            "relay.build returns one factory; use lib = relay.build(...) instead of three values",
            DeprecationWarning,
            stacklevel=2,
        )
        return iter((self.get_graph_json(), self.lib, self.get_params()))

    @property
    def graph_json(self) -> str:
        """The result of :meth:`get_graph_json`."""
        return self.get_graph_json()

    def get_graph_json(self) -> str:
        """Return a graph of the inputs and one call, which computes all operators."""
        return graph_json(self.program, self.libmod_name)

    def get_executor_config(self) -> str:
        """Return :meth:`get_graph_json`."""
        return self.get_graph_json()

    def get_lib(self) -> Library:
        """Return the machine code."""
        return self.lib

    def get_params(self) -> dict[str, object]:
        """Return an empty dict: parameters are constants of the program and need not be set."""
        return {}

    def get_devices(self) -> list[str]:
        """Return the devices that the program runs on."""
        return ["cpu"]

    def export_library(
        self,
        file_name: str | Path,
        fcompile: object = None,
        addons: object = None,
        **kwargs: object,
    ) -> str:
        """Write one shared library; ``load_module`` or ``tvm_disc.load`` reads it."""
        if addons:
            raise Unsupported(
                "export_library: addons= is not supported: only the program is linked; leave it out"
            )
        return self.lib.export_library(file_name, fcompile, **kwargs)


def build(
    ir_mod: IRModule,
    target: object = None,
    target_host: object = None,
    executor: Executor | None = None,
    runtime: Runtime | None = None,
    workspace_memory_pools: object = None,
    constant_memory_pools: object = None,
    params: Mapping[str, object] | None = None,
    mod_name: str = "default",
) -> ExecutorFactoryModule:
    """Call ``tvm_disc.build`` with Relay's arguments and result type; dims may be dynamic.

    Args:
        ir_mod: a Relay module or function.
        target: a CPU; this machine by default.
        params: values of inputs of ``main``, by name, which become constants.
        mod_name: the name accepted by ``lib[mod_name]``.

    Raises:
        Unsupported: the device or runtime is not supported, or memory pools are given.
    """
    for name, pools in (("workspace", workspace_memory_pools), ("constant", constant_memory_pools)):
        if pools is not None:
            raise Unsupported(
                f"{name}_memory_pools: memory pools are not supported; keep_memory() of the "
                "program limits its idle memory"
            )
    if not isinstance(runtime, Runtime | None):
        raise BadOption(f"runtime: expected relay.backend.Runtime, found {shown(runtime)}")
    if not isinstance(executor, Executor | None):
        raise BadOption(f"executor: expected relay.backend.Executor, found {shown(executor)}")
    programs = Programs(as_relay_module(ir_mod), params, one_target(target, target_host))
    return ExecutorFactoryModule(programs, executor or Executor(), mod_name)


__all__ = ["Executor", "ExecutorFactoryModule", "Runtime", "build"]
