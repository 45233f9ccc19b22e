"""Modules that scripts import from ``tvm.contrib`` to run the result of ``relay.build``."""

from __future__ import annotations

from tvm_disc.relay_api.missing import Missing

_PIPELINE = "a program is one native function; run the stages of a pipeline in several threads"
_REASONS = {"pipeline_executor": _PIPELINE, "pipeline_executor_build": _PIPELINE}


def __getattr__(name: str) -> Missing:
    """Return a module that does not exist here; calls of its members raise the reason."""
    if name in _REASONS:
        return Missing(f"tvm_disc.contrib.{name}", _REASONS[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
