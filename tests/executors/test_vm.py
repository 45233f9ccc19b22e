"""``relay.vm``: compile, invoke, inputs that are set, outputs that are kept or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.executors.programs import W, dense, numbers, rows
from tvm_disc import relay
from tvm_disc.errors import ArtifactError, BadInput, Unsupported


@pytest.fixture(scope="module")
def exe() -> Any:
    return relay.vm.compile(dense(), target="llvm", params={"w": W})


@pytest.fixture
def machine(exe: Any) -> Any:
    return relay.vm.VirtualMachine(exe, tvm.cpu())


def test_invoke(machine: Any) -> None:
    for n in (1, 4, 0, 33, 7):
        for result in (machine.invoke("main", rows(n)), machine.run(x=rows(n))):
            np.testing.assert_allclose(result[0].numpy(), rows(n) @ W.T, rtol=1e-5)


def test_inputs_that_are_set(machine: Any) -> None:
    machine.set_input("main", rows(2))
    assert machine.run()[0].shape == (2, 4)
    machine.set_input("main", x=rows(3))
    assert machine.invoke("main")[0].shape == (3, 4)
    for args, kwargs in (((0, rows(4)), {}), ((), {"x": rows(4)}), (("x", rows(4)), {})):
        machine.set_one_input("main", *args, **kwargs)
        machine.invoke_stateful("main")
        assert [t.shape for t in machine.get_outputs()] == [(4, 4), (4, 3)]
    assert machine.get_output(1).shape == (4, 3)
    assert machine.get_input_index("x") == 0 and machine.get_input_index("y") == -1


def test_outputs_that_are_given(machine: Any) -> None:
    outputs = [tvm.runtime.tensor(np.zeros(s, "float32")) for s in ((2, 4), (2, 3))]
    machine.invoke_with_outputs("main", {"x": rows(2)}, outputs)
    np.testing.assert_allclose(outputs[0].numpy(), rows(2) @ W.T, rtol=1e-5)
    with pytest.raises(BadInput, match="expected 2 output tensors, found 1"):
        machine.invoke_with_outputs("main", {"x": rows(2)}, outputs[:1])
    with pytest.raises(BadInput, match=r"float32\[3, 4\], found float32\[2, 4\]"):
        machine.invoke_with_outputs("main", {"x": rows(3)}, outputs)


def test_functions_beside_main() -> None:
    mod = numbers()
    machine = relay.vm.VirtualMachine(relay.vm.compile(mod), tvm.cpu())
    _, zero, after = mod.get_type("Nat")
    two = machine.invoke("twice", relay.create_executor("vm", mod).evaluate(zero()))
    assert two.tag == after.tag and two[0][0].tag == zero.tag
    assert machine.invoke("main", two).constructor is zero
    assert machine.invoke("half", np.ones(2, "float32")).numpy().tolist() == [0.5, 0.5]


def test_the_compiler_in_steps() -> None:
    compiler = relay.vm.VMCompiler()
    compiler.set_params({"w": W})
    compiler.lower(dense(), "llvm")
    compiler.codegen()
    result = relay.vm.VirtualMachine(compiler.get_exec(), tvm.cpu()).run(rows(2))
    np.testing.assert_allclose(result[0].numpy(), rows(2) @ W.T, rtol=1e-5)
    mod, params = relay.backend.vm.VMCompiler().optimize(dense(), "llvm", params={"w": W})
    assert mod["main"].params[1].name_hint == "w" and list(params) == ["w"]
    run = relay.vm.VMExecutor(dense(), tvm.cpu()).evaluate()
    assert run(rows(1), W)[0].shape == (1, 4)


def test_saved_and_loaded(exe: Any) -> None:
    code, lib = exe.save()
    loaded = relay.vm.Executable.load_exec(code, lib)
    machine = relay.vm.VirtualMachine(loaded, tvm.cpu(), "naive")
    np.testing.assert_allclose(machine.run(rows(2))[0].numpy(), rows(2) @ W.T, rtol=1e-5)
    assert loaded.globals == ["main"] and loaded.get_function_params("main") == ["x"]
    assert "A call runs 1 kernel:" in exe.program.explain() and exe.lib.get_source("ll").startswith(
        "; ModuleID"
    )
    with pytest.raises(BadInput, match="one function, main; found 'other'"):
        machine.invoke("other")
    assert len(machine.benchmark(tvm.cpu(), rows(2), repeat=2, number=1).results) == 2


@pytest.mark.parametrize("name", ["bytecode", "stats", "constants", "primitives"])
def test_there_is_no_bytecode(exe: Any, name: str) -> None:
    with pytest.raises(Unsupported, match=f"^{name}: "):
        getattr(exe, name)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "nothing set": (lambda m: m.set_input("main"), BadInput, "expected inputs x, found 0"),
    "twice": (lambda m: m.set_input("main", W, x=W), BadInput, "1 by position and ['x'] by name"),
    "unknown": (lambda m: m.set_input("main", y=W), BadInput, "expected inputs x"),
    "position": (lambda m: m.set_one_input("main", 4, W), BadInput, "expected one of x, found 4"),
    "two at once": (lambda m: m.set_one_input("main", x=W, y=W), BadInput, "expected one input"),
    "function": (
        lambda m: m.invoke("other", W),
        BadInput,
        "no function other; its functions: @main",
    ),
    "no result": (lambda m: m.get_outputs(), BadInput, "call invoke_stateful first"),
    "output": (
        lambda m: (m.invoke_stateful("main", W), m.get_output(7)),
        BadInput,
        "get_output: there is no output at position 7; the call returned ",
    ),
    "program": (lambda m: relay.vm.VirtualMachine(m, tvm.cpu()), BadInput, "relay.vm.compile"),
    "device": (
        lambda m: relay.vm.VirtualMachine(m._exec, tvm.cuda()),
        Unsupported,
        "expected a CPU, found cuda:0",
    ),
    "bytes": (lambda m: relay.vm.Executable.load_exec("x"), BadInput, "bytes of a saved program"),
    "other bytes": (
        lambda m: relay.vm.Executable.load_exec(b"x"),
        ArtifactError,
        "not a program saved by tvm_disc",
    ),
    "steps": (lambda m: relay.vm.VMCompiler().get_exec(), BadInput, "call lower(mod, target)"),
    "counts": (lambda m: m.benchmark(tvm.cpu(), W, repeat=0), BadInput, "found repeat=0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, machine: Any) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error) as found:
        call(machine)
    assert message in str(found.value)
