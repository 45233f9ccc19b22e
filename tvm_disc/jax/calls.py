"""Calls of programs from JAX: by DLPack, and by XLA after many calls at the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from operator import attrgetter
from typing import Protocol, TypeAlias

from tvm_disc.frontends.extras import require
from tvm_disc.jax.custom_call import has_custom_calls
from tvm_disc.runtime.executable import Executable

Call: TypeAlias = Callable[[Sequence[object]], object]  # takes the leaves of the arguments

MOST_CALLS = 10_000  # maximum number of entries of a CallTable
# Number of arrays that calls at one shape convert by DLPack before XLA is used. A conversion takes
# 3 microseconds, so that all of them take as long as XLA's compilation of the custom call.
MOST_ARRAYS = 5_000
# Number of calls by XLA after which JAX's own dispatch is used. If a later call has other shapes,
# the dispatch fails after a millisecond.
SETTLED = 1_000


class Callee(Protocol):
    """The interface of :class:`tvm_disc.jax.Compiled` that calls use."""

    executable: Executable
    shapes: set[Hashable]

    @property
    def by_xla(self) -> Callable[..., object]:
        """Return a function of the user's arguments that XLA calls as a custom call."""

    @property
    def leaves_by_xla(self) -> Callable[..., object]:
        """Return a function of the arguments' leaves that XLA calls as a custom call."""

    @property
    def donates(self) -> bool:
        """Return whether a call deletes donated arguments."""

    def on_leaves(self, leaves: Sequence[object]) -> object:
        """Call the program by DLPack."""

    def delete(self, leaves: Sequence[object]) -> None:
        """Delete the leaves that are donated arrays."""

    def arrays(self) -> int:
        """Return the number of arrays that a call converts: arguments and results."""


class NewShape(Exception):
    """Raised if XLA has not compiled a custom call for the shapes of the arguments."""


class CallTable(dict[Hashable, Call]):
    """The function that calls the program, by the types and shapes of a call's arrays.

    Attributes:
        settled: a jitted function that replaces the lookup after many calls by XLA, or None.
        observers: the observers of the program; while there are any, ``settled`` is not used,
            because observers do not see its calls.
        errors: the errors of ``settled`` after which the lookup is used again: XLA has no custom
            call for the shapes, or the call failed.
    """

    def __init__(self, settles: bool = True) -> None:
        self._settles = settles
        self.settled: Callable[..., object] | None = None
        self.observers: Sequence[object] = ()
        self.errors: tuple[type[Exception], ...] = (NewShape,)

    def add(self, key: Hashable, program: Callee, leaves: Sequence[object]) -> Call:
        """Store and return the call by DLPack, which a call by XLA replaces after many calls."""
        left = max(MOST_ARRAYS // max(program.arrays(), 1), 1) if has_custom_calls() else -1

        def counted(leaves: Sequence[object]) -> object:
            nonlocal left
            left -= 1
            if left == 0:
                self[key] = self._by_xla(program, leaves)
            return program.on_leaves(leaves)

        if len(self) >= MOST_CALLS:
            self.clear()
        self[key] = counted
        return counted

    def _by_xla(self, program: Callee, leaves: Sequence[object]) -> Call:
        """Return the call of a program by XLA; after ``SETTLED`` calls it sets ``settled``."""
        from jax.errors import JaxRuntimeError

        native, observers = program.leaves_by_xla, program.executable.observers
        kind = kind_of_arrays()
        settles = self._settles and not program.donates and all(type(x) is kind for x in leaves)
        if settles:
            program.shapes.add(kinds(leaves))
        self.errors = NewShape, JaxRuntimeError
        left = SETTLED

        def call(leaves: Sequence[object]) -> object:
            nonlocal left
            if observers:
                return program.on_leaves(leaves)
            try:
                found = native(*leaves)
            except JaxRuntimeError:  # call by DLPack: its errors have the names of inputs
                return program.on_leaves(leaves)
            left -= 1
            if left <= 0 and settles:
                left = SETTLED
                self.settled, self.observers = program.by_xla, observers
            return found

        def donating(leaves: Sequence[object]) -> object:
            found = call(leaves)
            program.delete(leaves)
            return found

        return donating if program.donates else call


@cache
def kind_of_arrays() -> type:
    """Return the class of JAX arrays that have values, in contrast to tracers."""
    import jax

    return type(jax.numpy.zeros(()))


def flattening() -> Callable[[object], tuple[list[object], Hashable]]:
    """Return JAX's ``tree_flatten``, which returns the leaves and the structure of a pytree.

    Raises:
        Unsupported: JAX is not installed.
    """
    require("jax", "jax", "tvm_disc.jax")
    from jax import tree_util

    found: Callable[[object], tuple[list[object], Hashable]] = tree_util.tree_flatten
    return found


_KIND = attrgetter("dtype", "shape")


def kinds(leaves: Sequence[object]) -> tuple[Hashable, ...]:
    """Return the dtype and shape of each array, and the class of each number."""
    try:
        return tuple(map(_KIND, leaves))
    except AttributeError:
        return tuple([_KIND(x) if hasattr(x, "dtype") else str(type(x)) for x in leaves])
