"""``relay.frontend``: importers of models of other frameworks, under Relay's names.

The importers are in ``tvm_disc.frontends``; scripts register more of them here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tvm_disc.errors import BadInput, shown
from tvm_disc.frontends import imported
from tvm_disc.relay_api.missing import Missing

__path__: list[str] = []  # for imports of relay.frontend.common, which tvm_disc.paths resolves

_IMPORTERS: dict[str, Callable[..., object]] = {
    "from_onnx": imported.from_onnx,
    "from_pytorch": imported.from_pytorch,
}

# Relay's importers that are not supported; calls raise Unsupported with the reason.
_REFUSED = frozenset(
    "from_caffe from_caffe2 from_coreml from_darknet from_keras from_mxnet from_oneflow "
    "from_paddle from_tensorflow from_tflite".split()
)


def register(name: str, importer: Callable[..., object]) -> None:
    """Register an importer as ``relay.frontend.<name>``.

    Raises:
        BadInput: ``name`` is not an identifier or already a member of this module, or ``importer``
            is not callable.
    """
    if not isinstance(name, str) or not name.isidentifier() or name in globals():
        raise BadInput(f"register: expected an unused name for an importer, found {shown(name)}")
    if not callable(importer):
        raise BadInput(f"register: expected a function that takes a model, found {shown(importer)}")
    _IMPORTERS[name] = importer


def __getattr__(name: str) -> Any:
    if name in _IMPORTERS:
        return _IMPORTERS[name]
    if name in _REFUSED:
        reason = "there is no importer; convert the model to ONNX, and import it with from_onnx"
        return Missing(f"relay.frontend.{name}", reason)
    if name == "common":
        return import_module("tvm_disc.relay_api.frontend_common")
    raise AttributeError(
        f"relay.frontend has no importer {name!r}; it has {', '.join(sorted(_IMPORTERS))}"
    )


__all__ = ["register"]
