"""Removal of dropout operators that are the identity (inference, or probability 0).

In eager mode such a dropout returns its operand, so that a write to its result changes the operand.
PyTorch decomposes it into a copy; then a write to the result would not change the operand.
"""

from __future__ import annotations

import copy

from tvm_disc.typing import ExportedProgram, FxNode


def without_idle_dropouts(program: ExportedProgram) -> object:
    """Return the program with identity dropouts replaced by their operands.

    A program without writes is returned unchanged, because there a copy is equivalent.
    """
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    writes = any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in calls)
    if not writes or not any(map(_is_idle, calls)):
        return program
    import torch

    module = torch.fx.GraphModule(program.graph_module, copy.deepcopy(program.graph))
    signature = copy.deepcopy(program.graph_signature)
    for node in list(module.graph.nodes):
        if _is_idle(node):
            node.replace_all_uses_with(node.args[0])
            signature.replace_all_uses(node.name, node.args[0].name)
            module.graph.erase_node(node)
    return torch.export.ExportedProgram(
        module,
        module.graph,
        signature,
        program.state_dict,
        program.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )


def _is_idle(node: FxNode) -> bool:
    if str(node.target) != "aten.dropout.default":
        return False
    _, share, train = node.args
    return not train or share == 0


__all__ = ["without_idle_dropouts"]
