"""``relay.annotation.*``: annotations; device placements are accepted and have no effect on a
CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_disc.relay.builder import call
from tvm_disc.relay.expr import Call, ExprLike, Function
from tvm_disc.relay_api import op


def __getattr__(name: str) -> Any:
    return op.member("annotation", name)


def on_device(
    body: ExprLike, device: object, constrain_result: bool = False, constrain_body: bool = True
) -> Call:
    """Return an ``on_device`` call of the expression; the device is dropped."""
    placed = {"constrain_result": constrain_result, "constrain_body": constrain_body}
    return call("on_device", (body,), virtual_device=None, **placed)


def function_on_device(
    function: Function, param_devices: Sequence[object], result_device: object
) -> Function:
    """Return the function; the devices of its parameters and result are dropped."""
    return function


__all__ = ["function_on_device", "on_device"]
