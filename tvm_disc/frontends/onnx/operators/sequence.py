"""Converters of sequences and optionals.

During import, a sequence is a Python list of tensors, and an optional is a tensor or None.
"""

from __future__ import annotations

from typing import Any

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calc import Dim, Expr, const
from tvm_disc.frontends.onnx.grown import Gathered, Growing
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.control import run
from tvm_disc.frontends.onnx.table import Row


def _items(n: OnnxNode, k: int) -> list[Any]:
    found = n.get(k)
    if isinstance(found, Growing):
        raise Unsupported(
            "a loop that extends a sequence may only use it in SequenceInsert without a position"
        )
    if isinstance(found, Gathered):
        raise Unsupported(
            "after a loop has extended a sequence, it may be used only in ConcatFromSequence, "
            "SequenceLength and, if it was empty before the loop, SequenceAt"
        )
    if not isinstance(found, list):
        kind = "an omitted or empty optional" if found is None else "a tensor"
        raise TypeMismatch(f"input {k}: expected a sequence, found {kind}")
    return found


def _position(n: OnnxNode, k: int, size: int, default: int) -> int:
    """Return input ``k``, which must be a constant, as a position in a sequence of length ``size``.

    A negative position counts from the end. If the input is omitted, the result is ``default``.
    """
    if n.get(k) is None:
        return default
    place = int(n.number(n[k], "a position in a sequence"))
    return place + size if place < 0 else place


def _existing(n: OnnxNode, size: int, default: int) -> int:
    """Return input 1 as the position of an existing element; see :func:`_position`.

    Raises:
        TypeMismatch: the sequence has no such element.
    """
    place = _position(n, 1, size, default)
    if not size:
        raise TypeMismatch("expected a sequence with an element, found an empty one")
    if not 0 <= place < size:
        raise TypeMismatch(
            f"position: expected {-size} to {size - 1} for a sequence of length {size}, found "
            f"{place if place >= 0 else place - size}"
        )
    return place


def _length(n: OnnxNode) -> Expr:
    sequence = n.get(0)
    if isinstance(sequence, Gathered):
        return sequence.length(n)
    return const(len(_items(n, 0)), "int64")


def _at(n: OnnxNode) -> Any:
    sequence = n.get(0)
    if isinstance(sequence, Gathered) and not sequence.first:
        return [n.take(sequence.rows, n.reshape(n[1], []), 0)]
    items = _items(n, 0)
    return [items[_existing(n, len(items), 0)]]


def _insert(n: OnnxNode) -> Any:
    sequence = n.get(0)
    if isinstance(sequence, Growing) and n.get(2) is None:
        return [sequence.with_(n[1])]
    items = list(_items(n, 0))
    items.insert(_position(n, 2, len(items), len(items)), n[1])
    return [items]


def _erase(n: OnnxNode) -> Any:
    items = list(_items(n, 0))
    del items[_existing(n, len(items), len(items) - 1)]
    return [items]


def _concat(n: OnnxNode) -> Expr:
    sequence, axis = n.get(0), int(n.required("axis"))
    if isinstance(sequence, Gathered):
        return sequence.joined(n, axis, bool(n.attr("new_axis", 0)))
    items = _items(n, 0)
    return n.stack(items, axis) if n.attr("new_axis", 0) else n.concat(items, axis)


def _split(n: OnnxNode) -> list[list[Expr]]:
    """Convert SplitToSequence; the number of pieces must be known at compile time."""
    x, axis = n[0], n.axis_of(n[0], 0)
    given = n.get(1)
    if given is not None and n.rank(given) == 1:
        return [n.split(x, n.elements(given, "the lengths"), axis)]
    size = n.literals(x)[axis]
    if size is None:
        raise Unsupported(
            f"the size of axis {axis}, which determines the number of pieces, must be known at "
            "compile time"
        )
    part = 1 if given is None else int(n.number(given, "the length of a piece"))
    sizes: list[Dim] = [min(part, size - at) for at in range(0, size, part)]
    pieces = n.split(x, sizes, axis)
    drop = given is None and not n.attr("keepdims", 1)
    return [[n.squeeze(p, [axis]) for p in pieces] if drop else pieces]


def _map(n: OnnxNode) -> Any:
    body, count = n.required("body"), len(_items(n, 0))
    made = []
    for k in range(count):
        given = [x[k] if isinstance(x, list) else x for x in n.inputs]
        made.append(run(n, body, given))
    return [list(r) for r in zip(*made, strict=True)] if made else [[] for _ in n.outputs]


def _get_element(n: OnnxNode) -> Any:
    if n.get(0) is None:
        raise Unsupported("expected an optional with an element, found an empty one")
    return [n.get(0)]


ROWS: tuple[Row, ...] = (
    Row("SequenceConstruct", lambda n: [list(n.inputs)]),
    Row("SequenceEmpty", lambda n: [[]]),
    Row("SequenceLength", _length),
    Row("SequenceAt", _at),
    Row("SequenceInsert", _insert),
    Row("SequenceErase", _erase),
    Row("ConcatFromSequence", _concat),
    Row("SplitToSequence", _split),
    Row("SequenceMap", _map),
    Row("Optional", lambda n: [n.get(0)]),
    Row("OptionalHasElement", lambda n: const(n.get(0) is not None)),
    Row("OptionalGetElement", _get_element),
)
