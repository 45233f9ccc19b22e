"""``graph_executor.GraphModule``: a program with ``set_input``, ``run`` and ``get_output``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.runtime.module import BenchmarkResult

from tvm_disc.errors import BadInput, counted, shown
from tvm_disc.relay.ndarray import load_param_dict
from tvm_disc.relay_api.executors.programs import check_device
from tvm_disc.relay_api.executors.refused import refused_attribute
from tvm_disc.relay_api.executors.timing import timed
from tvm_disc.relay_api.executors.values import tensor
from tvm_disc.runtime.arrays import as_array, leaves, numpy_dtype
from tvm_disc.runtime.executable import Executable
from tvm_disc.runtime.loading import load
from tvm_disc.typing import Device, RuntimeModule

_REFUSED = frozenset(["debug_get_output", "share_params"])


class Instance:
    """A program and the inputs of its next call; the result of ``lib["default"](device)``.

    Args:
        bound: names of inputs whose values became constants. A call that sets several inputs may
            include them, since scripts set all their parameters.
    """

    def __init__(self, program: Executable, bound: Mapping[str, object], device: object) -> None:
        check_device(device)
        self.program, self.bound, self.device = program, bound, device
        self.names = program.inputs
        self.rows = {name: (dims, dtype) for name, dims, dtype in program.signature}
        self.inputs: dict[str, Any] = {}
        self.outputs: list[Any] | None = None
        self.targets: dict[int, Any] = {}

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        **_: object,
    ) -> Callable[..., BenchmarkResult]:
        """Return a function that times ``run``."""
        if func_name != "run":
            raise BadInput(f"time_evaluator: expected 'run', found {shown(func_name)}")
        return lambda: timed(self.run, repeat, number, min_repeat_ms)

    def run(self) -> None:
        """Call the program with the inputs that were set."""
        args = [self.inputs[n] if n in self.inputs else self.zeros(n) for n in self.names]
        self.outputs = [tensor(x) for x in leaves(self.program(*args))]
        for index, target in self.targets.items():
            as_array(target)[...] = as_array(self.outputs[index])
            self.outputs[index] = target

    def zeros(self, name: str) -> Any:
        """Return zeros for an input that was not set, as Relay's executor does.

        Raises:
            BadInput: the shape of the input is dynamic, or its type is a data type.
        """
        if name not in self.rows:
            raise BadInput(
                f"input '{name}' is not set; an input of a data type has no default: call "
                "set_input first"
            )
        dims, dtype = self.rows[name]
        if not all(d.isdecimal() for d in dims):
            shape = ", ".join(dims)
            raise BadInput(
                f"input '{name}', {dtype}[{shape}], is not set; only inputs of static shape "
                "default to zeros: call set_input first"
            )
        found = np.zeros(tuple(map(int, dims)), numpy_dtype(dtype))
        return self.inputs.setdefault(name, found)

    def name(self, key: object) -> str:
        """Return the name of an input, given by name or position.

        Raises:
            BadInput: there is no such input, or it became a constant.
        """
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            if 0 <= key < len(self.names):
                return self.names[int(key)]
            raise BadInput(
                f"there is no input at position {key}; the program has "
                f"{counted(len(self.names), 'input')}"
            )
        if key in self.names:
            return str(key)
        if key in self.bound:
            raise BadInput(
                f"input '{key}' became a constant of the program; leave it out of params= to set it"
            )
        raise BadInput(f"there is no input {key!r}; inputs: {', '.join(self.names) or 'none'}")

    def fitting(self, name: str, value: Any) -> Any:
        """Return an array for an input, converted to its dtype.

        Raises:
            BadInput: the dims or the kind of numbers do not fit the input.
        """
        if name not in self.rows:
            return value  # an input of a data type
        dims, dtype = self.rows[name]
        array = as_array(value) if hasattr(value, "__dlpack__") else np.asarray(value)
        known = [(d, n) for d, n in zip(dims, array.shape, strict=False) if d.isdecimal()]
        if len(dims) != array.ndim or any(int(d) != n for d, n in known):
            shape = ", ".join(dims)
            raise BadInput(f"input '{name}': expected [{shape}], found {list(array.shape)}")
        wanted = numpy_dtype(dtype)
        if array.dtype != wanted and not np.can_cast(array.dtype, wanted, "same_kind"):
            raise BadInput(f"input '{name}': expected {dtype}, found {array.dtype}")
        return array.astype(wanted)  # a copy, as in Relay: the caller may modify its array


class GraphModule:
    """Relay's graph executor: ``GraphModule(lib["default"](tvm.cpu()))``, for every shape."""

    def __init__(self, module: RuntimeModule) -> None:
        module = getattr(module, "module", module)  # ``module`` may be a GraphModule itself
        if not isinstance(module, Instance):
            raise BadInput(
                f"expected lib['default'](device) of relay.build or load_module, found "
                f"{type(module).__name__}"
            )
        self.module: Instance = module

    def __getattr__(self, name: str) -> Any:
        refused_attribute(self, name, _REFUSED)

    def __getitem__(self, key: str) -> Any:
        """Return a function of the module by its name: ``m["run"]()``."""
        found = None if key.startswith("_") else getattr(self, key, None)
        if not callable(found):
            raise AttributeError(f"the module has no function {key!r}")
        return found

    @property
    def program(self) -> Executable:
        """The underlying program, with ``explain`` and ``profile``."""
        return self.module.program

    def set_input(self, key: object = None, value: object = None, **params: object) -> None:
        """Copy the value of an input, given by name or position, and of other inputs by name.

        Names in ``params`` of inputs that became constants are ignored.

        Raises:
            BadInput: there is no such input, or the value does not fit.
        """
        if key is not None:
            name = self.module.name(key)
            self.module.inputs[name] = self.module.fitting(name, value)
        for name, given in params.items():
            if name not in self.module.bound:
                name = self.module.name(name)
                self.module.inputs[name] = self.module.fitting(name, given)

    def set_input_zero_copy(
        self, key: object = None, value: object = None, **params: object
    ) -> None:
        """Set inputs as :meth:`set_input`, but without copying: the program reads the caller's
        memory.
        """
        if key is not None:
            self.module.inputs[self.module.name(key)] = value
        for name, given in params.items():
            self.module.inputs[self.module.name(name)] = given

    def set_output_zero_copy(self, key: int, value: object) -> None:
        """Set the tensor that receives a result after every run."""
        self.module.targets[self._position(key)] = value

    def run(self, **input_dict: object) -> None:
        """Set inputs, if any are given, and call the program."""
        if input_dict:
            self.set_input(**input_dict)
        self.module.run()

    def get_num_outputs(self) -> int:
        """Return the number of result tensors."""
        return len(self.program.results)

    def get_num_inputs(self) -> int:
        """Return the number of inputs, without those that became constants."""
        return len(self.module.names)

    def get_input(self, index: object, out: object = None) -> object:
        """Return the value of an input; zeros if it was not set and its shape is static."""
        name = self.module.name(index)
        value = self.module.inputs.get(name)
        return _given(self.module.zeros(name) if value is None else value, out)

    def get_input_index(self, name: str) -> int:
        """Return the position of an input; -1 if there is none of that name."""
        return self.module.names.index(name) if name in self.module.names else -1

    def get_input_info(self) -> tuple[dict[str, list[int | str]], dict[str, str]]:
        """Return (shapes, dtypes) of inputs by name; a dynamic dim is represented by its name."""
        rows = self.program.signature
        shapes = {n: [int(d) if d.isdecimal() else d for d in dims] for n, dims, _ in rows}
        return shapes, {n: dtype for n, _, dtype in rows}

    def get_output(self, index: int, out: object = None) -> object:
        """Return a result of the last run, or copy it to ``out``.

        Raises:
            BadInput: there is no such result, or nothing was run.
        """
        index = self._position(index)
        if self.module.outputs is None:
            raise BadInput("get_output: there is no result yet; call run first")
        return _given(self.module.outputs[index], out)

    def load_params(self, params_bytes: bytes) -> None:
        """Set inputs from the content of a parameter file."""
        self.set_input(**load_param_dict(bytes(params_bytes)))

    def benchmark(
        self,
        device: Device,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: object,
    ) -> BenchmarkResult:
        """Time ``run``; ``end_to_end`` includes the copies of the inputs."""
        check_device(device)
        if func_name != "run":
            raise BadInput(f"benchmark: expected func_name 'run', found {shown(func_name)}")
        self.set_input(**kwargs)
        call = partial(self.run, **kwargs) if end_to_end else self.run
        return timed(call, repeat, number, min_repeat_ms)

    def _position(self, index: int) -> int:
        count = self.get_num_outputs()
        if not 0 <= index < count:
            raise BadInput(
                f"there is no output at position {index}; the program has "
                f"{counted(count, 'output')}"
            )
        return int(index)


