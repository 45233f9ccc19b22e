"""Call graph of the functions of a module."""

from __future__ import annotations

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Function, GlobalVar
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import post_order


class CallGraph:
    """The calls between the functions of a module.

    Methods take a function's name or its ``GlobalVar``.
    """

    def __init__(self, module: IRModule) -> None:
        if not isinstance(module, IRModule):
            raise BadNode(f"CallGraph: expected a relay.IRModule, found {shown(module)}")
        self._module = module
        self._callees: dict[str, list[str]] = {}
        for gv, func in module.functions.items():
            names: list[str] = []
            if isinstance(func, Function):
                names = [e.name_hint for e in post_order(func) if isinstance(e, GlobalVar)]
            self._callees[gv.name_hint] = list(dict.fromkeys(names))

    @property
    def module(self) -> IRModule:
        """The module of the functions."""
        return self._module

    def ref_count(self, var: str | GlobalVar) -> int:
        """Return the number of functions of the module that call a function."""
        name = self._name(var)
        return sum(callees.count(name) for callees in self._callees.values())

    def global_call_count(self, var: str | GlobalVar) -> int:
        """Return the number of different functions of the module that a function calls."""
        return len(self._callees[self._name(var)])

    def is_recursive(self, var: str | GlobalVar) -> bool:
        """Return whether a function calls itself directly."""
        name = self._name(var)
        return name in self._callees[name]

    def print_var(self, var: str | GlobalVar) -> str:
        """Return the calls of one function as text."""
        name = self._name(var)
        lines = [f"Call graph node: {name},  #refs = {self.ref_count(name)}"]
        lines += [f"  call site: <{name}> calls {callee}" for callee in self._callees[name]]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return "\n".join(map(self.print_var, self._callees))

    def _name(self, var: str | GlobalVar) -> str:
        return self._module.get_global_var(
            var.name_hint if isinstance(var, GlobalVar) else var
        ).name_hint


__all__ = ["CallGraph"]
