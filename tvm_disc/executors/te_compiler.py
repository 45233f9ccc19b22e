"""``relay.backend.te_compiler``: the cache of compiled operators that Relay's scripts empty."""

from __future__ import annotations

from typing import NoReturn

from tvm_disc.errors import Unsupported


class TECompiler:
    """Stands for Relay's compiler of operators, whose cache there is none of."""

    def clear(self) -> None:
        """Nothing: a program keeps its own kernels, and no operator is compiled by itself."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Unsupported(f"te_compiler.{name}: operators are compiled together, as one program")


def get() -> TECompiler:
    """What stands for the compiler of operators."""
    return TECompiler()


__all__ = ["TECompiler", "get"]
