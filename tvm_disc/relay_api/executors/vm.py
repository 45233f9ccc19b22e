"""``relay.vm``: the interface of Relay's virtual machine for native programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tvm.runtime.module import BenchmarkResult

from tvm_disc.errors import BadInput, counted, shown
from tvm_disc.relay.module import IRModule
from tvm_disc.relay_api.executors.evaluate import Executor
from tvm_disc.relay_api.executors.graph import Library
from tvm_disc.relay_api.executors.programs import (
    Programs,
    Ready,
    as_relay_module,
    check_device,
    one_target,
)
from tvm_disc.relay_api.executors.refused import refused_attribute
from tvm_disc.relay_api.executors.timing import timed
from tvm_disc.relay_api.executors.values import argument, results
from tvm_disc.runtime.arrays import as_array, leaves
from tvm_disc.runtime.executable import Executable as Program
from tvm_disc.runtime.loading import restored
from tvm_disc.runtime.saved import as_bytes
from tvm_disc.typing import Device

_REFUSED = frozenset(
    "bytecode constants primitives primitive_ops stats virtual_devices move_late_bound_consts "
    "get_late_bound_consts load_late_bound_consts load_late_bound_consts_from_map".split()
)


class Executable:
    """Result of ``relay.vm.compile``: a program for each function of the module."""

    def __init__(self, programs: Programs | Ready) -> None:
        self._programs = programs

    def __getattr__(self, name: str) -> Any:
        refused_attribute(self, name, _REFUSED)

    @property
    def program(self) -> Program:
        """The program of ``main``, with ``explain`` and ``profile``."""
        return self.of("main")

    def of(self, name: str) -> Program:
        """Return the program of a function."""
        return self._programs(name)

    @property
    def source(self) -> IRModule | None:
        """The module; None for a loaded program."""
        return self._programs.mod

    @property
    def lib(self) -> Library:
        """The machine code of ``main``, with ``export_library``."""
        return Library(self.program, self._programs.params)

    @property
    def mod(self) -> Library:
        """An alias of :attr:`lib`."""
        return self.lib

    module = mod

    @property
    def globals(self) -> list[str]:
        """The names of the functions."""
        mod = self._programs.mod
        return ["main"] if mod is None else [g.name_hint for g in mod.get_global_vars()]

    def get_function_params(self, func_name: str) -> list[str]:
        """Return the names of a function's inputs."""
        return self.of(func_name).inputs

    def save(self) -> tuple[bytearray, Library]:
        """Return (program as bytes, library); the bytes contain the library too."""
        return bytearray(as_bytes(self.program.save)), self.lib

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: object = None) -> Executable:
        """Return a program from the bytes of :meth:`save`, which contain the library.

        Raises:
            ArtifactError: the bytes are not a saved program.
        """
        if not isinstance(bytecode, bytes | bytearray | memoryview):
            found = type(bytecode).__name__
            raise BadInput(f"load_exec: expected the bytes of a saved program, found {found}")
        return Executable(Ready(restored(bytes(bytecode))))


class VMCompiler:
    """``relay.vm.VMCompiler``: parameters, then ``lower`` and ``codegen``, then ``get_exec``."""

    def __init__(self) -> None:
        self._params: dict[str, object] = {}
        self._given: tuple[IRModule, Any] | None = None
        self._made: Executable | None = None

    def set_params(self, params: Mapping[str, object]) -> None:
        """Set values of inputs of ``main``, by name, which become constants."""
        self._params.update(params)

    def get_params(self) -> dict[str, object]:
        """Return the parameters that were set."""
        return dict(self._params)

    def lower(self, mod: object, target: object = None, target_host: object = None) -> None:
        """Set the module; :meth:`codegen` compiles it."""
        self._given = as_relay_module(mod), one_target(target, target_host)

    def optimize(
        self,
        mod: object,
        target: object = None,
        target_host: object = None,
        params: Mapping[str, object] | None = None,
    ) -> tuple[IRModule, dict[str, object]]:
        """Return (module, parameters) unchanged: optimization is part of compilation."""
        self.set_params(params or {})
        self.lower(mod, target, target_host)
        return as_relay_module(mod), self.get_params()

    def codegen(self) -> None:
        """Compile ``main``; other functions are compiled on demand.

        Raises:
            BadInput: no module was set.
        """
        if self._given is None:
            raise BadInput("VMCompiler: there is no module yet; call lower(mod, target) first")
        mod, target = self._given
        programs = Programs(mod, self._params, target)
        if "main" in mod:
            programs("main")
        self._made = Executable(programs)

    def get_exec(self) -> Executable:
        """Return the compiled program."""
        if self._made is None:
            self.codegen()
        assert self._made is not None
        return self._made


def compile(
    mod: object,
    target: object = None,
    target_host: object = None,
    params: Mapping[str, object] | None = None,
) -> Executable:
    """Call ``tvm_disc.build`` with Relay's arguments; the result is for :class:`VirtualMachine`."""
    compiler = VMCompiler()
    compiler.set_params(params or {})
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


