"""The symbolic variables of sizes."""

from __future__ import annotations

from collections.abc import Iterable

from tvm import tirx

from tvm_disc.typing import Expr


def free_symbols(exprs: Iterable[object]) -> list[Expr]:
    """Return the symbolic variables of sizes, each once, in order of appearance."""
    seen: dict[Expr, None] = {}
    for e in exprs:
        if isinstance(e, int | tirx.IntImm):
            continue
        if isinstance(e, tirx.Var):
            seen.setdefault(e)
            continue
        for v in tirx.analysis.undefined_vars(e):
            seen.setdefault(v)
    return list(seen)


__all__ = ["free_symbols"]
