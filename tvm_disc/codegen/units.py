"""Division of a program into units that are compiled and cached separately.

A unit is one kernel, a set of register-tile functions that call each other, the support code, or
the entry. Units call each other by symbols, which the linker resolves. The symbol of a kernel
contains a digest of the kernel's content. Equal kernels of two programs are therefore the same
unit, even if their names differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import GlobalVar

from tvm_disc.tir.imports import provided
from tvm_disc.typing import Call, Expr, TVMModule

Function: TypeAlias = Any
Functions: TypeAlias = Mapping[Any, Function]  # keyed by global variable
_LINKED = re.compile(r'"(disc\.[\w.]+)"')  # an LLVM function, in TIR as JSON
_NUMBER = re.compile(r"_body\d*$|_v?\d+$")


@dataclass(frozen=True)
class Emitted:
    """The TIR of a program for one target.

    Attributes:
        entry: entry points of the program, and functions that LLVM may inline into them.
        support: memory, results and similar code, equal for all CPU programs with the same number
            of threads.
        kernels: the functions of each kernel.
        shared: register-tile functions that several kernels call.
        accounts: functions that record launches in timed calls.
        known: for each kernel whose object is cached, the symbol of its entry, and a function that
            generates its TIR.
    """

    entry: Functions
    support: Functions
    kernels: Sequence[Functions]
    shared: Functions
    accounts: Functions = field(default_factory=dict)
    known: Mapping[Any, tuple[str, Callable[[], Functions]]] = field(default_factory=dict)

    @property
    def module(self) -> TVMModule:
        """The whole program as one module."""
        # First, because this may add shared functions.
        known = [make() for _, make in self.known.values()]
        functions = dict(self.shared)
        for part in (self.entry, self.accounts, self.support, *self.kernels, *known):
            functions.update(part)
        return tvm.IRModule(functions)

    def script(self) -> str:
        """Return the whole program as text."""
        return str(self.module.script())

    @cached_property
    def units(self) -> list[Unit]:
        """The distinct units of the program, without units of kernels whose object is cached."""
        known = {gv: symbol for gv, (symbol, _) in self.known.items()}
        names = _Names([self.shared, *self.kernels], known)
        parts = [*self.kernels, self.support, self.accounts, self.entry]
        called = _called_from_outside([*_connected(self.shared), *parts])
        units = shared_units(self.shared)
        units += [Unit(part, called & part.keys(), names) for part in parts if part]
        return list({unit.key: unit for unit in units}.values())


def unit_of_kernel(kernel: Functions, shared: Functions) -> Unit:
    """Return the unit of a kernel before the program that calls it is complete.

    Args:
        shared: the register-tile functions generated so far.
    """
    inside = {gv for function in kernel.values() for gv in _callees(function)}
    return Unit(kernel, kernel.keys() - inside, _Names([shared, kernel]))


def shared_units(shared: Functions) -> list[Unit]:
    """Return the units of shared functions. All kernels must have been generated, because their
    generation adds shared functions.
    """
    names = _Names([shared])
    return [Unit(part, part, names) for part in _connected(shared)]


class _Names:
    """Symbols of functions in objects.

    The symbol of a kernel function or register-tile function contains a digest of its content; the
    symbol of any other function is its name.
    """

    def __init__(
        self, parts: Iterable[Functions], known: Mapping[GlobalVar, str] | None = None
    ) -> None:
        self._functions = {gv: f for part in parts for gv, f in part.items()}
        self._known: dict[Any, str] = dict(known or {})

    def tells(self, gv: object) -> bool:
        """Return whether a function's symbol contains a digest of its content."""
        return gv in self._functions

    def of(self, gv: Any) -> str:
        """Return the symbol of a function. Terminates, as kernels do not call each other
        recursively.
        """
        if gv not in self._known:
            if not self.tells(gv):
                return str(gv.name_hint)
            stem = str(gv.name_hint)
            while (shorter := _NUMBER.sub("", stem)) != stem:
                stem = shorter
            self._known[gv] = f"{stem}_{_content(self._functions[gv], self)[0]}"
        return self._known[gv]


