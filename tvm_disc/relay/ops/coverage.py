"""Detection of operators that cannot be compiled, reported together."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_disc.errors import Unsupported
from tvm_disc.relay.expr import Call, Expr, Function, Op
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay.visit import post_order


def missing_operators(mod: IRModule) -> dict[str, list[str]]:
    """Return the operators of ``mod`` without an import rule, with their source locations."""
    missing: dict[str, list[str]] = {}
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    for call in _operator_calls(functions):
        assert isinstance(call.op, Op)
        row = OPS.get(call.op.name)
        if row is None or (row.lower is None and row.value is None):
            missing.setdefault(call.op.name, []).append(call.span.source if call.span else "")
    return missing


def _operator_calls(functions: Iterable[Expr]) -> Iterable[Call]:
    for expr in post_order(*functions):
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            yield expr


def require_operators(mod: IRModule) -> None:
    """Raise Unsupported with the names of all operators that cannot be imported."""
    missing = missing_operators(mod)
    if not missing:
        return
    from tvm_disc.relay.ops.refused import REFUSED

    lines = []
    for name, places in sorted(missing.items()):
        known = [p for p in places if p]
        where = f", first at {known[0]}" if known else ""
        why = f": {REFUSED[name]}" if name in REFUSED else ""
        calls = "1 call" if len(places) == 1 else f"{len(places)} calls"
        lines.append(f"  {name}: {calls}{where}{why}")
    raise Unsupported("these operators have no import rule:\n" + "\n".join(lines))
