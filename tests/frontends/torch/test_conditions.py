"""Decisions on sizes in Python: programs refuse the calls that PyTorch's exported module does."""

from __future__ import annotations

import io
import math
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import module_of, tensors  # noqa: E402
from tvm_disc.errors import BadInput, GuardFailed, Unsupported  # noqa: E402
from tvm_disc.frontends import from_pytorch  # noqa: E402
from tvm_disc.frontends.torch.conditions import LayoutCondition, constraint_of  # noqa: E402

Decision = Callable[[int, int], Any]

# Of the dims of one input; the example is 6 by 4.
FORMS: dict[str, Decision] = {
    "n % 2 == 0": lambda n, m: n % 2 == 0,
    "n % 2": lambda n, m: n % 2,
    "n % 4 == 2": lambda n, m: n % 4 == 2,
    "n % m": lambda n, m: n % m == 2,
    "(n + m) % 5": lambda n, m: (n + m) % 5 == 0,
    "-n % 4": lambda n, m: -n % 4 == 2,
    "n // 4": lambda n, m: n // 4 == 1,
    "-n // 4": lambda n, m: -n // 4 == -2,
    "(n + 3) // 4": lambda n, m: (n + 3) // 4 == 2,
    "n // m": lambda n, m: n // m == 1,
    "n // 2 % 2": lambda n, m: n // 2 % 2 == 1,
    "n // 2 // 2": lambda n, m: n // 2 // 2 == 1,
    "n == m": lambda n, m: n == m,
    "n != m": lambda n, m: n != m,
    "n > m": lambda n, m: n > m,
    "n >= m + 2": lambda n, m: n >= m + 2,
    "n < 2 * m": lambda n, m: n < 2 * m,
    "n <= 6": lambda n, m: n <= 6,
    "3 < n < 9": lambda n, m: 3 < n < 9,
    "n * m > 20": lambda n, m: n * m > 20,
    "n * m % 8": lambda n, m: n * m % 8 == 0,
    "n * n - m": lambda n, m: n * n - m > 20,
    "n ** 3": lambda n, m: n**3 > 200,
    "n * m == 24": lambda n, m: n * m == 24,
    "max": lambda n, m: max(n, m) > 5,
    "min": lambda n, m: min(n, m, 8) >= 4,
    "max of three": lambda n, m: max(n, m, 8) == 8,
    "abs": lambda n, m: abs(n - m) <= 2,
    "sym_max": lambda n, m: torch.sym_max(n, m) == n,
    "sym_min": lambda n, m: torch.sym_min(n, 5) == 5,
    "and": lambda n, m: n > 3 and m < 6,
    "or": lambda n, m: n > 7 or m < 5,
    "not": lambda n, m: not (n > 7 or m == 5),
    "int(n * 0.2)": lambda n, m: int(n * 0.2),
    "int(n * 0.2) == 1": lambda n, m: int(n * 0.2) == 1,
    "int(n / 3)": lambda n, m: int(n / 3) == 2,
    "n / 4": lambda n, m: n / 4 > 1.25,
    "n / m": lambda n, m: n / m >= 1.5,
    "n * 0.1": lambda n, m: n * 0.1 < m * 0.2,
    "floor": lambda n, m: math.floor(n * 0.3) == 1,
    "ceil": lambda n, m: math.ceil(n * 0.3) == 2,
    "round": lambda n, m: round(n * 0.3) == 2,
    "sqrt": lambda n, m: math.sqrt(n) < 2.5,
    "n ** 0.5": lambda n, m: n**0.5 < 2.5,
    "mean of sizes": lambda n, m: (n + m) / 2 == 5.0,
    "shifted": lambda n, m: n << 1 == 12,
    "n * 2 // 3": lambda n, m: n * 2 // 3 == 4,
    "(n - 2) // 2 + 1": lambda n, m: (n - 2) // 2 + 1 == 3,
    "pad to 8": lambda n, m: (8 - n % 8) % 8 == 2,
    "as an index": lambda n, m: [1, 2, 3, 4][n % 4] == 3,
    "as a range": lambda n, m: sum(range(n % 4)) == 1,
    "as a truth value": lambda n, m: bool(n - 5),
    "two in turn": lambda n, m: (n % 2 == 0) + (m % 2 == 0) == 2,
}
SIZES = [(n, m) for n in (1, 2, 3, 5, 6, 7, 8, 9, 12, 22) for m in (2, 3, 4, 5, 8)]


