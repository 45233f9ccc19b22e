"""Public paths of modules whose code is in a different package.

``import tvm_disc.relay.transform`` imports the module ``tvm_disc.relay_api.transform``; submodules
are found in the same way. A target ``module:name`` is a member of a module.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_API = "tvm_disc.relay_api"

# Paths below tvm_disc.relay, where Relay had these modules.
RELAY: Mapping[str, str] = {
    "adt": f"{_API}.adt",
    "analysis": f"{_API}.analysis",
    "backend": f"{_API}.executors.backend",
    "backend.executor": f"{_API}.executors.backend",
    "backend.executor_factory": f"{_API}.executors.factory",
    "backend.interpreter": f"{_API}.executors.interpreter",
    "backend.runtime": f"{_API}.executors.backend",
    "backend.te_compiler": f"{_API}.executors.te_compiler",
    "backend.vm": f"{_API}.executors.vm",
    "base": f"{_API}.base",
    "build_module": f"{_API}.executors.build_module",
    "dataflow_pattern": f"{_API}.dataflow_pattern",
    "dyn": f"{_API}.dyn",
    "expr_functor": f"{_API}.expr_functor",
    "frontend": f"{_API}.frontend",
    "frontend.common": f"{_API}.frontend_common",
    "function": "tvm_disc.relay.expr",
    "image": f"{_API}.image",
    "loops": f"{_API}.loops",
    "nn": f"{_API}.nn",
    "op": f"{_API}.op",
    "op.algorithm": f"{_API}.op",
    "op.annotation": f"{_API}.annotation",
    "op.dyn": f"{_API}.dyn",
    "op.image": f"{_API}.image",
    "op.nn": f"{_API}.nn",
    "op.nn.nn": f"{_API}.nn",
    "op.nn.utils": f"{_API}.nn",
    "op.op": f"{_API}.registry",
    "op.random": f"{_API}.random",
    "op.reduce": f"{_API}.op",
    "op.tensor": f"{_API}.op",
    "op.transform": f"{_API}.op",
    "op.vision": f"{_API}.vision",
    **{f"op.vision.{file}": f"{_API}.vision" for file in ("multibox", "nms", "rcnn", "yolo")},
    "param_dict": "tvm_disc.relay.ndarray",
    "parser": "tvm_disc.relay.text.parser",
    "prelude": f"{_API}.prelude",
    "qnn": f"{_API}.qnn",
    "qnn.op": f"{_API}.qnn",
    "qnn.op.legalizations": f"{_API}.qnn_legalizations",
    "qnn.op.qnn": f"{_API}.qnn",
    "qnn.transform": f"{_API}.qnn_transform",
    "scope_builder": "tvm_disc.relay.builder",
    "structural": f"{_API}.structural",
    "testing": f"{_API}.testing",
    "transform": f"{_API}.transform",
    "ty": "tvm_disc.relay.types",
    "type_functor": f"{_API}.type_functor",
    "vision": f"{_API}.vision",
    "vm": f"{_API}.executors.vm",
    # Modules of Relay that do not exist here: calls of their functions raise the reason.
    **{
        path: f"{_API}.missing:{path}"
        for path in (
            "backend.name_transforms",
            "backend.utils",
            "collage",
            "data_dep_optimization",
            "op.contrib",
            "op.contrib.dnnl",
            "op.contrib.register",
            "op.strategy",
            "op.strategy.generic",
            "quantize",
            "quantize._annotate",
            "quantize.quantize",
            "testing.byoc",
            "testing.inception_v3",
            "testing.py_converter",
            "testing.resnet_3d",
            "testing.synthetic",
            "testing.yolo_detection",
        )
    },
}

PATHS: Mapping[str, str] = {
    "tvm_disc.contrib": f"{_API}.contrib",
    "tvm_disc.executors": f"{_API}.executors",
    **{f"tvm_disc.relay.{path}": target for path, target in RELAY.items()},
}


def _target(path: str) -> str | None:
    """Return the module to which a public path refers; None if the path is neither in ``PATHS``
    nor a submodule of an entry.
    """
    above, rest = path, ""
    while above:
        if above in PATHS:
            return PATHS[above] + rest
        above, _, last = above.rpartition(".")
        rest = f".{last}{rest}"
    return None


class _Finder:
    """Finder and loader of the public paths."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a public path; None for other modules."""
        if not name.startswith("tvm_disc."):
            return None
        place = _target(name)
        if place is None or (name not in PATHS and (":" in place or find_spec(place) is None)):
            return None
        return ModuleSpec(name, self, origin=place)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: the import system creates a module, which ``exec_module`` then replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Import the target and register it in ``sys.modules`` under the public path."""
        assert module.__spec__ is not None
        place, _, member = str(module.__spec__.origin).partition(":")
        made = import_module(place)
        sys.modules[module.__name__] = made.at(member) if member else made


def cmake_dir() -> str:
    """Return the folder of ``tvm_disc.h`` and of its CMake package, for ``-Dtvm_disc_DIR=...``."""
    return str(Path(__file__).resolve().parent / "cpp")


def install() -> None:
    """Install the finder of the public paths.

    It is the first finder, because an earlier version of this package may have left a folder of the
    same name.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


__all__ = ["PATHS", "RELAY", "cmake_dir", "install"]
