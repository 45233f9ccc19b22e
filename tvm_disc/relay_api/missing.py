"""Parts of Relay that are not supported: imports succeed, and calls raise Unsupported."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import NoReturn

from tvm_disc.errors import Unsupported


class Missing(ModuleType):
    """A module or function that is not supported; calls of it or its members raise Unsupported."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, f"Not supported: {reason}.")
        self.__dict__["_reason"] = reason
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}", self.__dict__["_reason"])

    def __call__(self, *_args: object, **_options: object) -> NoReturn:
        path = self.__name__.removeprefix("tvm_disc.")
        raise Unsupported(f"{path}: {self.__dict__['_reason']}")


_NETWORK = (
    "this network is not shipped; import models with relay.frontend.from_onnx or from_pytorch"
)
_EXTERNAL = (
    "it selects operators for an external code generator, and this compiler uses none; "
    "MergeComposite and dataflow_pattern.partition group operators"
)
_STRATEGIES = "the compiler generates the kernels; pass your own in Options(templates=...)"
_TRAINED = "use tvm_disc.quantize, or quantize the model in the training framework"
_C_NAMES = "it names functions of generated C code, and a program here is native code"

# Module path below ``relay`` -> the reason why the module is not supported.
REASONS: Mapping[str, str] = {
    "backend.name_transforms": _C_NAMES,
    "backend.utils": _C_NAMES,
    "collage": "it divides a program among several compilers, and there is only one here",
    "data_dep_optimization": (
        "it replaces dense weights by sparse ones, for kernels that do not exist here; programs "
        "with relay.nn.sparse_dense compile"
    ),
    "quantize": (
        f"{_TRAINED}; quantized operators (relay.qnn) compile, and "
        "relay.transform.FakeQuantizationToInteger makes integer operators of a QDQ model"
    ),
    "op.contrib": _EXTERNAL,
    "op.contrib.dnnl": _EXTERNAL,
    "op.contrib.register": _EXTERNAL,
    "op.strategy": _STRATEGIES,
    "op.strategy.generic": _STRATEGIES,
    "quantize._annotate": _TRAINED,
    "quantize.quantize": _TRAINED,
    **dict.fromkeys(
        (
            "testing.byoc",
            "testing.inception_v3",
            "testing.py_converter",
            "testing.resnet_3d",
            "testing.synthetic",
            "testing.yolo_detection",
        ),
        _NETWORK,
    ),
    "testing.byoc": _EXTERNAL,
    "testing.py_converter": (
        "programs run as native code; relay.create_executor evaluates expressions"
    ),
}


def at(path: str) -> Missing:
    """Return the replacement of the unsupported module at a path below ``relay``."""
    return Missing(f"tvm_disc.relay.{path}", REASONS[path])


__all__ = ["REASONS", "Missing", "at"]
