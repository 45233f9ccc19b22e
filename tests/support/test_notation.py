"""Conditions and formulas as users read them."""

from __future__ import annotations

import itertools
import re
from random import Random

import pytest

from tvm_disc.support.notation import simplified


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        ("64 * mask.1 != 64 * (mask.1 // 2)", "mask.1 != 0"),
        ("64 * (mask.1 // 2) <= 64 * mask.1", "mask.1 // 2 <= mask.1"),
        ("4 * n + 8 * m == 12 + 4 * n", "2 * m == 3"),
        ("not (6 * x.0 >= 6 * y.0 and n % 2 == 0)", "not (x.0 >= y.0 and n % 2 == 0)"),
        ("n - 1 >= 0", "n >= 1"),
        ("n * m * 3 == 3 * (n * m)", "n * m * 3 == 3 * (n * m)"),
        ("n % 2 == 0", "n % 2 == 0"),
        ("2 * n + 2 <= 7", "2 * n <= 5"),
        ("0.5 * n == 0.5 * m", "0.5 * n == 0.5 * m"),
        ("2 * n / 2 == 2 * m", "2 * n / 2 == 2 * m"),
        ("2 <= n <= 8", "2 <= n <= 8"),
        ("likely(n, [1, 2])", "likely(n, [1, 2])"),
        ("not a condition", "not a condition"),
    ],
)
def test_conditions(text: str, shorter: str) -> None:
    assert simplified(text) == shorter


def values(text: str) -> list[bool]:
    """The condition for all small sizes."""
    code = compile(re.sub(r"x\.1", "x", text), "condition", "eval")
    sizes = itertools.product(range(7), repeat=3)
    return [bool(eval(code, {}, {"n": n, "m": m, "x": x})) for n, m, x in sizes]


def test_shorter_conditions_mean_the_same() -> None:
    random = Random(0)

    def term() -> str:
        name = random.choice(["n", "m", "x.1", "(n // 2)", "(x.1 // 3)", "(m % 4)", "(n * m)"])
        factor = random.choice(["", "2 * ", "3 * ", "6 * ", "-1 * "])
        return random.choice([f"{factor}{name}", str(random.randrange(13))])

    def total() -> str:
        return random.choice([" + ", " - "]).join(term() for _ in range(random.randrange(1, 4)))

    def comparison() -> str:
        return f"{total()} {random.choice(['==', '!=', '<', '<=', '>', '>='])} {total()}"

    shorter = 0
    for _ in range(1500):
        text = comparison()
        if random.random() < 0.2:
            text = f"not ({text} {random.choice(['and', 'or'])} {comparison()})"
        found = simplified(text)
        shorter += found != text
        assert values(found) == values(text), (text, found)
    assert shorter > 300
