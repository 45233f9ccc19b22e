"""Time a Relay model on the Relay VM, the descendant of Nimble, in a separate environment.

``make relay-vm`` creates this environment. It contains TVM's last release with Relay, which cannot
share a process with the TVM that tvm_disc uses. This script does not import tvm_disc.

    .venv-relay/bin/python benchmarks/relay_vm.py MODEL.relay INPUTS.npz ROUNDS

``INPUTS.npz`` contains arrays named ``<case>.<input>``. The script prints one line of JSON:
``compile_s``, and the median ``seconds`` per call by case. It writes the outputs of all cases to
``INPUTS.out.npz`` in the same folder, as ``<case>.<number>``.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

# Set before TVM loads, so that it does not download tuning records.
os.environ.setdefault("TOPHUB_LOCATION", "NONE")

import numpy as np
import tvm
from tvm import relay
from tvm.runtime.vm import VirtualMachine


def leaves(value):
    """Return the arrays of a result, with tuples flattened."""
    return (
        [value.numpy()] if hasattr(value, "numpy") else [a for item in value for a in leaves(item)]
    )


def arrays_of(mod, arrays, case):
    """Return the arguments of ``main`` in a case: one array per parameter."""
    names = [p.name_hint for p in mod["main"].params]
    return [tvm.nd.array(arrays[f"{case}.{name}"]) for name in names]


def main(model: Path, inputs: Path, rounds: int, arguments=arrays_of) -> None:
    """Time every case; ``arguments(mod, arrays, case)`` returns the arguments of ``main``."""
    mod = tvm.relay.parse(model.read_text(encoding="utf-8"))
    start = time.perf_counter()
    with tvm.transform.PassContext(opt_level=3):
        cpu = tvm.target.codegen.llvm_get_system_cpu()  # this LLVM does not know "native"
        library = relay.vm.compile(mod, target=f"llvm -mcpu={cpu}")
    report = {"compile_s": time.perf_counter() - start, "seconds": {}}
    vm = VirtualMachine(library, tvm.cpu())
    outputs = {}
    with np.load(inputs) as arrays:
        for case in dict.fromkeys(key.partition(".")[0] for key in arrays.files):
            vm.set_input("main", *arguments(mod, arrays, case))
            for i, leaf in enumerate(leaves(vm.run())):
                outputs[f"{case}.{i}"] = leaf
            times = []
            for _ in range(rounds):
                start = time.perf_counter()
                vm.invoke_stateful("main")
                times.append(time.perf_counter() - start)
            report["seconds"][case] = statistics.median(times)
    np.savez(inputs.with_suffix(".out.npz"), **outputs)
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
