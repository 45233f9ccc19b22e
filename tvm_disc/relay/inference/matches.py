"""Exhaustiveness of ``match``."""

from __future__ import annotations

from enum import Enum, auto
from itertools import product

from tvm_disc.errors import BadNode, TypeMismatch, shown
from tvm_disc.relay.expr import (
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from tvm_disc.relay.module import IRModule


class Fit(Enum):
    """Whether a clause's pattern matches all, none or possibly some of the values of a case.

    A case is a pattern too.
    """

    ALL = auto()
    NONE = auto()
    SOME = auto()  # the case must be split


def pattern_text(pattern: Pattern) -> str:
    """Return a pattern in Relay's text format."""
    if isinstance(pattern, PatternConstructor):
        inner = ", ".join(map(pattern_text, pattern.patterns))
        return (
            f"{pattern.constructor.name_hint}({inner})" if inner else pattern.constructor.name_hint
        )
    if isinstance(pattern, PatternTuple):
        return f"({', '.join(map(pattern_text, pattern.patterns))})"
    return f"%{pattern.var.name_hint}" if isinstance(pattern, PatternVar) else "_"


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Return patterns of the values that no clause matches; an empty list if the match is complete.

    ``mod`` defines the data types.
    """
    if not isinstance(match, Match):
        raise BadNode(f"unmatched_cases: expected a relay.Match, found {shown(match)}")
    if not isinstance(mod, IRModule | None):
        raise BadNode(f"unmatched_cases: expected a relay.IRModule, found {shown(mod)}")
    patterns = [clause.lhs for clause in match.clauses]
    mod = IRModule() if mod is None else mod
    todo: list[Pattern] = [PatternWildcard()]
    found: list[Pattern] = []
    while todo:
        case = todo.pop()
        fit = Fit.NONE
        for pattern in patterns:
            fit = _fit(pattern, case)
            if fit is Fit.ALL:
                break
            if fit is Fit.SOME:
                todo.extend(reversed(_taken_apart(case, pattern, mod)))
                break
        if fit is Fit.NONE:
            found.append(case)
    return found


def _fit(pattern: Pattern, case: Pattern) -> Fit:
    if isinstance(pattern, PatternWildcard | PatternVar):
        return Fit.ALL
    assert isinstance(pattern, PatternConstructor | PatternTuple)
    if isinstance(case, PatternWildcard):
        return Fit.SOME
    assert isinstance(case, PatternConstructor | PatternTuple)
    if _constructor(pattern) != _constructor(case):
        return Fit.NONE
    fits = [_fit(p, c) for p, c in zip(pattern.patterns, case.patterns, strict=True)]
    if Fit.NONE in fits:
        return Fit.NONE
    return Fit.SOME if Fit.SOME in fits else Fit.ALL


def _constructor(pattern: Pattern) -> str:
    return pattern.constructor.name_hint if isinstance(pattern, PatternConstructor) else ""


def _taken_apart(case: Pattern, pattern: Pattern, mod: IRModule) -> list[Pattern]:
    """Return patterns that cover ``case``, with each wildcard split that ``pattern`` tests."""
    if isinstance(pattern, PatternWildcard | PatternVar):
        return [case]
    if isinstance(case, PatternWildcard):
        return _alternatives(pattern, mod)
    assert isinstance(pattern, PatternConstructor | PatternTuple)
    assert isinstance(case, PatternConstructor | PatternTuple)
    pairs = zip(case.patterns, pattern.patterns, strict=True)
    fields = product(
        *(_taken_apart(c, p, mod) if _fit(p, c) is Fit.SOME else [c] for c, p in pairs)
    )
    if isinstance(case, PatternTuple):
        return [PatternTuple(f) for f in fields]
    return [PatternConstructor(case.constructor, f) for f in fields]


def _alternatives(pattern: Pattern, mod: IRModule) -> list[Pattern]:
    if isinstance(pattern, PatternTuple):
        return [PatternTuple(tuple(PatternWildcard() for _ in pattern.patterns))]
    assert isinstance(pattern, PatternConstructor)
    owner = pattern.constructor.belong_to
    if owner not in mod.type_definitions:
        raise TypeMismatch(f"the module does not define type {owner}, which a clause matches")
    made: list[Pattern] = []
    for ctor in mod.get_type(owner)[1:]:
        made.append(PatternConstructor(ctor, tuple(PatternWildcard() for _ in ctor.inputs)))
    return made


__all__ = ["unmatched_cases"]
