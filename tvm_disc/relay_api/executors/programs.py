"""Compilation of a Relay module's function by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from tvm_disc.compile import build
from tvm_disc.errors import BadInput, BadNode, Unsupported, shown
from tvm_disc.relay.expr import Expr, Function, GlobalVar
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import free_vars, post_order
from tvm_disc.relay_api.executors.registered import with_registered
from tvm_disc.runtime.arrays import as_array
from tvm_disc.runtime.executable import Executable

CPU = 1  # DLPack's number


def check_device(device: object) -> None:
    """Refuse devices other than the CPU.

    Raises:
        Unsupported: the device is not supported.
        BadInput: ``device`` is not a device.
    """
    for one in device if isinstance(device, list | tuple) else [device]:
        kind = getattr(one, "dlpack_device_type", None)
        if one is None:
            continue
        if kind is None:
            raise BadInput(f"device: expected a device such as tvm.cpu(), found {shown(one)}")
        if kind() != CPU:
            raise Unsupported(
                f"device: expected a CPU, found {one}; Relay's executors run programs on the CPU "
                "only: pass tvm.cpu(), or use tvm_disc.build for a GPU"
            )


def one_target(target: object, target_host: object = None) -> Any:
    """Return a target, given in any of Relay's forms, as the argument of ``tvm_disc.build``.

    Raises:
        Unsupported: the target names several devices, or a different host.
    """
    odd = isinstance(target_host, list | tuple)
    if target_host is not None and (odd or str(target_host) != str(target)):
        raise Unsupported(
            f"target_host: expected the target ({target}) or None, found "
            f"{shown(target_host)}: host code and kernels are one program"
        )
    values = list(target.values()) if isinstance(target, dict) and "kind" not in target else None
    if values is None:
        return target
    if len(values) != 1:
        raise Unsupported(f"target: expected one device, the CPU, found {len(values)}")
    return values[0]


def as_relay_module(mod: object) -> IRModule:
    """Return a module, a function or an expression as a module.

    Raises:
        BadNode: ``mod`` is not a Relay program; a ``tvm.IRModule`` cannot contain Relay functions.
    """
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, Expr):
        return IRModule.from_expr(mod)
    hint = "; TVM's IRModule cannot contain Relay, use relay.IRModule"
    hint = hint if isinstance(mod, tvm.IRModule) else ""
    raise BadNode(f"mod: expected a relay.IRModule, found {type(mod).__name__}{hint}")


def with_entry(mod: IRModule | None, entry: Expr | str) -> IRModule:
    """Return a module whose ``main`` is a function of ``mod``, another function, or an expression.

    Raises:
        BadInput: there is no such function, or the expression has free variables.
        Unsupported: the module's own ``main``, which would be replaced, is called.
    """
    mod = IRModule() if mod is None else mod
    if isinstance(entry, GlobalVar):
        entry = entry.name_hint
    if isinstance(entry, str):
        if entry not in mod:
            names = ", ".join(f"@{g.name_hint}" for g in mod.get_global_vars()) or "none"
            raise BadInput(f"the module has no function {entry}; its functions: {names}")
        if entry == "main":
            return mod
        entry = mod[entry]
    if free := free_vars(entry):
        names = ", ".join(f"%{v.name_hint}" for v in free)
        raise BadInput(
            f"the expression has free variables, {names}; pass binds= for them, or make a "
            "relay.Function of it"
        )
    main = entry if isinstance(entry, Function) else Function((), entry)
    if "main" in mod and mod["main"] is not main:
        callers = [main, *(f for g, f in mod.functions.items() if g.name_hint != "main")]
        for node in post_order(*callers):
            if isinstance(node, GlobalVar) and node.name_hint == "main":
                raise Unsupported(
                    "the expression to run replaces the module's @main, which is called by "
                    "a function; rename @main"
                )
    return mod.with_main(main)


def as_arrays(params: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """Return parameters as NumPy arrays.

    Raises:
        BadInput: ``params`` is not a mapping from names to arrays.
    """
    if not isinstance(params, Mapping | None):
        raise BadInput(
            f"params: expected a mapping from names to arrays, found {type(params).__name__}"
        )
    return {
        str(name): as_array(value) if hasattr(value, "__dlpack__") else np.asarray(value)
        for name, value in (params or {}).items()
    }


class Programs:
    """The programs of a module, one per function, compiled on demand.

    Parameters that are not inputs of a function are ignored, as in Relay.
    """

    def __init__(
        self, mod: IRModule, params: Mapping[str, object] | None, target: str | None
    ) -> None:
        self.mod, self.params, self.target = mod, as_arrays(params), target
        self._made: dict[str, Executable] = {}

    def __call__(self, name: str) -> Executable:
        """Return the program whose entry is that function; compiled at the first request."""
        if name not in self._made:
            mod = with_registered(with_entry(self.mod, name))
            self._made[name] = build(mod, params=self.bound(mod), target=self.target)
        return self._made[name]

    def bound(self, mod: IRModule) -> dict[str, np.ndarray]:
        """Return the parameters that are inputs of ``main``."""
        names = {p.name_hint for p in mod["main"].params}
        return {name: value for name, value in self.params.items() if name in names}


class Ready:
    """One existing program, for instance from a file, with the interface of ``Programs``."""

    def __init__(self, program: Executable) -> None:
        self._program = program
        self.mod: IRModule | None = None
        self.params: dict[str, np.ndarray] = {}

    def __call__(self, name: str) -> Executable:
        """Return the program if ``name`` is ``main``."""
        if name != "main":
            raise BadInput(f"a saved program has one function, main; found {shown(name)}")
        return self._program


__all__ = [
    "Programs",
    "Ready",
    "as_arrays",
    "as_relay_module",
    "check_device",
    "one_target",
    "with_entry",
]
