"""Initial values of a network's weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_disc.errors import BadNode, DiscError, shown
from tvm_disc.relay.expr import Expr
from tvm_disc.relay.inference.infer import infer_types
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.types import TensorType

Array: TypeAlias = NDArray[Any]
Initializer: TypeAlias = Callable[[str, Array], None]


class Xavier:
    """Xavier initializer: uniform weights scaled by fan-in and fan-out; norms are 1, biases and
    means 0.

    The initializer is called with the name of a weight and an array, which it fills.
    """

    def __init__(self, magnitude: float = 3.0, seed: int = 0) -> None:
        self.magnitude, self.random = magnitude, np.random.default_rng(seed)

    def __call__(self, name: str, arr: Array) -> None:
        if name.endswith(("gamma", "moving_var", "running_var")):
            arr[...] = 1
        elif name.endswith(("bias", "beta", "moving_mean", "running_mean")):
            arr[...] = 0
        else:
            inputs = max(1, int(np.prod(arr.shape[1:])))
            outputs = arr.shape[0] if arr.ndim else 1
            scale = np.sqrt(2 * self.magnitude / (inputs + outputs))
            arr[...] = self.random.uniform(-scale, scale, arr.shape)


def create_workload(
    net: Expr, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, Array]]:
    """Return a module with the network as ``main``, with types, and values of its weights.

    All parameters but ``data`` are weights. A ``net`` that is not a function becomes a function of
    its free variables.

    Raises:
        BadNode: the dims of a weight are not known.
    """
    if not isinstance(net, Expr):
        raise BadNode(f"create_workload: expected a relay.Function, found {shown(net)}")
    if not isinstance(seed, int) or seed < 0:
        raise BadNode(
            f"create_workload: seed: expected an integer of at least 0, found {shown(seed)}"
        )
    if initializer is not None and not callable(initializer):
        raise BadNode(
            f"create_workload: initializer: expected a function, found {shown(initializer)}"
        )
    fill = Xavier(seed=seed) if initializer is None else initializer
    params: dict[str, Array] = {}
    mod = IRModule.from_expr(net)
    with suppress(DiscError):  # the error below names the weight
        mod = infer_types(mod)
    main = mod["main"]
    for param in main.params:
        if param.name_hint == "data":
            continue
        kind = param.type_annotation
        if not isinstance(kind, TensorType) or not all(isinstance(d, int) for d in kind.shape):
            raise BadNode(
                f"create_workload: expected a weight '{param.name_hint}' of known dims, found "
                f"{kind}; annotate it, or run relay.transform.InferType first"
            )
        array = np.zeros([int(str(d)) for d in kind.shape], kind.dtype)
        fill(param.name_hint, array)
        params[param.name_hint] = array
    return mod, params


__all__ = ["Xavier", "create_workload"]
