"""``TypeFunctor``, ``TypeVisitor`` and ``TypeMutator``: base classes of walks over types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tvm_disc.relay.types import (
    ConstructorSig,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
)

_METHODS: dict[type, str] = {
    TypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    RefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var",
    TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
}


def method_for(
    walk: object, methods: Mapping[type, str], what: str, node: object
) -> Callable[[object], object]:
    """Return the method of a visitor object for the class of a node.

    Raises:
        TypeError: the node is not of a supported class, or the visitor does not define the method.
    """
    name = methods.get(type(node))
    if name is None:
        raise TypeError(f"expected a Relay {what}, found {type(node).__name__} {node!r}")
    method: Callable[[object], object] | None = getattr(walk, name, None)
    if method is None:
        raise TypeError(
            f"{type(walk).__name__} has no method {name}, which a {type(node).__name__} requires; "
            "define it, or derive the class from the Visitor or Mutator, which define all methods"
        )
    return method


class TypeFunctor:
    """Dispatch by class of type; a subclass defines methods such as ``visit_tensor_type``."""

    def visit(self, typ: object) -> Any:
        """Return the result for ``typ``."""
        return method_for(self, _METHODS, "type", typ)(typ)


class TypeVisitor(TypeFunctor):
    """Visitor of every type inside a type."""

    def visit_type_var(self, var: TypeVar) -> None:
        pass

    def visit_incomplete_type(self, typ: IncompleteType) -> None:
        pass

    def visit_tensor_type(self, typ: TensorType) -> None:
        pass

    def visit_func_type(self, typ: FuncType) -> None:
        for part in (*typ.type_params, *typ.arg_types, typ.ret_type):
            self.visit(part)

    def visit_tuple_type(self, typ: TupleType) -> None:
        for part in typ.fields:
            self.visit(part)

    def visit_ref_type(self, typ: RefType) -> None:
        self.visit(typ.value)

    def visit_global_type_var(self, var: GlobalTypeVar) -> None:
        pass

    def visit_type_call(self, typ: TypeCall) -> None:
        for part in (typ.func, *typ.args):
            self.visit(part)

    def visit_type_data(self, typ: TypeData) -> None:
        for part in (typ.header, *typ.type_vars):
            self.visit(part)
        for sig in typ.constructors:
            for part in sig.inputs:
                self.visit(part)


class TypeMutator(TypeFunctor):
    """Visitor that rebuilds a type; an unchanged type is returned as the same object."""

    def visit_type_var(self, var: TypeVar) -> object:
        return var

    def visit_incomplete_type(self, typ: IncompleteType) -> object:
        return typ

    def visit_tensor_type(self, typ: TensorType) -> object:
        return typ

    def visit_func_type(self, typ: FuncType) -> object:
        params, args = self._all(typ.type_params), self._all(typ.arg_types)
        return self._made(typ, FuncType(args, self.visit(typ.ret_type), params))

    def visit_tuple_type(self, typ: TupleType) -> object:
        return self._made(typ, TupleType(self._all(typ.fields)))

    def visit_ref_type(self, typ: RefType) -> object:
        return self._made(typ, RefType(self.visit(typ.value)))

    def visit_global_type_var(self, var: GlobalTypeVar) -> object:
        return var

    def visit_type_call(self, typ: TypeCall) -> object:
        return self._made(typ, TypeCall(self.visit(typ.func), self._all(typ.args)))

    def visit_type_data(self, typ: TypeData) -> object:
        header, variables = self.visit(typ.header), self._all(typ.type_vars)
        sigs = tuple(ConstructorSig(s.name, self._all(s.inputs)) for s in typ.constructors)
        made = replace(typ, header=header, type_vars=variables, constructors=sigs)
        return self._made(typ, made)

    def _all(self, types: tuple[Type, ...]) -> tuple[Any, ...]:
        return tuple(self.visit(t) for t in types)

    @staticmethod
    def _made(old: Type, new: Type) -> Type:
        return old if new == old else new


__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]