class VirtualMachine:
    """Relay's virtual machine: calls functions of a program by name, as native code.

    Args:
        exe: the result of ``relay.vm.compile``, a ``tvm_disc`` program, or its library.
        memory_cfg: ignored, because memory is planned at compile time.
    """

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    def __init__(self, exe: object, device: Device, memory_cfg: object = None) -> None:
        exe = exe.program if isinstance(exe, Library) else exe
        exe = Executable(Ready(exe)) if isinstance(exe, Program) else exe
        if not isinstance(exe, Executable):
            raise BadInput(
                f"expected the result of relay.vm.compile or tvm_disc.build, found {shown(exe)}"
            )
        check_device(device)
        self._exec, self.module = exe, exe.lib if "main" in exe.globals else None
        self._inputs: dict[str, dict[str, Any]] = {}
        self._outputs: list[object] | None = None

    def invoke(self, func_name: str, *args: object, **kwargs: object) -> object:
        """Call a function; without arguments, on the inputs that were set."""
        if not args and not kwargs:
            kwargs = self._inputs.get(func_name, {})
        return self._call(func_name, args, kwargs)

    def run(self, *args: object, **kwargs: object) -> Any:
        """Call ``main``."""
        return self.invoke("main", *args, **kwargs)

    def set_input(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Set all inputs of a function, for calls without arguments.

        Raises:
            BadInput: an input is missing, unknown, or given twice.
        """
        names = self._exec.get_function_params(func_name)
        twice = [n for n in names[: len(args)] if n in kwargs]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or twice or set(given) != set(names):
            found = f"{len(args)} by position and {sorted(kwargs)} by name"
            raise BadInput(f"set_input: expected inputs {', '.join(names)}, found {found}")
        self._inputs[func_name] = given

    def set_one_input(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Set one input, by name or position and value, or as ``name=value``.

        Raises:
            BadInput: there is no such input, or the number of inputs given is not one.
        """
        names = self._exec.get_function_params(func_name)
        if not ((len(args) == 2 and not kwargs) or (not args and len(kwargs) == 1)):
            raise BadInput(
                "set_one_input: expected one input, as name=value, or as a name or position and a "
                f"value; found {len(args)} by position and {sorted(kwargs)} by name"
            )
        ((key, value),) = kwargs.items() if kwargs else (args,)
        if isinstance(key, int) and 0 <= key < len(names):
            key = names[key]
        if key not in names:
            raise BadInput(f"set_one_input: expected one of {', '.join(names)}, found {shown(key)}")
        self._inputs.setdefault(func_name, {})[key] = value

    def invoke_stateful(self, func_name: str, *args: object, **kwargs: object) -> None:
        """Call a function and store the results for :meth:`get_outputs`."""
        self._outputs = leaves(self.invoke(func_name, *args, **kwargs))

    def get_outputs(self) -> list[object]:
        """Return the results of the last stateful call, as a list.

        Raises:
            BadInput: there was no stateful call.
        """
        if self._outputs is None:
            raise BadInput("there is no result yet; call invoke_stateful first")
        return list(self._outputs)

    def get_output(self, index: int = 0) -> object:
        """Return one result of :meth:`get_outputs`.

        Raises:
            BadInput: there was no stateful call, or it has no such result.
        """
        found = self.get_outputs()
        if not isinstance(index, int) or not 0 <= index < len(found):
            raise BadInput(
                f"get_output: there is no output at position {shown(index)}; the call returned "
                f"{counted(len(found), 'output')}"
            )
        return found[index]

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, object], output_args: Any
    ) -> None:
        """Call a function with inputs by name, and write its results into tensors."""
        result = leaves(self._call(func_name, (), input_args))
        if len(result) != len(output_args):
            raise BadInput(
                f"expected {counted(len(result), 'output tensor')}, found {len(output_args)}"
            )
        for given, value in zip(output_args, result, strict=True):
            target, array = as_array(given), as_array(value)
            if target.shape != array.shape or target.dtype != array.dtype:
                raise BadInput(
                    f"outputs: expected a tensor {array.dtype}{list(array.shape)}, "
                    f"found {target.dtype}{list(target.shape)}"
                )
            target[...] = array

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Return the position of an input; -1 if there is none of that name."""
        names = self._exec.get_function_params(func_name)
        return names.index(input_name) if input_name in names else -1

    def benchmark(
        self,
        device: Device,
        *args: object,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: object,
    ) -> BenchmarkResult:
        """Time calls of a function."""
        check_device(device)
        call = partial(self.invoke, func_name, *args, **kwargs)
        return timed(call, repeat, number, min_repeat_ms)

    def _call(self, name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        program = self._exec.of(name)
        mod = self._exec.source
        given = {key: argument(value) for key, value in kwargs.items()}
        result = program(*map(argument, args), **given)
        return results(result, {} if mod is None else mod.constructors)


class VMExecutor(Executor):
    """``relay.vm.VMExecutor(mod, device, target).evaluate()``."""

    def __init__(self, mod: Any, device: Any, target: Any = "llvm") -> None:
        super().__init__("vm", mod, device, target)


__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]