def _given(value: Any, out: Any) -> object:
    """Return ``value``, or ``out`` with the elements of ``value`` copied to it."""
    if out is None:
        return tensor(value)
    as_array(out)[...] = value if isinstance(value, np.ndarray) else as_array(value)
    return out


def graph_json(program: Executable, name: str) -> str:
    """Return the graph of a program in the graph executor's format: inputs and one call."""
    inputs = [{"op": "null", "name": n, "inputs": []} for n, _, _ in program.signature]
    results = program.results
    call = {
        "op": "tvm_op",
        "name": name,
        "attrs": {"func_name": name, "num_outputs": str(len(results))},
        "inputs": [[k, 0, 0] for k in range(len(inputs))],
    }
    shapes = [list(dims) for _, dims, _ in program.signature] + [list(d) for d, _ in results]
    graph = {
        "nodes": [*inputs, call],
        "arg_nodes": list(range(len(inputs))),
        "heads": [[len(inputs), k, 0] for k in range(len(results))],
        "attrs": {"shape": ["list_shape", shapes]},
        "node_row_ptr": [*range(len(inputs) + 1), len(inputs) + len(results)],
    }
    return json.dumps(graph, indent=2)


def create(graph_json_str: str, libmod: object, device: Device) -> GraphModule:
    """Return a module for the results of ``graph, lib, params = relay.build(...)``; the graph
    is ignored.
    """
    make = getattr(libmod, "instance", None)
    if make is None:
        raise BadInput(
            f"create: expected the library that relay.build returns, found {type(libmod).__name__}"
        )
    return GraphModule(make(device))


