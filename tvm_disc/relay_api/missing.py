"""Parts of Relay that do not exist here: they can be imported, and calls raise the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, NoReturn

from tvm_disc.errors import Unsupported


class Missing(ModuleType):
    """A module or function; calling it, or a member of it, raises Unsupported with its reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, f"Not here: {reason}.")
        self.__dict__["_reason"] = reason
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}", self.__dict__["_reason"])

    def __call__(self, *_args: Any, **_options: Any) -> NoReturn:
        path = self.__name__.removeprefix("tvm_disc.")
        raise Unsupported(f"{path}: {self.__dict__['_reason']}")


_NETWORK = "this network is not shipped; relay.frontend.from_onnx and from_pytorch read models"

# Reasons by module path below relay.
REASONS: Mapping[str, str] = {
    "collage": "it places parts of a program with several compilers; there is one here",
    "data_dep_optimization": (
        "it replaces dense weights by sparse ones, for kernels that are not here; programs with "
        "relay.nn.sparse_dense compile"
    ),
    "quantize": (
        "quantise the model where it was trained; quantised operators (relay.qnn) compile, and "
        "relay.transform.FakeQuantizationToInteger makes integer operators of a QDQ model"
    ),
    "quantize._annotate": "models are quantised where they are trained",
    "quantize.quantize": "models are quantised where they are trained",
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
    "testing.byoc": "programs are not handed to external code generators",
    "testing.py_converter": (
        "programs run as native code; relay.create_executor evaluates expressions"
    ),
}


def at(path: str) -> Missing:
    """Return the module that replaces the one at a path below ``relay``."""
    return Missing(f"tvm_disc.relay.{path}", REASONS[path])


__all__ = ["REASONS", "Missing", "at"]
