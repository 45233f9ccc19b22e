"""Every public function and class, and arguments that none of them was made for.

What is public is asked of the modules, not listed beside them: whatever joins them is called here,
too. A case is named by its arguments, such as ``("var", "cycle")`` or ``("var", "axis=deep")``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from tvm_disc import relay
from tvm_disc.errors import DiscError

ROOM = "tvm_disc."
MODULES = (
    "tvm_disc",
    "tvm_disc.relay",
    "tvm_disc.relay.op",
    "tvm_disc.relay.nn",
    "tvm_disc.relay.vision",
    "tvm_disc.relay.image",
    "tvm_disc.relay.dyn",
    "tvm_disc.relay.qnn",
    "tvm_disc.relay.loops",
    "tvm_disc.relay.transform",
    "tvm_disc.relay.analysis",
    "tvm_disc.relay.dataflow_pattern",
    "tvm_disc.relay.testing",
    "tvm_disc.relay.frontend",
    "tvm_disc.relay_passes",
    "tvm_disc.shape",
    "tvm_disc.frontends",
    "tvm_disc.executors",
    "tvm_disc.contrib.graph_executor",
)
# Not called: what waits for names of attributes, is Python's own, or changes the process for good.
LEFT_OUT = {
    "relay.op.member": "what modules ask for attributes",
    "relay.TypeKind": "an enumeration",
    "relay.analysis.Feature": "an enumeration",
    "relay.op.refusing": "a decorator of ours",
    "relay.op.get_op": "what relay.op.get asks when it has looked at the name",
}
DEPTH = 20_000


class Odd:
    """Nothing that anything expects."""

    def __repr__(self) -> str:
        return "Odd()"


def cycle() -> list[Any]:
    """A list that contains itself."""
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> list[Any]:
    """Lists in lists, deeper than Python and C can recurse."""
    made: list[Any] = []
    for _ in range(DEPTH):
        made = [made]
    return made


VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 5,
    "float": lambda: 1.5,
    "text": lambda: "x",
    "bytes": lambda: b"x",
    "odd": Odd,
    "cycle": cycle,
    "deep": deep,
    "var": lambda: relay.var("x", shape=(relay.Any(), 4)),
}
LATER = ("none", "text", "odd", "cycle", "deep")  # of all arguments but the first
OPTIONAL = ("odd", "deep")


def entries() -> dict[str, Callable[..., Any]]:
    """Every public function and class of the package by its name."""
    found: dict[str, Callable[..., Any]] = {}
    known: set[int] = set()
    for place in MODULES:
        module = importlib.import_module(place)
        names = {n for n in dir(module) if not n.startswith("_")} | {
            *getattr(module, "__all__", ())
        }
        if place != "tvm_disc.relay" and hasattr(module, "__all__"):
            names = set(module.__all__)
        for name in sorted(names):
            try:
                value = getattr(module, name)
            except (AttributeError, DiscError):
                continue
            label = f"{place.removeprefix(ROOM)}.{name}"
            ours = str(getattr(value, "__module__", "")).startswith("tvm_disc")
            if isinstance(value, ModuleType) or not callable(value) or not ours:
                continue
            if isinstance(value, type) and issubclass(value, BaseException):
                continue
            if id(value) not in known and label not in LEFT_OUT:
                known.add(id(value))
                found[label] = value
    return found


def cases(function: Callable[..., Any]) -> Iterator[tuple[str, ...]]:
    """The cases of a function by the names of their arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        yield from ((name,) for name in VALUES)
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    count = len(needed) or int(several or bool(positional))
    missing = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if count and not missing:
        yield from ((name,) * count for name in VALUES)
    if count > 1:
        yield from (("var", *[name] * (count - 1)) for name in LATER)
    for parameter in positional[max(len(needed), 1) :]:
        yield from ((*["var"] * len(needed), f"{parameter.name}={name}") for name in OPTIONAL)
    for parameter in (p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty):
        yield from ((*["var"] * len(needed), f"{parameter.name}={name}") for name in LATER)


def outcome(function: Callable[..., Any], case: tuple[str, ...]) -> str:
    """What a call says: ``accepted``, or the kind of error and the first line of its message."""
    args = [VALUES[name]() for name in case if "=" not in name]
    named = dict(name.split("=") for name in case if "=" in name)
    try:
        function(*args, **{key: VALUES[name]() for key, name in named.items()})
    except DiscError as error:
        return f"{type(error).__name__}: {_first_line(error)}"
    except (Exception, SystemExit) as error:
        return f"RAW {type(error).__name__}: {_first_line(error)}"
    return "accepted"


def _first_line(error: BaseException) -> str:
    """What is the same on every machine, and with every release of Python."""
    line = next(iter(str(error).splitlines()), "")
    line = re.sub(r"0x[0-9a-f]+", "0x_", line)
    line = re.sub(r"(invalid arguments \(.*\)): .*", r"\1", line)
    return line[:160]


def table(only: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Every function with its cases and what they say."""
    for label, function in entries().items():
        if only in label:
            yield label, {", ".join(c): outcome(function, c) for c in cases(function)}
