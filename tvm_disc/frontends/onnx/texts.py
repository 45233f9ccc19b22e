"""Checks that the names in a model are valid UTF-8; protobuf returns invalid strings as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm_disc.errors import BadInput, shown
from tvm_disc.typing import ModelProto, Proto

# Fields that the importer never reads, and large messages, of which only the name is checked.
_UNREAD = frozenset({"doc_string", "metadata_props"})
_WEIGHTS = frozenset({"TensorProto", "SparseTensorProto"})


def check_texts(model: ModelProto) -> None:
    """Check every name of a model.

    Raises:
        BadInput: a name is not UTF-8; the message has its location.
    """
    for place, found in _strings(model, "model"):
        if isinstance(found, bytes):
            raise BadInput(
                f"the ONNX model is damaged: {place} is not text: found {shown(found)}, which "
                "is not UTF-8; save or copy it again"
            )


def _strings(message: Proto, place: str) -> Iterator[tuple[str, object]]:
    if message.DESCRIPTOR.name in _WEIGHTS:
        yield f"{place}.name", getattr(message, "name", "")
        return
    for field, value in message.ListFields():
        if field.name in _UNREAD:
            continue
        at = f"{place}.{field.name}"
        one = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        parts = [(at, value)] if one else [(f"{at}[{k}]", v) for k, v in _numbered(field, value)]
        for where, part in parts:
            if field.type == field.TYPE_MESSAGE:
                yield from _strings(part, where)
            elif field.type == field.TYPE_STRING:
                yield where, part


def _numbered(field: Any, values: Any) -> Iterator[tuple[int, object]]:
    """Yield (index, item) for a repeated field of messages or strings; yield nothing for others."""
    if field.type in (field.TYPE_MESSAGE, field.TYPE_STRING):
        yield from enumerate(values)


__all__ = ["check_texts"]
