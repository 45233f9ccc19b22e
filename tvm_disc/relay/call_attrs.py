"""Attributes of Relax's calls: reading their fields, and giving types among them another value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tvm
import tvm_ffi


def fields_of(attrs: Any) -> tuple[str, dict[str, Any]]:
    """(type key, fields by name) of attributes of any class."""
    if isinstance(attrs, tvm.ir.DictAttrs):
        return "ir.DictAttrs", {str(k): v for k, v in attrs.items()}
    info = type(attrs).__tvm_ffi_type_info__
    return str(info.type_key), {f.name: getattr(attrs, f.name) for f in info.fields}


def with_dtypes(attrs: Any, names: Iterable[str], dtype: str) -> Any:
    """The attributes with ``dtype`` in the named fields, each kept as text or as a type."""
    key, fields = fields_of(attrs)
    changed = {n: dtype if isinstance(fields[n], str) else tvm_ffi.dtype(dtype) for n in names}
    return tvm.ir.make_node(key, **{**fields, **changed}) if changed else attrs


def with_fields(attrs: Any, **changed: Any) -> Any:
    """The attributes with other values of the named fields."""
    key, fields = fields_of(attrs)
    return tvm.ir.make_node(key, **{**fields, **changed})


__all__ = ["fields_of", "with_dtypes", "with_fields"]
