"""Relay passes for TVM's pass manager.

A pass is a ``tvm.transform.Pass``: it works in ``tvm.transform.Sequential``, and the level, pass
lists and instruments of a ``tvm.transform.PassContext`` apply to it. Inside TVM, a
``tvm.IRModule`` (the carrier) holds the Relay module. A pass that is called with a Relay module
returns a Relay module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import _ffi_transform_api

from tvm_disc.errors import BadNode, parts_of, shown
from tvm_disc.relay.expr import Expr, Function
from tvm_disc.relay.inference.infer import infer_types
from tvm_disc.relay.module import IRModule, carried_by
from tvm_disc.typing import TVMModule

PassContext = tvm.transform.PassContext
PassInfo = tvm.transform.PassInfo
Sequential = tvm.transform.Sequential
ModuleFunction = Callable[[IRModule, Any], IRModule]
ExprFunction = Callable[[Function, IRModule, Any], Expr]


class Pass(tvm.transform.ModulePass):
    """A pass over a Relay module."""

    def __init__(self, run: ModuleFunction, info: Any) -> None:
        _check_pass(run, info)

        def crossing(mod: object, ctx: object) -> object:
            source = carried_by(mod)
            if source is None:
                raise BadNode(
                    f"the pass {info.name}: expected a Relay module, found a Relax module; "
                    "run the pass before PropagateShapeConstraints, which translates to Relax"
                )
            made = run(source, ctx)
            if not isinstance(made, IRModule):
                raise BadNode(
                    f"the pass {info.name}: expected a Relay module as its result, found "
                    f"{shown(made)}"
                )
            return made.__tvm_ffi_object__()

        self.__init_handle_by_constructor__(_ffi_transform_api.MakeModulePass, crossing, info)

    def __str__(self) -> str:
        return f"Run Module pass: {self.info.name} at the optimization level {self.info.opt_level}"


class FunctionPass(Pass):
    """A pass over each function of a Relay module separately."""

    def __init__(self, run: ExprFunction, info: Any) -> None:
        _check_pass(run, info)
        name = str(info.name)

        def over_functions(mod: IRModule, ctx: object) -> IRModule:
            made = with_functions(mod, lambda func: _checked(name, run(func, mod, ctx)))
            typed: IRModule = _typed()(made)
            return typed

        super().__init__(over_functions, info)

    def __str__(self) -> str:
        level = self.info.opt_level
        return f"Run Function pass: {self.info.name} at the optimization level {level}"


def _typed() -> Pass:
    """Return the pass ``InferType``, which runs after every function pass."""
    return Pass(lambda mod, _ctx: infer_types(mod), PassInfo(0, "InferType", [], False))


def _check_pass(run: object, info: object) -> None:
    """Check the arguments of a pass: TVM may crash the process on arguments of other types."""
    if not callable(run):
        raise BadNode(f"a pass: expected a function, found {shown(run)}")
    if not isinstance(info, PassInfo):
        raise BadNode(f"a pass: expected a relay.transform.PassInfo, found {shown(info)}")


def with_functions(mod: IRModule, change: Callable[[Function], Any]) -> IRModule:
    """Return a copy of ``mod`` with every function changed, unless it has an external compiler."""
    made = {g: f if _left_alone(f) else change(f) for g, f in mod.functions.items()}
    if all(made[g] is f for g, f in mod.functions.items()):
        return mod
    return replaced(mod, made)


def replaced(mod: IRModule, functions: dict[Any, Function]) -> IRModule:
    """Return a copy of ``mod`` with other functions; its data types keep their constructors."""
    copy = mod.with_attr("", None)
    del copy.attrs[""]
    copy.functions, copy._globals = {}, {}
    for name, func in functions.items():
        copy[name] = func
    return copy


def _left_alone(func: Function) -> bool:
    return "Compiler" in func.attrs or bool(func.attrs.get("SkipOptimization"))


def _checked(name: str, made: object) -> Function:
    if not isinstance(made, Function):
        raise BadNode(
            f"the pass {name}: expected a relay.Function as its result, found {shown(made)}"
        )
    return made


def _info(
    what: str, given: object, opt_level: int | None, name: str | None, required: object
) -> object:
    if opt_level is None:
        raise BadNode(f"Please provide opt_level for the {what} pass.")
    if not isinstance(opt_level, int) or not 0 <= opt_level < 1 << 31:
        raise BadNode(
            f"opt_level: expected an integer from 0 to 2^31 - 1, found {shown(opt_level)}"
        )
    if not isinstance(name, str | None):
        raise BadNode(f"name: expected a string, found {shown(name)}")
    if not isinstance(required, list | tuple | None):
        raise BadNode(f"required: expected a list of pass names, found {shown(required)}")
    if not callable(given):
        raise BadNode(
            f"pass_func must be a callable for {what.capitalize()} pass, found {shown(given)}"
        )
    told = name or getattr(given, "__name__", type(given).__name__)
    return PassInfo(opt_level, told, _names("required", required), False)


def _names(what: str, given: object) -> list[str]:
    """Return names of passes, checked: TVM may crash the process on values of other types."""
    found = list(parts_of(what, given or ()))
    for name in found:
        if not isinstance(name, str):
            raise BadNode(f"{what}: expected names of passes, found {shown(name)}")
    return found


def _of_class(base: type[Pass], cls: type, method: str, info: object) -> type[Pass]:
    """Return a class of passes that wraps a user's class and exposes its attributes."""

    def __init__(self: Any, *args: object, **kwargs: object) -> None:
        inner = cls(*args, **kwargs)
        base.__init__(self, getattr(inner, method), info)
        self._inst = inner

    def __getattr__(self: Any, name: str) -> Any:
        return getattr(self._inst, name)

    body = {"__init__": __init__, "__getattr__": __getattr__, "__doc__": cls.__doc__}
    return type(cls.__name__, (base,), {**body, "__module__": cls.__module__})


