"""``relay.prelude``: lists, options and trees, with the functions of Relay's prelude."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NoReturn

from tvm_disc.errors import BadNode, Unsupported, shown
from tvm_disc.relay.expr import GlobalVar
from tvm_disc.relay.inference.infer import infer_types
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.text.parser import parse
from tvm_disc.relay_api.prelude.library import STANDARD


@cache
def standard(path: str) -> IRModule:
    """Return a module of the standard library, with types, by its file name.

    Raises:
        Unsupported: the library has no such file.
    """
    if path not in STANDARD:
        known = " and ".join(STANDARD)
        raise Unsupported(
            f"import: expected {known} of the standard library, found {path!r}; define what you "
            "need in the module itself"
        )
    return infer_types(parse(STANDARD[path]))


class Prelude:
    """Adds the prelude to a module; its functions are attributes: ``p.map``, ``p.length``.

    Relay's tensor array types, one per element type, are not supported. Use ``List[Tensor[...]]``,
    whose tensors may have unknown shapes.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        if not isinstance(self.mod, IRModule):
            raise BadNode(f"Prelude: expected a relay.IRModule, found {shown(mod)}")
        if "List" not in self.mod.type_definitions:
            self.mod.import_from_std("prelude.rly")

    def __getattr__(self, name: str) -> GlobalVar:
        if name.startswith(("tensor_array", "static_tensor", "get_")) and "tensor" in name:
            _no_tensor_arrays(name)
        if name == "mod" or name not in standard("prelude.rly"):
            raise AttributeError(f"the prelude has no function {name!r}")
        return self.mod.get_global_var(name)

    def get_global_var(self, canonical: str, dtype: str) -> Any:
        """Refuse a function of tensor arrays.

        Raises:
            Unsupported: always, with the alternative.
        """
        return getattr(self, f"tensor_array_{canonical}_{dtype}")


def _no_tensor_arrays(name: str, *_given: object, **_named: object) -> NoReturn:
    raise Unsupported(
        f"{name}: tensor arrays are not supported; use List of relay.TensorType with "
        "relay.Any() dims, and map, nth, update or concat on it"
    )


# Names that scripts import from Relay; calls raise Unsupported and name the alternative.
TensorArrayOps = partial(_no_tensor_arrays, "TensorArrayOps")
StaticTensorArrayOps = partial(_no_tensor_arrays, "StaticTensorArrayOps")


__all__ = ["Prelude", "StaticTensorArrayOps", "TensorArrayOps", "standard"]
