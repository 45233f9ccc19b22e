"""Preparation of a module's arguments for PyTorch's exporter: names and registered classes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def with_named_parameters(
    module: Any, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[object, tuple[object, ...], dict[str, object]]:
    """Return a module whose ``forward`` has a named parameter for each argument, and the arguments.

    This replaces ``*args`` and ``**kwargs``, for which the exporter records no names or dynamic
    dims. The result is a shallow copy of the module with another ``forward``.
    """
    signature = inspect.signature(module.forward)
    if all(p.kind not in _SEVERAL for p in signature.parameters.values()):
        return module, args, dict(kwargs)
    bound = signature.bind(*args, **kwargs)
    positional: dict[str, object] = {}
    by_name: dict[str, object] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional |= {f"{name}_{k}": v for k, v in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            by_name |= value
        elif kind is inspect.Parameter.KEYWORD_ONLY or name in kwargs:
            by_name[name] = value
        else:
            positional[name] = value

    # `forward` must read the module from `self`, not from a closure. PyTorch's analysis of the
    # bytecode would use the closure in the names of constants, and could then not decompose the
    # program.
    own = vars(module).get("forward")
    original = type(module).forward if own is None else None

    def forward(self: object, *values: object, **named: object) -> Any:
        return own(*values, **named) if original is None else original(self, *values, **named)

    parameters = [
        inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("self", *positional)
    ] + [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in by_name]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    named = copy.copy(module)
    named.forward = types.MethodType(forward, named)
    return named, tuple(positional.values()), by_name


def register_classes(values: object) -> None:
    """Register the dataclasses and caches in the arguments with PyTorch, as container classes."""
    import torch
    from torch.utils import _pytree as pytree

    for value in _objects(values):
        kind = type(value)
        if kind in pytree.SUPPORTED_NODES:
            continue
        if kind.__name__ == "DynamicCache" and kind.__module__.startswith("transformers."):
            from transformers.integrations import executorch

            register: Callable[[], None] = executorch.register_dynamic_cache_export_support
            register()
        elif dataclasses.is_dataclass(kind):
            name = f"{kind.__module__}.{kind.__qualname__}"
            torch.export.register_dataclass(kind, serialized_type_name=name)


def _objects(value: object) -> Iterator[object]:
    """Yield a value and everything nested in it: tuples, lists, mappings and dataclasses."""
    yield value
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, f.name) for f in dataclasses.fields(value)]
    else:
        parts = []
    for part in parts:
        yield from _objects(part)


__all__ = ["register_classes", "with_named_parameters"]