def exported(decision: Decision) -> Any:
    def forward(x: Any) -> Any:
        return x * 2 if decision(*x.shape) else x * 3

    auto = torch.export.Dim.AUTO
    given = ({0: auto, 1: auto},)
    return torch.export.export(module_of(forward), tensors((6, 4)), dynamic_shapes=(given,))


def saved(program: Any) -> Any:
    """The program after a trip through a file."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


def accepted(module: Any, x: Any) -> Any:
    """What PyTorch's exported module gives; None for a call that it refuses."""
    try:
        return module(x)
    except (AssertionError, RuntimeError, ZeroDivisionError):
        return None


def compared(program: Any, exe: Any, sizes: Any = SIZES) -> int:
    """Compare a build with PyTorch's own module at every size; the number of refused calls."""
    module, refused = program.module(), 0
    for n, m in sizes:
        (x,) = tensors((n, m))
        wanted = accepted(module, x)
        if wanted is None:
            refused += 1
            with pytest.raises((BadInput, GuardFailed), match=r"must|args_0"):
                exe(x)
        else:
            torch.testing.assert_close(exe(x), wanted, rtol=0, atol=0)
    return refused


@pytest.mark.parametrize("name", FORMS)
def test_a_decision_on_sizes_holds_in_every_call(name: str) -> None:
    program = exported(FORMS[name])
    loaded = saved(program)
    told = [from_pytorch(p)["main"].attrs["constraints"] for p in (program, loaded)]
    assert set(told[0]) == set(told[1]), "a saved program has other conditions"
    assert compared(program, tvm_disc.build(program)) > 0, "a condition that refuses nothing"


@pytest.mark.parametrize("name", ["n % 2", "int(n * 0.2)", "n * m > 20", "or", "sqrt"])
def test_a_saved_program_keeps_its_conditions(name: str) -> None:
    program = saved(exported(FORMS[name]))
    assert compared(program, tvm_disc.build(program), SIZES[::3]) > 0


def test_the_message_names_the_input_and_its_axis() -> None:
    exe = tvm_disc.build(exported(FORMS["n * m > 20"]))
    with pytest.raises(
        GuardFailed, match=r"input 'args_0' axis 0.*input 'args_0' axis 1.*\[2, 3\]"
    ):
        exe(*tensors((2, 3)))


def test_the_number_of_parts_is_a_condition() -> None:
    def parts(x: Any) -> Any:
        return torch.cat([t * 2 for t in x.split(4)])

    auto = torch.export.Dim.AUTO
    program = torch.export.export(module_of(parts), tensors((6, 3)), dynamic_shapes=(({0: auto},),))
    exe = tvm_disc.build(program)
    for n in (5, 6, 7, 8):  # PyTorch's module refuses 5, for the strides of its last part
        (x,) = tensors((n, 3))
        assert torch.equal(exe(x), parts(x))
    for n in (1, 3, 4, 9, 12):
        with pytest.raises(GuardFailed, match="args_0"):
            exe(*tensors((n, 3)))


def test_padding_only_where_a_size_does_not_divide() -> None:
    def padded(x: Any) -> Any:
        pad = torch.nn.functional.pad
        return pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4)) if x.shape[0] % 4 else x

    auto = torch.export.Dim.AUTO
    program = torch.export.export(
        module_of(padded), tensors((6, 3)), dynamic_shapes=(({0: auto},),)
    )
    exe = tvm_disc.build(program)
    for n in (5, 6, 7, 9, 11):
        (x,) = tensors((n, 3))
        assert torch.equal(exe(x), padded(x))
    for n in (4, 8, 12):
        with pytest.raises(GuardFailed, match=r"% 4"):
            exe(*tensors((n, 3)))


