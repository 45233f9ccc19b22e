"""Every form of the constraint language, compiled as a guard and compared with Python's meaning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import GuardFailed, ShapeConflict

SIZES = [(n, m) for n in (0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 20) for m in (0, 1, 2, 3, 5, 8)]

FORMS = (
    "n % 2 == 0",
    "n % 2 != 0",
    "n % m == 0",
    "n // 4 == 2",
    "(n + 3) // 4 == 2",
    "n * m > 20",
    "n > m",
    "n != m",
    "n == m or n == 1",
    "n > 3 and m > 3",
    "not n == 3",
    "not (n > 3 and m > 3)",
    "not n > 3 and m > 1",
    "n == 1 or n == 2 and m == 5",
    "1 <= n < m",
    "max(n, m, 4) == n",
    "min(n, m) >= 2",
    "abs(n - m) <= 2",
    "n ** 2 > 20",
    "2 ** 3 == n + m",
    "-n + 8 >= m",
    "n << 1 == m + 1",
    "n >> 2 == 1",
    "(n if n > m else m) % 3 == 0",
    "(n > 3 if m > 2 else n < 3)",
    "trunc(0.2 * float(n)) == 1",
    "trunc(0.1 * n) == trunc(0.1 * m)",
    "int(n / 3) == 2",
    "int(n / 3) * 3 == n",
    "n / 10 * 3 == 0.3 * n",
    "n > 2 and m % n == 0",
    "n == 0 or m % n != 1",
    "not n % m == 0",
    "(n % m if m > 0 else n) == 1",
    "(n if m == 0 else n // m) >= 2 or n == 1",
    "floor(n * 0.3 - 1.0) == m - 2",
    "ceil(n * 0.3) == m",
    "floor(0.5 - n) == -5",
    "ceil(0.5 - n) == -4",
    "round(n * 0.5) == 2",
    "round(n / 2 - 3.0) == m - 3",
    "sqrt(n) == 3",
    "float(n) ** 2 > 8.5",
    "float(n) ** 0.5 >= 2.5",
    "n * 0.25 >= 1.75",
    "n - 0.5 > m",
    "max(n * 0.5, 1.5) == 1.5",
    "min(0.4 * n, m) < 2",
    "abs(n * 0.5 - 3.0) <= 1.0",
    "n == 2 or trunc(0.2 * n) == 1",
    "n / m > 1.5 if m > 0 else n == 3",
    "1e1 * n == 30",
)
NAMES = {
    "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt
}  # fmt: skip


def meaning(text: str, n: int, m: int) -> bool:
    """Python's value of the text; a condition that has none does not hold."""
    try:
        return bool(eval(text, {**NAMES, "n": n, "m": m}))
    except ZeroDivisionError:
        return False


def program(*constraints: str) -> Any:
    x = relay.var("x", shape=(relay.Any("n"), relay.Any("m")))
    body = relay.Function([x], relay.add(x, x))
    return tvm_disc.build(body, constraints=list(constraints))


@pytest.mark.parametrize("text", FORMS)
def test_a_guard_means_what_python_means(text: str) -> None:
    exe = program(text)
    held = 0
    for n, m in SIZES:
        x = np.ones((n, m), "float32")
        if meaning(text, n, m):
            held += 1
            assert exe(x).shape == (n, m)
        else:
            with pytest.raises(GuardFailed, match=r"must hold|must be|must equal"):
                exe(x)
    assert 0 < held < len(SIZES), "a condition that decides nothing"


def test_the_message_quotes_a_computed_condition() -> None:
    exe = program("trunc(0.2 * float(n)) == 1")
    with pytest.raises(GuardFailed, match=r"trunc\(0.2 \* float\(n\)\) == 1 must hold \(n: input"):
        exe(np.ones((4, 3), "float32"))


def test_literals_are_decided_at_build() -> None:
    exe = program("trunc(0.2 * float(6)) == 1", "6 / 4 == 1.5", "round(2.5) == 2")
    assert "\nguards: none\n" in exe.explain()
    with pytest.raises(ShapeConflict, match=r"trunc\(0.2 \* float\(4\)\) == 1"):
        program("trunc(0.2 * float(4)) == 1")


def test_a_computed_condition_is_checked_once() -> None:
    text = program("trunc(0.2 * n) == 1", "trunc(0.2 * n) == 1").explain()
    assert text.count("trunc(0.2 * n) == 1") == 1


def test_a_dim_that_equals_a_computed_number_stays_a_dim() -> None:
    exe = program("trunc(0.5 * n) == m")
    for n, m in ((4, 2), (5, 2), (1, 0), (64, 32)):
        assert exe(np.ones((n, m), "float32")).shape == (n, m)
    with pytest.raises(GuardFailed):
        exe(np.ones((4, 3), "float32"))
