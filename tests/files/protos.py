"""ONNX models to damage, and damage to what their messages say rather than to their bytes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

LONGEST = 4_000  # bytes of a model; longer ones hold weights for the most part

NUMBERS = (0, 1, 2, 3, 4, 7, 11, 13, 17, 23, -1, -2, 99, 2**31 - 1, 2**40, 2**62, -(2**63))
TEXTS = (
    "", "x", "y", "w", "n", "é", "Relu", "Reshape", "If", "Loop", "Scan", "Concat", "Gather",
    "axis", "axes", "shape", "value", "to", "body", "ai.onnx", "com.microsoft", "NHWC", "\x00",
    "a" * 3000,
)  # fmt: skip
FLOATS = (0.0, -1.0, 0.5, 1e30, float("inf"), float("nan"))


@cache
def models() -> Sequence[bytes]:
    """ONNX's own test models of one operator, its constants among them; small ones."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = (c.model.SerializeToString() for c in collect_testcases(None) if c.model)
        return [f for f in found if len(f) < LONGEST]


def mutate_model(data: bytes, rng: random.Random) -> bytes:
    """Fields changed, left out, repeated, exchanged or filled, anywhere in the messages."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(_message(model, rng), rng)
    return model.SerializeToString()


def _message(root: Any, rng: random.Random) -> Any:
    """A message somewhere inside, large ones no more often than small ones."""
    node = root
    while True:
        inner = [v for f, v in node.ListFields() if f.type == f.TYPE_MESSAGE and _parts(v)]
        if not inner or (node is not root and rng.random() < 0.3):
            return node
        node = rng.choice(_parts(rng.choice(inner)))


def _parts(value: Any) -> list[Any]:
    return [value] if hasattr(value, "ListFields") else list(value)


def _change(message: Any, rng: random.Random) -> None:
    # Of a field that is there, or now and then of any.
    there = [f for f, _ in message.ListFields()]
    fields = list(message.DESCRIPTOR.fields)
    field = rng.choice(there if there and rng.random() < 0.8 else fields)
    value = getattr(message, field.name)
    if field.type == field.TYPE_MESSAGE:
        _change_message(message, field, value, rng)
    elif hasattr(value, "append"):
        _change_items(field, value, rng)
    elif rng.random() < 0.2:
        message.ClearField(field.name)
    else:
        _assign(message, field, rng)


def _change_message(message: Any, field: Any, value: Any, rng: random.Random) -> None:
    if not hasattr(value, "add"):
        if rng.random() < 0.5:
            message.ClearField(field.name)
        else:
            value.SetInParent()
        return
    kind = rng.randrange(4)
    if not len(value) or kind == 0:
        value.add()
    elif kind == 1:
        del value[rng.randrange(len(value))]
    elif kind == 2:
        value.add().CopyFrom(rng.choice(value))
    else:
        items = [type(v).FromString(v.SerializeToString()) for v in value]
        rng.shuffle(items)
        message.ClearField(field.name)
        value.extend(items)


def _change_items(field: Any, value: Any, rng: random.Random) -> None:
    kind = rng.randrange(4)
    if not len(value) or kind == 0:
        value.append(_other(field, rng))
    elif kind == 1:
        del value[rng.randrange(len(value))]
    elif kind == 2:
        value[rng.randrange(len(value))] = _other(field, rng)
    else:
        value[rng.randrange(len(value))] = rng.choice(value)


def _assign(message: Any, field: Any, rng: random.Random) -> None:
    try:
        setattr(message, field.name, _other(field, rng))
    except ValueError:  # an enumeration without this number, or a number of 32 bits
        setattr(message, field.name, field.enum_type.values[0].number if field.enum_type else 1)


def _other(field: Any, rng: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return rng.choice(TEXTS)
    if field.type == field.TYPE_BYTES:
        return rng.choice(TEXTS).encode() if rng.random() < 0.7 else rng.randbytes(rng.randrange(9))
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice(FLOATS)
    number = rng.choice(NUMBERS)
    if field.type in (field.TYPE_UINT64, field.TYPE_UINT32):
        return abs(number) % 2**32
    return number if field.type == field.TYPE_INT64 else number % 1000
