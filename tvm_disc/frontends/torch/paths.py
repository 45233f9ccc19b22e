"""Paths of keys by which PyTorch's guards refer to the inputs of an exported program."""

from __future__ import annotations

import re
from typing import Any

from tvm_disc.frontends.torch.conditions import Keys
from tvm_disc.typing import ExportedProgram


def parameter_names(program: ExportedProgram) -> list[str]:
    """Return the names of ``forward``'s parameters: the positional ones, then the keyword ones."""
    signature = program.module_call_graph[0].signature
    names = getattr(signature, "forward_arg_names", None)
    positional, by_name = program.call_spec.in_spec.children()
    keys = [str(k) for k in by_name.context or ()]
    found = list(names or ())[: positional.num_children]
    found += [f"arg_{k}" for k in range(len(found), positional.num_children)]
    return [*found, *keys]


def input_paths(program: ExportedProgram, count: int) -> list[list[Keys]]:
    """Return, for each of the ``count`` leaves of the arguments, its possible paths of keys."""
    from torch.utils import _pytree as pytree

    names = parameter_names(program)
    positional = program.call_spec.in_spec.children()[0].num_children
    tree = program.example_inputs
    if tree is None:
        tree = pytree.tree_unflatten(list(range(count)), program.call_spec.in_spec)
    found: list[list[Keys]] = []
    for number, (path, _) in enumerate(pytree.tree_flatten_with_path(tree)[0]):
        group, first, *rest = [_key(k) for k in path]
        name = names[first] if group == 0 and first < positional else first
        aliases: list[Keys] = [(name, *rest), ("flat_args", number)]
        several = re.fullmatch(r"(.+)_(\d+)", str(name))
        if several:  # an element of a parameter such as *args
            aliases.append((several[1], int(several[2]), *rest))
        found.append(aliases)
    return found


def _key(key: object) -> Any:
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return str(key)


__all__ = ["input_paths", "parameter_names"]
