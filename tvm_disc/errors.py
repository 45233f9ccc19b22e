"""Every exception that tvm_disc raises, and the value that records a refusal.

DiscError
├── ParseError          the Relay text or JSON is not what the grammar says
├── TypeMismatch        the program is well formed but its types do not fit
│   └── BadNode         a Relay node was made of the wrong things
├── UnknownName         a module is asked for a function, type or constructor that it has not
├── NotEqual            two programs that were to be equal differ
├── ShapeConflict       two facts about shapes contradict each other
├── Unsupported         the program is legal, this release cannot compile it
├── BuildTimeout        a build took longer than ``Options(time_limit=...)``
├── OutOfResources      the machine lacks threads, file descriptors or space on disk
│   └── OutOfMemory     a build needs more memory than the process may have
├── GuardFailed         a run-time input breaks a fact the program was compiled under
│   ├── IndexOutside    an index lies outside of its axis
│   └── DivisionByZero  an integer is divided by 0
├── BadInput            an argument of a call has the wrong name, rank, dtype, device or layout
├── DeviceError         a GPU, its driver, or code for it is missing, or a kernel failed there
├── BadOption           a field of Options or a DISC_* variable has an impossible value
└── ArtifactError       a saved program cannot be loaded here
    └── WrongProcessor  a program needs what this processor has not

A message says what was expected, what was found, in the user's names, and what to do.
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
    """A value of a user's in a message, bounded: it may be large, deep, or contain itself."""
    try:
        return _SHOWN.repr(value)
    except Exception:  # its own way to show itself fails
        return f"<{type(value).__name__}>"


class DiscError(Exception):
    """Base class of everything raised on purpose by this package."""


class ParseError(DiscError):
    """The Relay text or JSON breaks the grammar.

    Carries ``line`` and ``column`` (1-based; 0 if what is wrong has no place in the text),
    ``source``, the file's name if it was one, and the bare ``message``.
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
    """A node, a type or a constant of Relay was made of the wrong things.

    Also the ``TypeError`` and ``ValueError`` that Relay's own builder raises.
    """


def parts_of(what: str, values: object) -> tuple[Any, ...]:
    """The parts that a node is made of.

    raises: BadNode if it is no sequence.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise BadNode(f"{what}: expected a sequence, found {shown(values)}")
    return tuple(values)


def named_of(what: str, values: object) -> dict[str, Any]:
    """Values by name, such as a node has.

    raises: BadNode if it is no mapping.
    """
    if values is None:
        return {}
    if not hasattr(values, "keys") or isinstance(values, type):
        raise BadNode(f"{what}: expected a mapping by name, found {shown(values)}")
    return dict(values)  # type: ignore[call-overload, no-any-return]


def refusing(function: Callable[P, R]) -> Callable[P, R]:
    """A function that makes nodes; what Python says of arguments that it cannot take is a BadNode.

    For functions that only look at their arguments and put them together: in others an error of
    Python's would be one of ours.
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
            raise BadNode(f"{name}: cannot take ({', '.join(given)}): {text}") from error

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
    """A module has nothing of that name; also the errors of a mapping, and of Relay's module."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotEqual(DiscError, ValueError):
    """Two programs that were to be equal differ; names the first parts that do."""


class ShapeConflict(DiscError):
    """Two statements about shapes cannot both hold; the message quotes both."""


class Unsupported(DiscError):
    """A legal program that this release cannot compile."""


class BuildTimeout(DiscError):
    """A build took longer than its limit; names the stage and the kernel it was at."""


class OutOfResources(DiscError):
    """A build needs threads, file descriptors or space on disk that the machine does not give."""


class OutOfMemory(OutOfResources, MemoryError):
    """A build needs more memory than the process may have; also Python's ``MemoryError``."""


class GuardFailed(DiscError):
    """A run-time shape breaks a guard."""


class IndexOutside(GuardFailed, IndexError):
    """An index in the data lies outside of its axis; the message quotes index and limits."""


class DivisionByZero(GuardFailed, ZeroDivisionError):
    """An integer in the data is divided by 0."""


class BadInput(DiscError):
    """An argument of a call does not fit the program's signature."""


class DeviceError(DiscError):
    """A program for a GPU finds none, no driver or no code for it, or a kernel failed there."""


class BadOption(DiscError):
    """A compiler option or its environment variable has an impossible value."""


class ArtifactError(DiscError):
    """A saved program cannot be loaded."""


class WrongProcessor(ArtifactError):
    """A program was compiled for another processor; names what is missing and what would run."""


@dataclass(frozen=True)
class WhyNot:
    """A recorded refusal: what was not done, and the reason in the user's terms.

    Falsy, so that ``if plan := can_fuse(a, b)`` reads naturally.
    """

    subject: str
    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}"
