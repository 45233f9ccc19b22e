"""Relay's keys of ``PassContext.config``, which TVM 0.27 does not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import tvm
import tvm_ffi

from tvm_disc.errors import BadNode, shown

# Type of each key's value. Keys without an effect here are accepted: in Relay they tuned
# compilation and never changed a result.
KEYS: dict[str, type] = {
    "relay.FuseOps.link_params": bool,
    "relay.FuseOps.max_depth": int,
    "relay.ToMixedPrecision.keep_orig_output_dtype": bool,
    "relay.backend.tir_converter": str,
    "relay.backend.use_auto_scheduler": bool,
    "relay.backend.use_meta_schedule": bool,
    "relay.backend.use_meta_schedule_dispatch": int,
    "relay.collage.byoc_fusion_style": list,
    "relay.collage.byoc_max_depth": int,
    "relay.collage.tvm_max_depth": int,
    "relay.fallback_device_type": int,
    "relay.frontend.fill_span": bool,
    "relay.remove_standalone_reshapes.enable": bool,
}


def _value(key: str, given: Sequence[str] | int | str) -> Any:
    """Return the value of a key, converted to the key's type."""
    if key not in KEYS:
        known = ", ".join(KEYS)
        raise BadNode(f"PassContext: unknown option {key!r}; expected one of {known}")
    wanted = KEYS[key]
    if wanted is list and isinstance(given, list | tuple):
        return list(given)
    number = getattr(given, "value", given)  # an IntImm
    if wanted is bool and isinstance(number, bool | int):
        return bool(number)
    if wanted is int and isinstance(number, int):
        return int(number)
    if wanted is str and isinstance(given, str):
        return str(given)
    raise BadNode(f"PassContext: {key}: expected {wanted.__name__}, found {shown(given)}")


def _with_relay_keys(init: Callable[..., None]) -> Callable[..., None]:
    """Return TVM's constructor of contexts, extended to accept Relay's keys."""

    def __init__(
        self: Any,
        opt_level: int = 2,
        required_pass: object = None,
        disabled_pass: object = None,
        instruments: object = None,
        config: Any = None,
    ) -> None:
        given = dict(config or {})
        ours = {k: _value(k, given.pop(k)) for k in list(given) if str(k).startswith("relay.")}
        init(self, opt_level, required_pass, disabled_pass, instruments, given)
        if ours:  # TVM checks names in its constructor only
            fields = {f.name: f for f in type(self).__tvm_ffi_type_info__.fields}
            fields["config"].setter(self, tvm_ffi.convert({**self.config, **ours}))

    return __init__


# TVM's names of the types of values.
_TYPES = {bool: "IntImm", int: "IntImm", str: "runtime.String", list: "Array"}


def _with_relay_names(names: Callable[[], Any]) -> Callable[[], object]:
    """Return TVM's list of options, extended by Relay's keys."""

    def list_configs() -> dict[str, object]:
        return {**names(), **{key: {"type": _TYPES[kind]} for key, kind in KEYS.items()}}

    return list_configs


def _none_as_empty(method: Callable[..., None], position: int) -> Callable[..., None]:
    """Return ``method`` with None replaced by an empty list in one positional argument."""

    @wraps(method)
    def call(self: Any, *given: object, **named: Any) -> None:
        args = inspect.signature(method).bind(self, *given, **named)
        args.apply_defaults()
        values = list(args.args)
        values[position] = [] if values[position] is None else values[position]
        method(*values)

    return call


def register() -> None:
    """Make every ``tvm.transform.PassContext`` accept and list Relay's keys.

    ``PassInfo(required=None)`` and ``override_instruments(None)``, which TVM 0.27 documents and
    rejects, mean an empty list.
    """
    made: Any = tvm.transform.PassContext
    if not getattr(made, "_takes_relay_keys", False):
        made.__init__ = _with_relay_keys(made.__init__)
        made.list_configs = staticmethod(_with_relay_names(made.list_configs))
        made._takes_relay_keys = True
        made.override_instruments = _none_as_empty(made.override_instruments, 1)
        info: Any = tvm.transform.PassInfo
        info.__init__ = _none_as_empty(info.__init__, 3)


__all__ = ["KEYS", "register"]