class Library:
    """The machine code of a program, which ``relay.build`` calls a library."""

    type_key = "library"

    def __init__(self, program: Executable, bound: Mapping[str, object] | None = None) -> None:
        self.program, self.bound = program, bound or {}

    def instance(self, device: object = None) -> Instance:
        """Return the program with settable inputs."""
        return Instance(self.program, self.bound, tvm.cpu() if device is None else device)

    def __getitem__(self, name: str) -> Callable[..., Instance]:
        """Return a function from a device to an :class:`Instance`: ``lib["default"](device)``."""
        return self.instance

    def get_source(self, fmt: str = "ll") -> str:
        """Return the generated code: ``ll`` for LLVM IR, ``asm`` or ``s`` for assembly."""
        return self.program.source({"": "ll", "s": "asm"}.get(fmt, fmt))

    def export_library(self, file_name: str | Path, fcompile: Any = None, **options: Any) -> str:
        """Write the program as one shared library, which :func:`load_module` reads.

        Args:
            cc: the compiler that links.

        Raises:
            BadInput: ``fcompile`` is a function, or the file would be an archive.
        """
        if callable(fcompile):
            raise BadInput(
                "export_library: a function as fcompile= is not supported; pass the name of a C "
                "compiler as cc=, such as aarch64-linux-gnu-gcc"
            )
        if Path(file_name).suffix in (".tar", ".o", ".a"):
            raise BadInput(f"export_library: expected a name that ends in .so, found {file_name}")
        self.program.save(file_name, fcompile or options.get("cc"))
        return str(file_name)


def load_module(path: str | Path) -> Library:
    """Load a library that ``export_library`` or ``tvm_disc.Executable.save`` wrote."""
    return Library(load(path))


__all__ = ["GraphModule", "Instance", "Library", "create", "graph_json", "load_module"]
