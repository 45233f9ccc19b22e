"""Proofs by TVM's analyzer with Z3, for callers that accept tens of milliseconds.

The methods `known_*` of the solver never use it, except `known_hard`. The query is one implication:
the facts that are connected to the claim imply the claim. Claims with a division by a non-constant
are not attempted, because the analyzer's semantics of `x // 0` is unspecified.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import tirx

from tvm_disc.typing import Expr

from .convert import Converter
from .facts import Fact, connected
from .terms import Cond, cond_not

RLIMIT = 2_000_000
"""Z3's deterministic work limit per query."""
LARGEST = 1 << 31
"""Dims are assumed to be below this bound: proofs are valid only for such dims."""


def ask_z3(convert: Converter, facts: Sequence[Fact], claim: Cond) -> bool | None:
    """Return True, False, or None if Z3 gives up, is missing, or cannot express the conditions."""
    given = [f.cond for f in connected(facts, claim.syms)]
    conds = [claim, *given]
    if any(_unsuitable(c) for c in conds):
        return None
    symbols = sorted(frozenset().union(*(c.syms for c in conds)))
    if any(a.kind != "sym" for a in symbols):
        return None
    analyzer = tvm.sym.Analyzer()
    if not analyzer.is_z3_enabled:
        return None
    analyzer.set_z3_rlimit(RLIMIT)
    dims = tvm.ir.Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", LARGEST))
    for atom in symbols:
        analyzer.bind(convert.vars[atom], dims)
    strength = tvm.sym.ProofStrength.SYMBOLIC_BOUND
    for answer, goal in ((True, claim), (False, cond_not(claim))):
        statement: Expr = convert.cond_expr(goal)
        for fact in given:
            statement = tirx.Or(tirx.Not(convert.cond_expr(fact)), statement)
        if analyzer.can_prove(statement, strength):
            return answer
    return None


def _unsuitable(c: Cond) -> bool:
    return c.op == "not" or any(
        a.kind == "opaque" or (a.kind in ("div", "tdiv") and a.args[1].as_const in (None, 0))
        for a in c.mentions
    )
