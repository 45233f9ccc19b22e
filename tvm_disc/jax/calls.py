"""How programs are called: by DLPack, and after many calls at the same shapes by XLA."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from operator import attrgetter
from typing import Protocol, TypeAlias

from tvm_disc.frontends.extras import require
from tvm_disc.jax.custom_call import has_custom_calls
from tvm_disc.runtime.executable import Executable

Call: TypeAlias = Callable[[Sequence[object]], object]  # takes the leaves of the arguments

MOST_CALLS = 10_000  # maximum number of shapes whose program is looked up at once
# Arrays that calls at one shape convert before XLA does it: 3 microseconds each, as long as XLA
# takes to compile the custom call.
MOST_ARRAYS = 5_000
SETTLED = 1_000  # custom calls in succession before JAX looks them up; a miss takes a millisecond


class Callee(Protocol):
    """A compiled function."""

    executable: Executable
    shapes: set[Hashable]

    @property
    def by_xla(self) -> Callable[..., object]:
        """The call as a custom call of XLA."""

    @property
    def leaves_by_xla(self) -> Callable[..., object]:
        """The same for the leaves of arguments."""

    @property
    def donates(self) -> bool:
        """Whether calls delete some of their arguments."""

    def on_leaves(self, leaves: Sequence[object]) -> object:
        """Call the program by DLPack."""

    def delete(self, leaves: Sequence[object]) -> None:
        """Delete the donated arrays among some leaves."""

    def arrays(self) -> int:
        """Return the number of arrays that a call converts."""


class NewShape(Exception):
    """XLA has no custom call for the shapes of a call."""


class CallTable(dict[Hashable, Call]):
    """How to call programs, by the types and shapes of a call's arrays.

    Attributes:
        settled: JAX's own dispatch of custom calls, if the last calls all had one.
        observers: observers of the program of ``settled``, which would not see such calls.
        errors: what ``settled`` raises if it has no call for some arguments, or the call failed.
    """

    def __init__(self, settles: bool = True) -> None:
        self._settles = settles
        self.settled: Callable[..., object] | None = None
        self.observers: Sequence[object] = ()
        self.errors: tuple[type[Exception], ...] = (NewShape,)

    def add(self, key: Hashable, program: Callee, leaves: Sequence[object]) -> Call:
        """Return the call of a program by DLPack, and replace it by XLA's after many calls."""
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
        """Return the call of a program by XLA, and let JAX dispatch after many in succession."""
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
            except JaxRuntimeError:  # the program's own error has the names of inputs
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
    """Return the type of JAX's arrays that hold values."""
    import jax

    return type(jax.numpy.zeros(()))


def flattening() -> Callable[[object], tuple[list[object], Hashable]]:
    """Return the function of JAX that returns the leaves and the structure of a tree.

    Raises:
        Unsupported: JAX is not installed.
    """
    require("jax", "jax", "tvm_disc.jax")
    from jax import tree_util

    found: Callable[[object], tuple[list[object], Hashable]] = tree_util.tree_flatten
    return found


_KIND = attrgetter("dtype", "shape")


def kinds(leaves: Sequence[object]) -> tuple[Hashable, ...]:
    """Return the types and shapes of arrays, and the types of numbers."""
    try:
        return tuple(map(_KIND, leaves))
    except AttributeError:
        return tuple([_KIND(x) if hasattr(x, "dtype") else str(type(x)) for x in leaves])
