"""``relay.create_executor``: compile and run a module, a function or an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_disc.errors import BadInput, BadOption, shown
from tvm_disc.relay.expr import Constant, Expr, Function, GlobalVar, Let, Var, as_expr
from tvm_disc.relay.module import IRModule
from tvm_disc.relay_api.executors.programs import (
    Programs,
    as_relay_module,
    check_device,
    one_target,
    with_entry,
)
from tvm_disc.relay_api.executors.values import ADT, argument, results
from tvm_disc.typing import Argument, Array

KINDS = ("debug", "graph", "vm", "aot")


class Executor:
    """Compiler and runner of programs; all kinds of executors run the same native program.

    Tuples are returned as lists by the kinds ``graph`` and ``aot``, as in Relay.
    """

    def __init__(
        self,
        kind: str = "debug",
        mod: IRModule | None = None,
        device: object = None,
        target: object = "llvm",
        params: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(kind, str) or kind not in KINDS:
            raise BadOption(f"kind: expected one of {', '.join(KINDS)}, found {shown(kind)}")
        check_device(device)
        self.kind = kind
        self.mod = None if mod is None else as_relay_module(mod)
        self.device, self.params = device, params
        # The program runs in this process, so all instruction sets of this machine may be used.
        self.target = None if isinstance(target, str) and target == "llvm" else one_target(target)

    def evaluate(self, expr: object = None, binds: Mapping[Var, Any] | None = None) -> Any:
        """Return a callable if ``expr`` is a function, a ``GlobalVar`` or ``main``; otherwise the
        value of ``expr``.

        Args:
            expr: the function or expression to run; ``main`` by default.
            binds: expressions or arrays for free variables of ``expr``.

        Raises:
            BadInput: there is nothing to run, or variables are free.
        """
        if expr is None:
            if binds:
                raise BadInput(
                    "evaluate: binds= requires an expression whose free variables it binds"
                )
            return self._function("main")
        expr = as_expr(expr)
        for var, value in reversed(list((binds or {}).items())):
            expr = Let(var, value if isinstance(value, Expr) else _constant(var, value), expr)
        if isinstance(expr, Function | GlobalVar):
            return self._function(expr)
        return self._function(expr)()

    def _function(self, entry: Expr | str) -> Callable[..., Any]:
        if self.mod is None and isinstance(entry, str | GlobalVar):
            raise BadInput(
                "evaluate: found no module; pass mod= to create_executor, or an expression to "
                "evaluate"
            )
        mod = with_entry(self.mod, entry)
        program = Programs(mod, self.params, self.target)("main")
        constructors = mod.constructors
        tuples = list if self.kind in ("graph", "aot") else ADT

        def run(*args: Argument, **kwargs: Argument) -> Any:
            named = {name: argument(value) for name, value in kwargs.items()}
            return results(program(*map(argument, args), **named), constructors, tuples)

        run.program = program  # type: ignore[attr-defined]
        return run


def _constant(var: Var, value: Array | str) -> Constant:
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind not in "biuf":
        where = f"binds: '{var.name_hint}'"
        raise BadInput(
            f"{where}: expected an expression or an array of bools, integers or floats of "
            f"NumPy, found {shown(value)}"
        )
    return Constant(array)


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: object = None,
    target: object = "llvm",
    params: Mapping[str, object] | None = None,
) -> Executor:
    """Return an executor of a Relay module: ``create_executor("vm", mod).evaluate()(x)``.

    Args:
        kind: ``debug``, ``graph``, ``vm`` or ``aot``; all compile one program for all shapes.
        mod: the module; without one, ``evaluate`` takes expressions without global functions.
        device: the CPU.
        target: a CPU; ``llvm`` is this machine.
        params: values of inputs of ``main``, by name, which become constants.

    Raises:
        BadOption: there is no such kind.
        Unsupported: the device or target is not a CPU.
    """
    return Executor(kind, mod, device, target, params)


__all__ = ["KINDS", "Executor", "create_executor"]
