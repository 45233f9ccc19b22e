"""``relay.testing``: networks with random weights, and test helpers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np
import tvm

from tvm_disc.errors import refusing
from tvm_disc.relay.expr import Call, Expr, Function, Op
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import post_order
from tvm_disc.relay_api.missing import REASONS, Missing
from tvm_disc.relay_api.prelude import Prelude
from tvm_disc.relay_api.testing import (
    dcgan,
    densenet,
    dqn,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    nat,
    resnet,
    squeezenet,
    temp_op_attr,
    vgg,
)
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.nat import count, make_nat_expr, make_nat_value

_GRADIENT = "gradients are not supported; compute them in the training framework"
_PYTHON = "programs run as native code; relay.create_executor evaluates expressions"

# Names of Relay's module that are not supported, each with the reason that calls raise.
REFUSED = {
    "check_grad": _GRADIENT,
    "gradient": _GRADIENT,
    "to_python": _PYTHON,
    **{
        path.removeprefix("testing."): reason
        for path, reason in REASONS.items()
        if path.startswith("testing.")
    },
}


def run_infer_type(expr: Expr) -> object:
    """Return the expression with inferred types."""
    transform = import_module("tvm_disc.relay_api.transform")
    return run_opt_pass(expr, transform.InferType())


@refusing
def run_opt_pass(
    expr: Expr, opt_pass: Callable[[IRModule], IRModule], import_prelude: bool = False
) -> object:
    """Return the expression after a pass: the function if it was one, else the body of ``main``."""
    mod = IRModule.from_expr(expr)
    if import_prelude:
        Prelude(mod)
    main = opt_pass(mod)["main"]
    return main if isinstance(expr, Function) else main.body


def run_as_python(expr: Expr, mod: IRModule | None = None, target: object = None) -> object:
    """Return the value of an expression, computed by a native program (Relay ran it as Python)."""
    executors = import_module("tvm_disc.relay_api.executors")
    return executors.create_executor("debug", mod=mod).evaluate(expr)


def count_ops(expr: Expr) -> dict[str, int]:
    """Return the number of calls of each operator, by name."""
    found: dict[str, int] = {}
    for node in post_order(expr):
        if isinstance(node, Call) and isinstance(node.op, Op):
            found[node.op.name] = found.get(node.op.name, 0) + 1
    return found


@refusing
def rand(dtype: str, *shape: int) -> object:
    """Return a TVM tensor of random numbers from 0 to 1."""
    return tvm.runtime.tensor(np.random.default_rng().random(shape).astype(dtype))


def enabled_targets() -> list[tuple[str, object]]:
    """Return the (target, device) pairs to test on: the CPU."""
    return [("llvm", tvm.cpu(0))]


ctx_list = enabled_targets


def __getattr__(name: str) -> Missing:
    if name in REFUSED:
        return Missing(f"relay.testing.{name}", REFUSED[name])
    raise AttributeError(f"relay.testing has no {name!r}")


__all__ = [
    "REFUSED",
    "Prelude",
    "count",
    "count_ops",
    "create_workload",
    "ctx_list",
    "dcgan",
    "densenet",
    "dqn",
    "enabled_targets",
    "init",
    "layers",
    "lstm",
    "make_nat_expr",
    "make_nat_value",
    "mlp",
    "mobilenet",
    "nat",
    "rand",
    "resnet",
    "run_as_python",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "temp_op_attr",
    "vgg",
]