class Scaled(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A decision on a number, on a size inside a mapping and on two inputs."""

    def forward(self, x: Any, rest: Any, k: int) -> Any:
        y = rest["b"][0]
        x = x * 2 if y.shape[0] % 2 == 0 else x * 3
        x = x + k if k > 3 else x
        return x + 1 if x.shape[0] * k > 20 else x


@pytest.mark.parametrize("through_a_file", [False, True])
def test_conditions_on_numbers_and_nested_inputs(through_a_file: bool) -> None:
    auto, dynamic = torch.export.Dim.AUTO, torch.export.Dim.DYNAMIC
    args = (tensors((7, 3))[0], {"b": [*tensors((4,), (2,))]}, 5)
    spec = ({0: auto}, {"b": [{0: auto}, None]}, dynamic)
    program = torch.export.export(Scaled(), args, dynamic_shapes=spec)
    exe = tvm_disc.build(saved(program) if through_a_file else program)
    module = program.module()
    for n, length, k in ((7, 4, 5), (9, 6, 4), (3, 2, 9)):
        (x,), b = tensors((n, 3)), [*tensors((length,), (2,))]
        torch.testing.assert_close(exe(x, *b, k), module(x, {"b": b}, k))
    for n, length, k in ((7, 5, 5), (7, 4, 2), (3, 4, 4)):
        (x,), b = tensors((n, 3)), [*tensors((length,), (2,))]
        with pytest.raises(GuardFailed, match=r"must hold"):
            exe(x, *b, k)


def test_an_assertion_on_a_number_of_the_data() -> None:
    def part(x: Any, n: Any) -> Any:
        size = n.item()
        torch._check(size >= 2)
        torch._check(size <= x.shape[0])
        return x[:size] + 1

    auto = torch.export.Dim.AUTO
    example = (*tensors((8,)), torch.tensor(3))
    program = torch.export.export(module_of(part), example, dynamic_shapes=(({0: auto}, None),))
    exe = tvm_disc.build(program)
    for s, n in ((8, 2), (5, 5), (64, 33)):
        (x,) = tensors((s,))
        assert torch.equal(exe(x, torch.tensor(n)), x[:n] + 1)
    for s, n in ((8, 1), (5, 6), (5, -3)):
        with pytest.raises(GuardFailed, match=r"must hold|at least 0"):
            exe(*tensors((s,)), torch.tensor(n))


def test_an_axis_that_may_be_one_and_is_to_go() -> None:
    auto = torch.export.Dim.AUTO
    module = module_of(lambda x: x.squeeze(0) * 2)
    program = torch.export.export(module, tensors((2, 5)), dynamic_shapes=(({0: auto},),))
    exe = tvm_disc.build(program)
    assert exe(*tensors((3, 5))).shape == (3, 5)
    with pytest.raises(GuardFailed, match=r"args_0_0 != 1 must hold"):
        exe(*tensors((1, 5)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("math.log(L['x'].size()[0]) > 1", r"`math.log.*` is not supported"),
        ("L['q'].size()[0] > 1", r"\['q'\] is not an input"),
        ("L['x'].size()[0] in (1, 2)", r"is not supported"),
        ("f(L['x'].size()[0]) == 'a'", r"is not supported"),
        ("L['x'].size()[0] >", r"cannot be checked"),
    ],
)
def test_a_guard_that_cannot_be_said_is_quoted(text: str, message: str) -> None:
    def place(keys: tuple[Any, ...], axis: int | None) -> str:
        if keys != ("x",):
            raise Unsupported(f"{list(keys)} is not an input")
        return f"x.{axis}"

    with pytest.raises(Unsupported, match=message) as caught:
        constraint_of(text, place)
    assert f"`{text}`" in str(caught.value)


def test_a_program_with_a_guard_that_cannot_be_said_is_refused() -> None:
    program = exported(FORMS["n > m"])
    program._guards_code = ["math.log(L['args_0'].size()[0]) > 1"]
    with pytest.raises(Unsupported, match=r"requires `math.log.*export the module for sizes"):
        tvm_disc.build(program)


def test_guards_in_the_constraint_language() -> None:
    def place(keys: tuple[Any, ...], axis: int | None) -> str:
        return f"{'_'.join(map(str, keys))}.{axis}"

    for text, wanted in (
        ("L['x'].size()[0]*((-4) + L['x'].size()[1]) >= 2", "x.0 * (-4 + x.1) >= 2"),
        ("math.trunc(0.2*torch.sym_float(L['x'].size()[0])) == 1", "trunc(0.2 * float(x.0)) == 1"),
        ("L['r']['b'][0].size()[2] != 3 and not (1 < 2)", "r_b_0.2 != 3 and (not 1 < 2)"),
        ("(3 << L['x'].size()[0]) > 1", "3 * 2 ** x.0 > 1"),
        ("L['x'].size()[0] + ((-1)*L['y'].size()[1]) <= 0", "x.0 <= y.1"),
        ("((-1)*L['y'].size()[1]) + 4 + L['x'].size()[0] == 0", "4 + x.0 == y.1"),
        ("L['x'].size()[0] + ((-1)*L['y'].size()[1]) <= 3", "x.0 + -1 * y.1 <= 3"),
        ("((-2)*L['y'].size()[1]) + L['x'].size()[0] < 0", "-2 * y.1 + x.0 < 0"),
    ):
        assert constraint_of(text, place) == wanted
    with pytest.raises(LayoutCondition):
        constraint_of("L['x'].stride()[0] == 4", place)


# -- random decisions, built from random examples, among them sizes of 1

SIZES = ((1, 1), (1, 5), (2, 3), (3, 3), (4, 7), (5, 1), (6, 12), (8, 8), (9, 2), (16, 31))


def _number(rng: random.Random, depth: int) -> str:
    """The text of an integer that depends on the sizes n and m."""
    if depth == 0:
        return rng.choice(["n", "m", "n", "m", str(rng.randrange(1, 9))])
    a, b = _number(rng, depth - 1), _number(rng, rng.randrange(depth))
    k = rng.randrange(2, 6)
    return rng.choice(
        [
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {k})", f"({a} % {k})",
            f"max({a}, {b})", f"min({a}, {b})", f"abs({a} - {b})", f"int({a} * 0.{k})",
        ]
    )  # fmt: skip


def _decision(rng: random.Random) -> str:
    sides = [_number(rng, rng.randrange(3)) for _ in range(4)]
    first, second = (
        f"{a} {rng.choice(['==', '!=', '<', '<=', '>', '>='])} {b}"
        for a, b in (sides[:2], sides[2:])
    )
    forms = [first, first, f"not {first}", f"{first} and {second}", f"{first} or {second}"]
    return rng.choice(forms)


@pytest.mark.parametrize("seed", range(int(os.environ.get("DISC_DECISIONS", "10"))))
def test_random_decisions_are_kept_or_refused(seed: int) -> None:
    """A call gives what the module gives, or is refused; that of the example is never refused."""
    rng = random.Random(seed)
    text = _decision(rng)
    decide = eval(f"lambda n, m: {text}")

    def forward(x: Any) -> Any:
        return x * 2 + x.shape[0] if decide(*x.shape) else x - 1

    module = module_of(forward)
    example = rng.choice(SIZES)
    exe = tvm_disc.build(module, example_inputs=tensors(example))
    for shape in (example, *SIZES):
        x = tensors(shape, seed=seed)[0]
        try:
            found = exe(x)
        except (GuardFailed, BadInput):  # the latter if a size must be known, or equal to another
            assert shape != example, (text, example)
            continue
        torch.testing.assert_close(found, module(x), msg=f"{text}: {shape}, built from {example}")