def _decorator(
    base: type[Any], what: str, method: str, given: object, told: tuple[Any, ...]
) -> object:
    def decorate(func: Any) -> object:
        info = _info(what, func, *told)
        if inspect.isclass(func):
            return _of_class(base, func, method, info)
        return base(func, info)

    if given is not None:
        return decorate(given)
    _info(what, decorate, *told)  # a missing level raises here, not when the decorator runs
    return decorate


def function_pass(
    pass_func: object = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
) -> object:
    """Return a pass of ``pass_func(function, module, context)``, or of a class that defines it.

    A class has ``transform_function(self, function, module, context)``. Without ``pass_func``,
    return a decorator.
    """
    told = (opt_level, name, required)
    return _decorator(FunctionPass, "function", "transform_function", pass_func, told)


def module_pass(
    pass_func: object = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
) -> object:
    """Return a pass of ``pass_func(module, context)``, or of a class that defines it.

    A class has ``transform_module(self, module, context)``. Without ``pass_func``, return a
    decorator.
    """
    told = (opt_level, name, required)
    return _decorator(Pass, "module", "transform_module", pass_func, told)


def build_config(
    opt_level: int = 2,
    required_pass: Sequence[str] | None = None,
    disabled_pass: Sequence[str] | None = None,
    trace: object = None,
) -> object:
    """Return a ``PassContext``; ``trace`` is ignored.

    Earlier releases of Relay had this function instead of the class.
    """
    if not isinstance(opt_level, int) or not 0 <= opt_level < 1 << 31:
        raise BadNode(
            f"opt_level: expected an integer from 0 to 2^31 - 1, found {shown(opt_level)}"
        )
    required = _names("required_pass", required_pass)
    return PassContext(opt_level, required, _names("disabled_pass", disabled_pass))


def _run(pass_: object, mod: IRModule | TVMModule) -> IRModule | TVMModule:
    """Run any pass; return a Relay module for a Relay module, unless the pass converts it."""
    if not isinstance(mod, IRModule | tvm.IRModule):
        raise BadNode(f"the pass {pass_.info.name}: expected a module, found {shown(mod)}")
    made = _ffi_transform_api.RunPass(pass_, mod)
    source = carried_by(made) if isinstance(mod, IRModule) else None
    return made if source is None else source


# With TVM's own ``__call__``, ``tvm.transform.Sequential`` would return the carrier, not the Relay
# module.
setattr(tvm.transform.Pass, "__call__", _run)  # noqa: B010


def register(make: Callable[[], Pass]) -> None:
    """Register a pass by name, so that other passes can require it."""
    name = make().info.name
    tvm_ffi.register_global_func(f"transform.{name}", make, override=True)


__all__ = [
    "FunctionPass",
    "Pass",
    "PassContext",
    "PassInfo",
    "Sequential",
    "build_config",
    "function_pass",
    "infer_types",
    "module_pass",
    "register",
    "replaced",
    "with_functions",
]
