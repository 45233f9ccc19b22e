"""Temporary operator attributes."""

from __future__ import annotations

from tvm_disc.relay_api import registry


class TempOpAttr:
    """Context manager that sets an operator's attribute and restores the old value at its end.

    Usage: ``with TempOpAttr("sqrt", "fcost", cost):``.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: object) -> None:
        self.op, self.attr_key, self.attr_value = registry.get(op_name), attr_key, attr_value
        self.older = self.op.get_attr(attr_key)

    def __enter__(self) -> TempOpAttr:
        registry.register_op_attr(self.op.name, self.attr_key, self.attr_value)
        return self

    def __exit__(self, *_error: object) -> None:
        self.op.reset_attr(self.attr_key)
        if self.older is not None:
            registry.register_op_attr(self.op.name, self.attr_key, self.older)


__all__ = ["TempOpAttr"]
