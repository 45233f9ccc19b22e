"""Time a Relay model over trees on the Relay VM, in a separate environment.

    .venv-relay/bin/python benchmarks/relay_vm_trees.py MODEL.relay TREES.npz ROUNDS

``TREES.npz`` contains for every case ``<case>.parents``, the index of each node's parent (the root
is node 0 and its own parent), and ``<case>.words``, the value of each node. Children are ordered by
index. ``main`` takes one ``Tree`` with the constructor ``Rose(word, List[Tree])``. The script
prints one line of JSON as ``relay_vm.py`` does. It does not import tvm_disc.
"""

from __future__ import annotations

import sys
from pathlib import Path

from relay_vm import main  # must be first: it prevents TVM from downloading tuning records
from tvm import nd
from tvm.runtime import container


def tree(mod, parents, words):
    """Return a tree as objects of the VM."""
    tag = {c.name_hint: c.tag for name in ("Tree", "List") for c in mod.get_type(name)[1:]}
    nil = container.ADT(tag["Nil"], [])
    kids = [nil for _ in parents]
    for node in range(len(parents) - 1, -1, -1):
        made = container.ADT(tag["Rose"], [nd.array(words[node]), kids[node]])
        if node == 0:
            return made
        above = parents[node]
        kids[above] = container.ADT(tag["Cons"], [made, kids[above]])
    return None


def tree_of(mod, arrays, case):
    """Return the argument of ``main`` in a case: one tree."""
    return [tree(mod, arrays[f"{case}.parents"], arrays[f"{case}.words"])]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), tree_of)
