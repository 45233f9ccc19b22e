"""Attributes of Relax calls: read their fields, and copy them with changed values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tvm
import tvm_ffi


def fields_of(attrs: Any) -> tuple[str, dict[str, object]]:
    """Return (type key, fields by name) of attributes of any class."""
    if isinstance(attrs, tvm.ir.DictAttrs):
        return "ir.DictAttrs", {str(k): v for k, v in attrs.items()}
    info = type(attrs).__tvm_ffi_type_info__
    return str(info.type_key), {f.name: getattr(attrs, f.name) for f in info.fields}


def with_dtypes(attrs: object, names: Iterable[str], dtype: str) -> object:
    """Return a copy with ``dtype`` in the named fields; as a string or a TVM type like before."""
    key, fields = fields_of(attrs)
    changed = {n: dtype if isinstance(fields[n], str) else tvm_ffi.dtype(dtype) for n in names}
    return tvm.ir.make_node(key, **{**fields, **changed}) if changed else attrs


def with_fields(attrs: object, **changed: object) -> Any:
    """Return a copy with the named fields changed."""
    key, fields = fields_of(attrs)
    return tvm.ir.make_node(key, **{**fields, **changed})


__all__ = ["fields_of", "with_dtypes", "with_fields"]