def _digest(texts: Iterable[str]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(text.encode())
        found.update(b"\0")
    return found.hexdigest()


def _content(func: Function, names: _Names) -> tuple[str, int]:
    """Return a digest of a function whose callees are replaced by symbols, with the LLVM functions
    that it calls, and the length of its TIR as JSON.
    """
    return _digest_of(func, tuple((gv, names.of(gv)) for gv in _callees(func)))


@lru_cache(maxsize=512)
def _digest_of(func: Function, callees: tuple[tuple[Expr, str], ...]) -> tuple[str, int]:
    """Implement :func:`_content`; cached, as several programs of a process have equal functions."""
    names = dict(callees)
    text = tvm.ir.save_json(_calling(func, lambda gv: _extern(names[gv])))
    return _digest([text, *provided(dict.fromkeys(_LINKED.findall(text)))]), len(text)


def _extern(name: str) -> Callable[[Any], Any]:
    """Return a function that replaces a call by a call of the external symbol ``name``."""
    return lambda call: tirx.call_extern(str(call.ty.dtype), name, *call.args)


def _calling(func: Function, other: Callable[[Any], Callable[[Any], Any]]) -> Function:
    """Return ``func`` with each call of a global function replaced.

    ``other`` maps the function to a function that maps the call to its replacement.
    """

    def changed(call: Call) -> Expr:
        return other(call.op)(call) if isinstance(call.op, GlobalVar) else call

    body = tvm_ffi.structural_map(func.body, (tvm.ir.Call, changed), order="post")
    return func if body.same_as(func.body) else func.with_body(body)


@lru_cache(maxsize=1024)
def _callees(func: Function) -> tuple[Expr, ...]:
    found: dict[Any, None] = {}

    def look(call: Call) -> None:
        if isinstance(call.op, GlobalVar):
            found[call.op] = None

    tvm_ffi.structural_walk(func.body, (tvm.ir.Call, look))
    return tuple(found)


def _called_from_outside(parts: Iterable[Functions]) -> frozenset[Expr]:
    """Return the functions that are called from a different part."""
    return frozenset(
        gv for part in parts for f in part.values() for gv in _callees(f) if gv not in part
    )


def _connected(functions: Functions) -> list[Functions]:
    """Return the connected components of the call graph."""
    group = {gv: gv for gv in functions}

    def root(gv: object) -> object:
        while group[gv] is not gv:
            gv = group[gv]
        return gv

    for gv, func in functions.items():
        for other in _callees(func):
            group[root(other)] = root(gv)
    found: dict[object, dict[Any, Function]] = {}
    for gv, func in functions.items():
        found.setdefault(root(gv), {})[gv] = func
    return list(found.values())


class Unit:
    """Functions of one object.

    Attributes:
        outside: the symbols that other units call.
        alone: whether the unit calls no other unit.
        size: bytes of its TIR as JSON, which estimate LLVM's time.
        key: a digest of the functions; units with equal keys are equal.
    """

    def __init__(self, part: Functions, called: Iterable[object], names: _Names) -> None:
        self._part, self._names = part, names
        self.outside = frozenset(names.of(gv) for gv in called)
        self.alone = all(gv in part for f in part.values() for gv in _callees(f))
        # A kernel's symbol already contains its digest.
        contents = {gv: _content(f, names) for gv, f in part.items()}
        self.size = sum(size for _, size in contents.values())
        told = {names.of(g): "" if names.tells(g) else c for g, (c, _) in contents.items()}
        self.key = _digest([*chain(*sorted(told.items())), *sorted(self.outside)])

    @property
    def module(self) -> TVMModule:
        """The functions as a module; calls of other units are external calls."""
        own = {gv: GlobalVar(self._names.of(gv)) for gv in self._part}

        def other(gv: GlobalVar) -> Any:
            if gv not in own:
                return _extern(self._names.of(gv))
            return lambda call: tvm.ir.Call(own[gv], list(call.args), ret_ty=call.ty)

        return tvm.IRModule({own[gv]: _calling(f, other) for gv, f in self._part.items()})


__all__ = ["Emitted", "Unit", "shared_units", "unit_of_kernel"]
