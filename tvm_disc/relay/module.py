"""A Relay module: named functions and data types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

import tvm
import tvm_ffi

from tvm_disc.support.late import Late

from ..errors import BadNode, DiscError, UnknownName, named_of
from .expr import Constructor, Expr, Function, GlobalVar, TupleWrapper, as_expr
from .types import GlobalTypeVar, TypeData
from .visit import free_vars

_astext = Late("tvm_disc.relay.text.printer:astext")
_pretty_print = Late("tvm_disc.relay.text.printer:pretty_print")

# The attribute of a ``tvm.IRModule`` that holds a Relay module.
CARRIED = "relay.module"


# Loads a module of the standard library by file name; registered by a higher layer, because the
# parser imports this module.
_LIBRARY: list[Callable[[str], IRModule]] = []


def register_standard_library(read: Callable[[str], IRModule]) -> None:
    """Register the function that loads a module of the standard library by its file name."""
    _LIBRARY[:] = [read]


class IRModule:
    """Functions by ``GlobalVar`` and data types by name.

    A name has exactly one ``GlobalVar`` object in a module; ``module["main"]`` and
    ``module[module.get_global_var("main")]`` are the same function.
    """

    def __init__(
        self,
        functions: Mapping[Any, Function] | None = None,
        type_definitions: Mapping[Any, TypeData] | None = None,
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        self.functions: dict[GlobalVar, Function] = {}
        self.type_definitions: dict[str, TypeData] = {}
        self.attrs: dict[str, Any] = named_of("attrs", attrs)
        self._globals: dict[str, GlobalVar] = {}
        self._constructors: dict[str, Constructor] = {}
        for what, given in (("functions", functions), ("type_definitions", type_definitions)):
            if given is not None and not isinstance(given, Mapping):
                raise BadNode(
                    f"{what}: expected a mapping from names to values, found {type(given).__name__}"
                )
        for data in (type_definitions or {}).values():
            self.add_type(data)
        for name, func in (functions or {}).items():
            self[name] = func

    def __tvm_ffi_object__(self) -> object:
        """Return a ``tvm.IRModule`` that carries this module through TVM's pass manager."""
        return tvm.IRModule(attrs={CARRIED: _Carried(self)})

    @staticmethod
    def from_expr(
        expr: Expr | TupleWrapper,
        functions: Mapping[object, Function] | None = None,
        type_defs: Mapping[object, TypeData] | None = None,
    ) -> IRModule:
        """Return a module whose ``main`` is ``expr``, with other functions and data types beside
        it.

        Free variables of ``expr`` become parameters.
        """
        if not isinstance(expr, Expr | TupleWrapper):
            raise BadNode(f"expected a Relay expression, found {type(expr).__name__}")
        expr = as_expr(expr)
        func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
        module = IRModule(functions, type_defs)
        module["main"] = func
        return module

    @overload
    def __getitem__(self, key: GlobalTypeVar) -> TypeData: ...

    @overload
    def __getitem__(self, key: str | GlobalVar) -> Function: ...

    def __getitem__(self, key: str | GlobalVar | GlobalTypeVar) -> Function | TypeData:
        if isinstance(key, GlobalTypeVar):
            return self.type_definitions[self.get_global_type_var(key.name).name]
        return self.functions[self.get_global_var(_name(key))]

    def __setitem__(self, key: str | GlobalVar | GlobalTypeVar, func: Expr | TypeData) -> None:
        if isinstance(func, TypeData):
            found = key.name if isinstance(key, GlobalTypeVar) else key
            if found != func.header.name:
                raise BadNode(
                    f"type {found}: expected its definition, found that of type {func.header.name}"
                )
            self.add_type(func)
            return
        if isinstance(key, GlobalTypeVar):
            raise BadNode(f"type {key.name}: expected relay.TypeData, found {type(func).__name__}")
        if not isinstance(func, Expr):
            raise BadNode(f"expected a relay.Function, found {type(func).__name__}")
        if not isinstance(func, Function):
            func = Function(free_vars(func), func)
        name = _name(key)
        known = self._globals.get(name)
        if known is None:
            known = key if isinstance(key, GlobalVar) else GlobalVar(name)
            self._globals[name] = known
        self.functions[known] = func

    def same_as(self, other: object) -> bool:
        """Return whether ``other`` is this object; a module with equal content is not."""
        return self is other

    def __contains__(self, key: str | GlobalVar | GlobalTypeVar) -> bool:
        if isinstance(key, GlobalTypeVar):
            return key.name in self.type_definitions
        return _name(key) in self._globals

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the ``GlobalVar`` of that name; raise UnknownName, listing the functions, if
        none.
        """
        if name not in self._globals:
            known = ", ".join(f"@{g}" for g in sorted(self._globals)) or "none"
            raise UnknownName(f"the module has no function @{name}; its functions: {known}")
        return self._globals[name]

    def get_global_vars(self) -> list[GlobalVar]:
        """Return the name of every function."""
        return list(self.functions)

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """Return the name of every data type."""
        return [data.header for data in self.type_definitions.values()]

    def functions_items(self) -> list[tuple[GlobalVar, Function]]:
        """Return (name, function) pairs sorted by name."""
        return sorted(self.functions.items(), key=lambda item: item[0].name_hint)

    def update_func(self, var: GlobalVar, func: Function) -> None:
        """Replace a function."""
        self[var] = func

    def get_attr(self, name: str) -> int | None:
        """Return an attribute of the module; None if there is none of that name."""
        return self.attrs.get(name)

    def add_type(self, data: TypeData) -> None:
        """Define a data type and its constructors."""
        self.type_definitions[data.header.name] = data
        for tag, (sig, given) in enumerate(zip(data.constructors, data.given, strict=True)):
            ctor = given  # the object that the script uses in its calls
            if isinstance(given, Constructor):
                given.belong_to, given.tag = data.header.name, tag
            else:
                ctor = Constructor(sig.name, sig.inputs, data.header.name, tag)
            self._constructors[sig.name] = ctor

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """Return the name of a defined data type; raise UnknownName if there is none."""
        if name not in self.type_definitions:
            known = ", ".join(sorted(self.type_definitions)) or "none"
            raise UnknownName(f"the module has no data type {name}; its data types: {known}")
        return self.type_definitions[name].header

    def get_type(self, name: str) -> tuple[Any, ...]:
        """Return ``(type, constructor, constructor...)`` of a data type, as Relay does."""
        header = self.get_global_type_var(name)
        data = self.type_definitions[name]
        return (header, *(self._constructors[c.name] for c in data.constructors))

    def get_constructor(self, type_name: str, name: str | None = None) -> Constructor:
        """Return a constructor by type and name, or by name alone; raise UnknownName if there
        is none.
        """
        wanted = type_name if name is None else name
        found = self._constructors.get(wanted)
        if found is None or (name is not None and found.belong_to != type_name):
            owner = "the module" if name is None else f"data type {type_name}"
            known = ", ".join(sorted(self._constructors)) or "none"
            text = f"{owner} has no constructor {wanted}; the module's constructors: {known}"
            raise UnknownName(text)
        return found

    @property
    def constructors(self) -> Mapping[str, Constructor]:
        """Return every constructor by name."""
        return self._constructors

    def import_from_std(self, path: str) -> None:
        """Add a module of the standard library, ``prelude.rly`` or ``nat.rly``.

        Raises:
            Unsupported: the library has no module of that name.
        """
        self.update(_LIBRARY[0](path))

    def update(self, other: IRModule | Mapping[Any, Function]) -> None:
        """Add or replace the functions (and types) of ``other``."""
        if isinstance(other, IRModule):
            self.type_definitions.update(other.type_definitions)
            self._constructors.update(other._constructors)  # patterns refer to these objects
            other = other.functions
        for key, func in other.items():
            self[_name(key)] = func

    def copy(self) -> IRModule:
        """Return a module of the same functions and data types that can be changed
        independently.
        """
        copy = IRModule(self.functions, self.type_definitions, self.attrs)
        copy._constructors = dict(self._constructors)  # patterns refer to these objects
        return copy

    def with_attr(self, name: str, value: object) -> IRModule:
        """Return a copy with one more attribute."""
        copy = self.copy()
        copy.attrs[name] = value
        return copy

    def with_attrs(self, attrs: Mapping[str, object]) -> IRModule:
        """Return a copy with more attributes."""
        copy = self.copy()
        copy.attrs.update(attrs)
        return copy

    def without_attr(self, name: str) -> IRModule:
        """Return a copy without an attribute."""
        copy = self.copy()
        copy.attrs.pop(name, None)
        return copy

    def with_main(self, main: Function) -> IRModule:
        """Return a copy with a different ``main``."""
        copy = self.copy()
        copy["main"] = main
        return copy

    def astext(
        self, show_meta_data: bool = True, annotate: Callable[[Expr], str] | None = None
    ) -> str:
        """Return the module in Relay's text format."""
        text: str = _astext(self, show_meta_data, annotate)
        return text

    def __str__(self) -> str:
        return str(_pretty_print(self))


def _raised(error: type[DiscError]) -> Iterator[type[DiscError]]:
    yield error
    for more in error.__subclasses__():
        yield from _raised(more)


# TVM re-raises an error from inside a pass with the error's class only if that class is registered.
for _error in _raised(DiscError):
    tvm_ffi.register_error(_error)


class _Carried:
    """Wrapper of a module on its way through TVM. Without it, TVM would convert the module to a
    ``tvm.IRModule`` again.
    """

    def __init__(self, module: IRModule) -> None:
        self.module = module


def carried_by(mod: Any) -> IRModule | None:
    """Return the Relay module that a ``tvm.IRModule`` carries through a pipeline, or None."""
    found = (mod.attrs or {}).get(CARRIED)
    return found.module if isinstance(found, _Carried) else None


def _name(key: str | GlobalVar) -> str:
    return key.name_hint if isinstance(key, GlobalVar) else key
