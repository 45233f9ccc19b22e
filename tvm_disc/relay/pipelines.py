"""TVM's passes and instruments applied to Relay modules.

A Relay module passes through TVM's pass manager inside a ``tvm.IRModule``, its carrier. Functions
that a script gives to ``tvm.transform.module_pass`` and ``tvm.instrument.pass_instrument``, and
the pass ``tvm.transform.PrintIR``, receive the Relay module itself.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm.ir import instrument

from tvm_disc.relay.module import IRModule, carried_by
from tvm_disc.typing import PassContext

_SEEN = ("should_run", "run_before_pass", "run_after_pass")


def _reading(method: Callable[..., object], first: int = 0) -> Callable[..., object]:
    """Return ``method`` with a carrier in argument ``first`` replaced by its Relay module."""

    @functools.wraps(method)
    def call(*args: object) -> Any:
        given = list(args)
        given[first] = carried_by(given[first]) or given[first]
        made = method(*given)
        return made.__tvm_ffi_object__() if isinstance(made, IRModule) else made

    return call


def _reading_class(given: type) -> type:
    """Return a subclass of a class of module passes that receives Relay modules."""
    method = _reading(given.transform_module, first=1)  # type: ignore[attr-defined]
    body = {"transform_module": method, "__doc__": given.__doc__, "__module__": given.__module__}
    return type(given.__name__, (given,), body)


def _module_pass(make: Callable[..., object]) -> Callable[..., object]:
    """Return TVM's decorator of module passes, extended to passes over Relay modules."""

    @functools.wraps(make)
    def module_pass(
        pass_func: object = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> object:
        def decorate(given: object) -> object:
            if inspect.isclass(given) and hasattr(given, "transform_module"):
                given = _reading_class(given)
            elif callable(given) and hasattr(given, "__name__"):
                given = _reading(given)
            return make(given, opt_level, name, required, traceable)

        if pass_func is not None:
            return decorate(pass_func)
        make(None, opt_level, name, required, traceable)  # check the level now
        return decorate

    return module_pass


def _print_ir(make: Callable[[str], object]) -> Callable[..., object]:
    """Return TVM's ``PrintIR``, which prints Relay modules as Relay text."""

    def PrintIR(header: str = "") -> object:
        """Print the header and the module to the standard error stream."""
        other = make(header)

        def show(mod: IRModule, _ctx: PassContext) -> IRModule:
            if not isinstance(mod, IRModule):
                return other(mod)
            print(f"PrintIR({header}):\n{mod}", file=sys.stderr, flush=True)
            return mod

        return tvm.transform.module_pass(show, opt_level=0, name="PrintIR")

    return PrintIR


def _instrument(init: Callable[[object], None]) -> Callable[[object], None]:
    """Return the constructor of instruments whose methods receive Relay modules."""

    def __init__(self: object) -> None:
        for name in _SEEN:
            if getattr(type(self), name) is not getattr(instrument.PassInstrument, name):
                setattr(self, name, _reading(getattr(self, name)))
        init(self)

    return __init__


def register() -> None:
    """Replace TVM's constructors, once."""
    if getattr(tvm.ir.transform, "_takes_relay_modules", False):
        return
    made = {
        "module_pass": _module_pass(tvm.ir.transform.module_pass),
        "PrintIR": _print_ir(tvm.ir.transform.PrintIR),
    }
    for place in {id(m): m for m in (tvm.transform, tvm.ir.transform)}.values():
        for name, function in made.items():
            setattr(place, name, function)
    instrument.PassInstrument.__init__ = _instrument(instrument.PassInstrument.__init__)
    tvm.ir.transform._takes_relay_modules = True


__all__ = ["register"]
