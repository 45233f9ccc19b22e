"""Walks over types that a user's class refines."""

from __future__ import annotations

import pytest
from tvm_disc.relay.type_functor import TypeMutator as SameMutator

from tvm_disc import relay
from tvm_disc.relay import TypeFunctor, TypeMutator, TypeVisitor

A = relay.TypeVar("A")
LIST = relay.GlobalTypeVar("List")
TENSOR = relay.TensorType((2, relay.Any()), "float32")
SIG = relay.ConstructorSig("Cons", (A, relay.TypeCall(LIST, (A,))))
TYPES = [
    A,
    LIST,
    TENSOR,
    relay.IncompleteType(),
    relay.TupleType([TENSOR, A]),
    relay.FuncType([TENSOR], A, [A]),
    relay.RefType(TENSOR),
    relay.TypeCall(LIST, (TENSOR,)),
    relay.TypeData(LIST, (A,), (SIG, relay.ConstructorSig("Nil"))),
]


class Halves(TypeMutator):
    """float32 becomes float16."""

    def visit_tensor_type(self, typ: relay.TensorType) -> relay.TensorType:
        return relay.TensorType(typ.shape, "float16")


class Leaves(TypeVisitor):
    """Gathers the leaves."""

    def __init__(self) -> None:
        self.found: list[relay.Type] = []

    def visit_tensor_type(self, typ: relay.TensorType) -> None:
        self.found.append(typ)

    def visit_type_var(self, var: relay.TypeVar) -> None:
        self.found.append(var)


@pytest.mark.parametrize("typ", TYPES, ids=lambda t: type(t).__name__)
def test_what_does_not_change_is_the_same_object(typ: relay.Type) -> None:
    assert TypeMutator().visit(typ) is typ
    assert TypeVisitor().visit(typ) is None


def test_a_change_reaches_every_part() -> None:
    half = relay.TensorType(TENSOR.shape, "float16")
    func = relay.FuncType([relay.TupleType([TENSOR])], relay.RefType(TENSOR))
    expected = relay.FuncType([relay.TupleType([half])], relay.RefType(half))
    assert Halves().visit(func) == expected
    assert Halves().visit(relay.TypeCall(LIST, (TENSOR,))) == relay.TypeCall(LIST, (half,))
    data = relay.TypeData(LIST, (A,), (relay.ConstructorSig("One", (TENSOR, A)),))
    assert Halves().visit(data).constructors[0].inputs == (half, A)


def test_a_visitor_reaches_every_leaf() -> None:
    leaves = Leaves()
    leaves.visit(relay.FuncType([relay.TupleType([TENSOR, A])], relay.RefType(TENSOR), [A]))
    assert leaves.found == [A, TENSOR, A, TENSOR]


def test_both_paths_name_one_class() -> None:
    assert SameMutator is TypeMutator


@pytest.mark.parametrize("typ", TYPES, ids=lambda t: type(t).__name__)
def test_a_bare_functor_names_the_method_it_lacks(typ: relay.Type) -> None:
    with pytest.raises(TypeError, match=r"TypeFunctor has no method visit_\w+, which"):
        TypeFunctor().visit(typ)


@pytest.mark.parametrize("value", [3, "float32", None])
def test_what_is_no_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="expected a Relay type, found"):
        TypeMutator().visit(value)
