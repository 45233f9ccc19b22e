"""Inputs that an option of a build names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from tvm_disc.errors import BadOption
from tvm_disc.typing import Var


def named_inputs(option: str, entries: Sequence[str | int], params: Sequence[Var]) -> list[Var]:
    """Return the inputs that the entries name, in the order of the inputs.

    Args:
        option: the name of the option.
        entries: names of inputs, with ``*`` and ``?`` as in ``fnmatch``, and positions of inputs.

    Raises:
        BadOption: an entry matches no input.
    """
    names = [str(p.name) for p in params]
    chosen: set[int] = set()
    for entry in entries:
        if isinstance(entry, int):
            found = [entry] if 0 <= entry < len(names) else []
        else:
            found = [k for k, name in enumerate(names) if fnmatchcase(name, entry)]
        if not found:
            raise BadOption(f"{option}: no input matches {entry!r}; the inputs are {names}")
        chosen.update(found)
    return [params[k] for k in sorted(chosen)]


__all__ = ["named_inputs"]
