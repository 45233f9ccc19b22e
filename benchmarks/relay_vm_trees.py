"""Time a Relay model over trees on the Relay VM, in an environment of its own.

    .venv-relay/bin/python benchmarks/relay_vm_trees.py MODEL.relay TREES.npz ROUNDS

``TREES.npz`` holds for every case ``<case>.parents``, the parent of each node (its own number for
the root, which is node 0), and ``<case>.words``, what the nodes hold. Children come in the order of
their numbers. ``main`` takes one ``Tree`` with the constructor ``Rose(word, List[Tree])``. Prints
one line of JSON as ``relay_vm.py`` does.  This script imports nothing of tvm_disc.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TOPHUB_LOCATION", "NONE")

import numpy as np
import tvm
from tvm import relay
from tvm.runtime import container
from tvm.runtime.vm import VirtualMachine


def tree(mod, parents, words):
    """The tree as objects of the VM."""
    tag = {c.name_hint: c.tag for name in ("Tree", "List") for c in mod.get_type(name)[1:]}
    nil = container.ADT(tag["Nil"], [])
    kids = [nil for _ in parents]
    for node in range(len(parents) - 1, -1, -1):
        made = container.ADT(tag["Rose"], [tvm.nd.array(words[node]), kids[node]])
        if node == 0:
            return made
        above = parents[node]
        kids[above] = container.ADT(tag["Cons"], [made, kids[above]])
    return None


def main(model: Path, inputs: Path, rounds: int) -> None:
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
            arg = tree(mod, arrays[f"{case}.parents"], arrays[f"{case}.words"])
            vm.set_input("main", arg)
            for i, leaf in enumerate(vm.run()):
                outputs[f"{case}.{i}"] = leaf.numpy()
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
