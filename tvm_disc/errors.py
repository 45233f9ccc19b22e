"""The exception classes of tvm_disc, and the value that records a refusal.

    DiscError
    ├── ParseError          Relay text or JSON has a syntax error
    ├── TypeMismatch        a well-formed program with a type error
    │   └── BadNode         a Relay node was constructed from invalid arguments
    ├── UnknownName         a module has no function, type or constructor of that name
    ├── NotEqual            two programs that were asserted to be equal differ
    ├── ShapeConflict       two facts about shapes contradict each other
    ├── Unsupported         a legal program that this release cannot compile
    ├── BuildTimeout        a build took longer than ``Options(time_limit=...)``
    ├── OutOfResources      the machine lacks threads, file descriptors or disk space
    │   └── OutOfMemory     a build needs more memory than is available to the process
    ├── GuardFailed         a run-time input violates a fact that the program was compiled under
    │   ├── IndexOutside    an index is out of bounds of its axis
    │   └── DivisionByZero  an integer is divided by 0
    ├── BadInput            an argument of a call has the wrong name, rank, dtype, device or layout
    ├── DeviceError         a GPU, its driver or code for it is missing, or a kernel failed
    ├── BadOption           a field of Options or a DISC_* variable has an invalid value
    └── ArtifactError       a saved program cannot be loaded here
        └── WrongProcessor  a program needs instruction sets that this processor lacks

A message says what was expected, what was found, with the user's names, and what to do.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother, _SHOWN.maxlong = 6, 200, 400, 100
_SHOWN.maxtuple = _SHOWN.maxlist = _SHOWN.maxdict = _SHOWN.maxset = 32


def shown(value: object) -> str:
    """Return the ``repr`` of a user's value for a message, bounded in length and depth."""
    try:
        return _SHOWN.repr(value)
    except Exception:  # the value's __repr__ raises
        return f"<{type(value).__name__}>"


def counted(number: int, noun: str, several: str = "") -> str:
    """Return a string like ``1 kernel`` or ``3 kernels``; the plural is ``several``."""
    return f"{number} {noun}" if number == 1 else f"{number} {several or f'{noun}s'}"


class DiscError(Exception):
    """Base class of all exceptions that this package raises on purpose."""


class ParseError(DiscError):
    """A syntax error in Relay text or JSON.

    Attributes:
        message: the message without the position.
        line: counted from 1; 0 if the error has no position.
        column: counted from 1; 0 if the error has no position.
        source: the file's name, if the text is from a file.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, source: str = "") -> None:
        place = [source] if source else []
        place += [str(line), str(column)] if line else []
        super().__init__(f"{':'.join(place)}: {message}" if place else message)
        self.message, self.line, self.column, self.source = message, line, column, source

    def __reduce__(self) -> tuple[type[ParseError], tuple[str, int, int, str]]:
        return type(self), (self.message, self.line, self.column, self.source)


class TypeMismatch(DiscError):
    """Operand types do not fit an operator."""


class BadNode(TypeMismatch, TypeError, ValueError):
    """A Relay node, type or constant was constructed from invalid arguments.

    Also derives from the ``TypeError`` and ``ValueError`` that Relay's own builder raises.
    """


def parts_of(what: str, values: object) -> tuple[Any, ...]:
    """Return a sequence argument of a node's constructor as a tuple.

    Raises:
        BadNode: it is not a sequence.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise BadNode(f"{what}: expected a sequence, found {shown(values)}")
    return tuple(values)


def named_of(what: str, values: object) -> dict[str, object]:
    """Return a mapping argument of a node's constructor as a dict; None gives an empty dict.

    Raises:
        BadNode: it is not a mapping.
    """
    if values is None:
        return {}
    if not hasattr(values, "keys") or isinstance(values, type):
        raise BadNode(f"{what}: expected a mapping from names to values, found {shown(values)}")
    return dict(values)  # type: ignore[call-overload, no-any-return]


def refusing(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a constructor of nodes so that Python errors about its arguments become BadNode.

    Use it only for functions that just check and combine their arguments. In other functions it
    would report a defect of this package as a user error.
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DiscError:
            raise
        except _OF_ARGUMENTS as error:
            given = [*map(shown, args), *(f"{k}={shown(v)}" for k, v in kwargs.items())]
            name = function.__name__
            text = str(error) or type(error).__name__
            raise BadNode(f"{name}: invalid arguments ({', '.join(given)}): {text}") from error

    return checked


_OF_ARGUMENTS = (
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)


class UnknownName(DiscError, KeyError, ValueError):
    """A module does not define the requested name. Also derives from the error classes of mappings
    and of Relay's module.
    """

    def __str__(self) -> str:
        return str(self.args[0])


class NotEqual(DiscError, ValueError):
    """Two programs that were asserted to be equal differ; the message names the first parts that
    differ.
    """


class ShapeConflict(DiscError):
    """Two statements about shapes cannot both hold; the message quotes both."""


class Unsupported(DiscError):
    """A legal program that this release cannot compile."""


class BuildTimeout(DiscError):
    """A build exceeded its time limit; the message names the current stage and kernel."""


class OutOfResources(DiscError):
    """The machine lacks threads, file descriptors or disk space that a build needs."""


class OutOfMemory(OutOfResources, MemoryError):
    """A build needs more memory than is available to the process. Also derives from
    ``MemoryError``.
    """


class GuardFailed(DiscError):
    """A shape or a value of a call violates a condition of the program."""


class IndexOutside(GuardFailed, IndexError):
    """An index in the data is out of bounds; the message gives the index and the limits."""


class DivisionByZero(GuardFailed, ZeroDivisionError):
    """An integer in the data is divided by 0."""


class BadInput(DiscError):
    """An argument of a call does not fit the program's signature."""


class DeviceError(DiscError):
    """A GPU program found no GPU, driver or code for the GPU, or a kernel failed."""


class BadOption(DiscError):
    """A compiler option or its environment variable has an invalid value."""


class ArtifactError(DiscError):
    """A saved program cannot be loaded."""


class WrongProcessor(ArtifactError):
    """A program was compiled for a different processor. The message names the missing instruction
    sets and a target that this processor supports.
    """


@dataclass(frozen=True)
class WhyNot:
    """A recorded refusal: the decision that was refused, such as a fusion, and the reason in the
    user's terms.

    As a bool it is False, so that ``if plan := can_fuse(a, b)`` works.
    """

    subject: str
    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"
