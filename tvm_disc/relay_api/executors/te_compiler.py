"""``relay.backend.te_compiler``: the operator cache, which some Relay scripts clear."""

from __future__ import annotations

from typing import NoReturn

from tvm_disc.errors import Unsupported


class TECompiler:
    """Replacement of Relay's operator compiler, without a cache."""

    def clear(self) -> None:
        """Do nothing: kernels belong to their program, and operators are not compiled
        individually.
        """

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Unsupported(f"te_compiler.{name}: operators are compiled together, as one program")


def get() -> TECompiler:
    """Return the replacement of the operator compiler."""
    return TECompiler()


__all__ = ["TECompiler", "get"]
