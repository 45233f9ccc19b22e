"""The table of claims: nothing proved wrongly, nearly everything true proved."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

from tvm import tirx

from tests.shape.claims import TABLE, Claim, free_names, truth
from tests.shape.disc_rules import DiscRules
from tvm_disc.shape import Solver, parse_constraint


def environment(claim: Claim, solver: Solver) -> dict[str, Any]:
    env: dict[str, Any] = {name: solver.symbol(name) for name in free_names(claim)}
    for name, text in claim.lets:
        found = parse_constraint(f"{text} == 0", env.get)
        while isinstance(found, tirx.And):  # a divisor is not 0, and the equality
            found = found.b
        env[name] = found.a
    return env


def ask(claim: Claim) -> tuple[bool | None, bool]:
    """The solver's answer, and whether DISC's rules prove the claim."""
    solver, rules = Solver(), DiscRules()
    env = environment(claim, solver)
    for fact in claim.facts:
        solver.assume(parse_constraint(fact, env.get), "table")
        rules.assume(rules.convert.cond(parse_constraint(fact, env.get)))
    condition = parse_constraint(claim.claim, env.get)
    return solver.known(condition), rules.proves(rules.convert.cond(condition))


@lru_cache(maxsize=1)
def results() -> list[tuple[Claim, bool | None, bool, bool | None, bool]]:
    return [(c, *truth(c), *ask(c)) for c in TABLE]


def test_the_table_is_large_and_has_both_kinds() -> None:
    kinds = Counter(t for _, t, _, _, _ in results())
    assert len(TABLE) >= 250
    assert len({str(c) for c in TABLE}) == len(TABLE)
    assert kinds[False] >= 20 and kinds[None] >= 20


def test_no_answer_is_wrong() -> None:
    wrong = [str(c) for c, t, _, answer, _ in results() if answer is not None and answer != t]
    assert wrong == []


def test_at_least_95_percent_of_true_claims_are_proved() -> None:
    true = [(c, answer) for c, t, total, answer, _ in results() if t is True and total]
    missed = [str(c) for c, answer in true if answer is None]
    assert len(missed) <= 0.05 * len(true), "\n".join(missed)


def test_at_least_95_percent_of_false_claims_are_refuted() -> None:
    false = [(c, answer) for c, t, total, answer, _ in results() if t is False and total]
    missed = [str(c) for c, answer in false if answer is None]
    assert len(missed) <= 0.05 * len(false), "\n".join(missed)


def test_the_yardstick_is_sound_and_weaker() -> None:
    rows = results()
    assert [str(c) for c, t, _, _, disc in rows if disc and t is not True] == []
    # Nothing that the published rules prove is beyond us.
    assert [str(c) for c, _, _, answer, disc in rows if disc and answer is not True] == []


def test_z3_proves_most_of_what_is_left_and_nothing_else() -> None:
    unknown = [(c, t) for c, t, total, answer, _ in results() if answer is None and total]
    proved = 0
    for claim, expected in [r for r in unknown if r[1]] + [r for r in unknown if not r[1]][:12]:
        solver = Solver()
        env = environment(claim, solver)
        for fact in claim.facts:
            solver.assume(parse_constraint(fact, env.get), "table")
        answer = solver.known_hard(parse_constraint(claim.claim, env.get))
        assert answer is None or answer == expected, str(claim)
        proved += answer is True
    assert proved >= 5


def test_the_figures_in_the_documentation() -> None:
    assert figures() in (Path(__file__).parents[2] / "docs/shape.md").read_text()


def figures() -> str:
    """One line per section for the documentation."""
    sections: dict[str, list[int]] = {}
    for claim, t, total, answer, disc in results():
        row = sections.setdefault(claim.section, [0] * 7)
        row[0] += 1
        row[1] += t is True and total
        row[2] += t is True and total and answer is True
        row[3] += disc
        row[4] += t is False and total
        row[5] += t is False and answer is False
        row[6] += answer is not None and answer != t
    rows = [*sections.items(), ("all", [sum(c) for c in zip(*sections.values(), strict=True)])]
    head = "| section | claims | true | proved | DISC | false | refuted | wrong |\n|" + "---|" * 8
    return "\n".join([head, *(f"| {name} | {' | '.join(map(str, r))} |" for name, r in rows)])
