"""``relay.build`` and ``GraphModule``: inputs that are set, outputs that are got."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm_disc.contrib import graph_executor

import tvm_disc
from tests.executors.programs import W, dense, numbers, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadOption, Unsupported


@pytest.fixture(scope="module")
def lib() -> Any:
    return relay.build(dense(), target="llvm", params={"w": W})


@pytest.fixture
def module(lib: Any) -> Any:
    return graph_executor.GraphModule(lib["default"](tvm.cpu(0)))


def test_the_way_of_a_script(module: Any) -> None:
    for n in (1, 5, 0, 32, 7):
        x = rows(n)
        module.set_input("x", x)
        x[...] = 0  # a copy was taken
        module.run()
        np.testing.assert_allclose(module.get_output(0).numpy(), rows(n) @ W.T, rtol=1e-5)
    assert module.get_num_outputs() == 2 and module.get_num_inputs() == 1


def test_inputs_by_any_name(module: Any) -> None:
    module.set_input(0, rows(2))
    np.testing.assert_array_equal(module.get_input("x").numpy(), rows(2))
    module.set_input(x=rows(3).astype("float64"), w=W)  # cast, as Relay does; w is a constant
    module.run()
    assert module.get_output(0).shape == (3, 4)
    module.run(x=tvm.runtime.tensor(rows(4)))
    out = tvm.runtime.tensor(np.zeros((4, 4), "float32"))
    assert module.get_output(0, out) is out
    np.testing.assert_allclose(out.numpy(), rows(4) @ W.T, rtol=1e-5)
    module.load_params(relay.save_param_dict({"x": rows(1)}))
    assert module["get_input"]("x").shape == (1, 3)
    assert module.get_input_index("x") == 0 and module.get_input_index("w") == -1
    shapes, dtypes = module.get_input_info()
    assert shapes["x"][1] == 3 and dtypes == {"x": "float32"}


def test_without_copies(module: Any) -> None:
    x, y = rows(2), np.zeros((2, 4), "float32")
    module.set_input_zero_copy("x", x)
    module.set_output_zero_copy(0, y)
    x[...] = 1
    module.run()
    np.testing.assert_allclose(y, np.ones((2, 3)) @ W.T, rtol=1e-5)


def test_static_inputs_begin_as_zeros() -> None:
    x = relay.var("x", shape=(2, 2))
    library = relay.build(relay.Function([x], relay.exp(x)))
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    assert not module.get_input(0).numpy().any()
    module.run()
    assert module.get_output(0).numpy().tolist() == [[1, 1], [1, 1]]


def test_three_values_of_old_scripts(lib: Any) -> None:
    with pytest.warns(DeprecationWarning, match="relay.build returns one factory"):
        graph, library, params = lib
    module = graph_executor.create(graph, library, tvm.cpu())
    module.set_input(**params)
    module.run(x=rows(1))
    assert module.get_output(1).shape == (1, 3)
    nodes = json.loads(lib.get_graph_json())["nodes"]
    assert [node["name"] for node in nodes] == ["x", "default"]


def test_a_library_on_disk(lib: Any, tmp_path: Path) -> None:
    path = tmp_path / "deploy.so"
    lib.export_library(path)
    loaded = graph_executor.load_module(path)
    module = graph_executor.GraphModule(loaded["default"](tvm.cpu()))
    module.run(x=rows(3))
    np.testing.assert_allclose(module.get_output(0).numpy(), rows(3) @ W.T, rtol=1e-5)
    np.testing.assert_allclose(tvm_disc.load(path)(rows(3))[0], rows(3) @ W.T, rtol=1e-5)


def test_times(module: Any) -> None:
    found = module.benchmark(tvm.cpu(), repeat=3, number=2, end_to_end=True, x=rows(2))
    assert len(found.results) == 3 and 0 < found.min <= found.mean
    timer = module.module.time_evaluator("run", tvm.cpu(), number=2, repeat=4)
    assert len(timer().results) == 4


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown": (lambda m: m.set_input("y", 1), BadInput, "there is no input 'y'; inputs: x"),
    "unknown by name": (lambda m: m.set_input(y=1), BadInput, "there is no input 'y'"),
    "constant": (lambda m: m.set_input("w", W), BadInput, "leave it out of params="),
    "position": (
        lambda m: m.set_input(3, 1),
        BadInput,
        "no input at position 3; the program has 1 input",
    ),
    "dims": (lambda m: m.set_input("x", W.T), BadInput, "found [3, 4]"),
    "numbers": (lambda m: m.set_input("x", W * 1j), BadInput, "found complex64"),
    "not set": (lambda m: m.run(), BadInput, "only inputs of static shape default to zeros"),
    "not run": (lambda m: m.get_output(0), BadInput, "call run first"),
    "output": (
        lambda m: m.get_output(2),
        BadInput,
        "no output at position 2; the program has 2 outputs",
    ),
    "function": (lambda m: m["fly"], AttributeError, "no function 'fly'"),
    "debug": (lambda m: m.debug_get_output(0, W), Unsupported, "profile(...) times kernels"),
    "shared": (lambda m: m.share_params(m, b""), Unsupported, "mapped pages"),
    "timing": (lambda m: m.benchmark(tvm.cpu(), "f"), BadInput, "expected func_name 'run'"),
    "a module": (lambda m: graph_executor.GraphModule(m.program), BadInput, "lib['default']"),
    "an archive": (
        lambda m: relay.build(dense()).export_library("a.tar"),
        BadInput,
        "ends in .so, found a.tar",
    ),
    "a linker": (
        lambda m: relay.build(dense()).export_library("a.so", fcompile=print),
        BadInput,
        "as cc=",
    ),
    "pools": (
        lambda m: relay.build(dense(), workspace_memory_pools=[1]),
        Unsupported,
        "workspace_memory_pools: memory pools are not supported",
    ),
    "host": (
        lambda m: relay.build(dense(), "llvm", "llvm -mcpu=x86-64"),
        Unsupported,
        "host code and kernels are one program",
    ),
    "two devices": (
        lambda m: relay.build(dense(), {"cpu": "llvm", "cuda": "cuda"}),
        Unsupported,
        "expected one device, the CPU, found 2",
    ),
    "runtime": (lambda m: relay.backend.Runtime("crt"), Unsupported, "TVM's C++ runtime"),
    "executor": (lambda m: relay.backend.Executor("vm"), BadOption, "graph or aot, found 'vm'"),
    "graphs": (
        lambda m: relay.build(dense()).function_metadata,
        Unsupported,
        "workspace_bytes(shapes)",
    ),
    "name": (lambda m: relay.build(dense())["mine"], AttributeError, "function is 'default'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, module: Any) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error) as found:
        call(module)
    assert message in str(found.value)


def test_data_types_as_inputs() -> None:
    mod = numbers()
    _, zero, after = mod.get_type("Nat")
    value = relay.create_executor("debug", mod).evaluate(after(zero()))
    module = graph_executor.GraphModule(relay.build(mod)["default"](tvm.cpu()))
    with pytest.raises(BadInput, match="'n' is not set; an input of a data type has no default"):
        module.run()
    module.run(n=value)
    assert module.get_num_inputs() == 1
