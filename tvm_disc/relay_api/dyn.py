"""``relay.op.dyn.*``: operators whose shape is a tensor operand, made from the operator table."""

from __future__ import annotations

from typing import Any

from tvm_disc.relay_api import op


def __getattr__(name: str) -> Any:
    return op.member("dyn", name)
