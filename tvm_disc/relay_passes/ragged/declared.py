"""Check the argument ``ragged`` of ``build``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from tvm_disc.errors import BadInput, BadOption, Unsupported
from tvm_disc.options import Options


def check_names(ragged: Mapping[str, int], inputs: Sequence[str]) -> None:
    """Check that every name of ``ragged`` is an input.

    Raises:
        BadInput: a name is not the name of an input.
    """
    for name in ragged:
        if name not in inputs:
            close = difflib.get_close_matches(name, inputs, 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise BadInput(
                f"ragged: no input is called '{name}'{hint}; the inputs are {list(inputs)}"
            )


def check_ragged(ragged: object, options: Options, on_device: bool) -> dict[str, int]:
    """Return the checked ragged axes of inputs, by name.

    Raises:
        BadInput: the argument is not a mapping of names to axes.
        Unsupported, BadOption: the target or an option does not allow ragged programs.
    """
    if not isinstance(ragged, Mapping):
        raise BadInput(
            'ragged: expected a mapping of inputs to axes, such as {"ids": 1}, found '
            f"{type(ragged).__name__}"
        )
    for name, axis in ragged.items():
        if not isinstance(name, str):
            raise BadInput(f"ragged: expected the name of an input, found {name!r}")
        if isinstance(axis, bool) or not isinstance(axis, int) or axis != 1:
            raise BadInput(
                f"ragged: input '{name}': expected axis 1 (axis 0 counts the items), found {axis!r}"
            )
    if ragged and on_device:
        raise Unsupported("ragged: expected a CPU target, found a GPU")
    if ragged and options.state:
        raise BadOption("state: a ragged program cannot extend caches; leave out one of the two")
    if ragged and not options.fuse:
        raise BadOption("fuse: a ragged program requires fusion; leave out fuse=False")
    return dict(ragged)


__all__ = ["check_names", "check_ragged"]
