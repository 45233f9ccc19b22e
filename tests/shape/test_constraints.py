"""The constraint language, and the command line that reads it."""

from __future__ import annotations

import io
import sys

import pytest

from tvm_disc.errors import ParseError
from tvm_disc.shape import Likely, Solver, parse_constraint
from tvm_disc.shape.__main__ import main, run


def resolver() -> tuple[Solver, dict[str, object]]:
    solver = Solver()
    names: dict[str, object] = {n: solver.symbol(n) for n in ("b", "s", "h", "w")}
    names |= {"ids.1": names["s"], "mask.1": solver.symbol("s1"), "x.0": 4}
    return solver, names


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("1 <= b <= 64", "b < 65"),
        ("s % 8 == 0", "s % 4 == 0"),
        ("ids.1 == mask.1", "mask.1 <= s"),
        ("h == w", "h*w == h*h"),
        ("s == x.0", "s == 4"),
        ("min(h, w) >= 3", "w >= 2"),
        ("-h + 8 >= w", "w <= 8"),
        ("2*(h - 1) == w", "w % 2 == 0"),
        ("s//8 == 2", "15 < s"),
    ],
)
def test_a_constraint_proves_its_consequence(text: str, claim: str) -> None:
    solver, names = resolver()
    condition = parse_constraint(claim, names.get)
    assert solver.known(condition) is not True
    solver.assume(parse_constraint(text, names.get), "user")
    assert solver.known(condition) is True


def test_likely() -> None:
    solver, names = resolver()
    parsed = parse_constraint("likely(s, [128, 256])", names.get)
    assert isinstance(parsed, Likely) and parsed.values == (128, 256)
    solver.assume("likely(s, [128])", "user")
    assert solver.likely_values(names["s"]) == (128,)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("s ==", 5, "expected a dim, found the end"),
        ("s", 2, "expected ==, !=, <=, <, >= or >, found the end"),
        ("s & 3 == 0", 3, "unexpected '&'"),
        ("s == 4 5", 8, "expected the end, found '5'"),
        ("s % 0 == 0", 3, "expected a divisor of '%' other than 0"),
        ("(s + 1 == 3", 12, r"expected '\)', found the end"),
        ("1.5 // s == 1", 5, "expected integers, found a floating-point number"),
        ("(s == 3) + 1 == 2", 10, "expected a number, found a condition"),
        ("s == 3 and b", 8, "expected a condition, found a number"),
        ("not s", 1, "expected a condition, found a number"),
        ("s ** b == 4", 3, "expected an integer literal from 0 to 8, as the exponent"),
        (
            "float(s) ** 3 == 4",
            10,
            "expected an integer literal from 0 to 2, or 0.5, as the exponent",
        ),
        ("s << 64 == 4", 3, "expected an integer shifted by a literal from 0 to 61"),
        ("s / 0 == 4", 3, "expected a divisor of '/' other than 0"),
        ("s if b == 1 else b > 2", 3, "expected a number, found a condition"),
        ("log(s) == 4", 1, "no dim is called 'log'"),
        ("likely(s, 4)", 11, r"expected '\[', found '4'"),
        ("likely(s, [x])", 12, "expected an integer, found 'x'"),
        ("q == 3", 1, "no dim is called 'q'; known names: b, mask.1, s"),
        ("masc.1 == 3", 1, "no dim is called 'masc.1'; did you mean 'mask.1'"),
    ],
)
def test_refusals_quote_the_text_and_point(text: str, column: int, message: str) -> None:
    solver = Solver()
    names = {"s": solver.symbol("s"), "b": solver.symbol("b"), "mask.1": solver.symbol("m")}
    with pytest.raises(ParseError, match=message) as caught:
        parse_constraint(text, names.get, names)
    lines = str(caught.value).splitlines()
    assert f"constraint '{text}', column {column}" in lines[0]
    assert lines[1] == f"  {text}" and lines[2] == " " * (column + 1) + "^"


def test_command_line_proves() -> None:
    out = list(run(["s % 8 == 0  # tiles", "1 <= b <= 64", "? b*s <= 64*s", "? s % 3 == 0"]))
    assert out[0] == "proved: b*s <= 64*s"
    assert out[1].startswith("    1 <= b and b <= 64")
    assert "unknown: s % 3 == 0" in out
    assert "s % 8 == 0    [input]" in out[-1]


def test_command_line_tells_likely_values() -> None:
    out = list(run(["likely(s, [128, 256])", "? likely(s // 2 + 1, [0])"]))
    assert out[0] == "s // 2 + 1: [65, 129]"


def test_command_line_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("s == 3\ns == 4\n"))
    assert main() == 1
    assert "'s == 4' (input) contradicts 's == 3' (input)" in capsys.readouterr().err
