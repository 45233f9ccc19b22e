"""Indices and divisors of PyTorch programs are refused exactly where eager PyTorch refuses them.

``MEMBERS`` has a program for each operator that reads or writes by position, or that divides
integers. Each runs on indices inside and outside of the axis, negative ones among them: where eager
raises, the program raises, and names what was wrong; elsewhere results are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc.errors import DiscError, DivisionByZero, IndexOutside

torch = pytest.importorskip("torch")
F: Any = torch.nn.functional

N = 4  # the size of every indexed axis


def rows(i: Any, width: int = 1) -> Any:
    """Indices as a matrix, one column for each of ``width``."""
    return i.reshape(-1, 1).expand(i.shape[0], width)


def table() -> Any:
    return torch.arange(16, dtype=torch.float32).reshape(N, 4)


def updates(count: int) -> Any:
    return -1 - torch.arange(count * 4, dtype=torch.float32).reshape(count, 4)


Member = tuple[str, Callable[[Any, Any, Any], Any]]
MEMBERS: tuple[Member, ...] = (
    ("embedding", lambda x, i, u: F.embedding(i, x)),
    ("embedding of a matrix", lambda x, i, u: F.embedding(i.reshape(1, -1), x)),
    ("embedding with padding", lambda x, i, u: F.embedding(i, x, padding_idx=0)),
    ("embedding_bag", lambda x, i, u: F.embedding_bag(rows(i), x)),
    ("embedding_bag max", lambda x, i, u: F.embedding_bag(rows(i), x, mode="max")),
    ("index_select", lambda x, i, u: torch.index_select(x, 0, i)),
    ("index_select axis 1", lambda x, i, u: torch.index_select(x, 1, i)),
    ("gather", lambda x, i, u: torch.gather(x, 0, rows(i, 4))),
    ("gather axis -1", lambda x, i, u: torch.gather(x, -1, i.reshape(1, -1))),
    ("take", lambda x, i, u: torch.take(x[0], i)),
    ("index", lambda x, i, u: x[i]),
    ("index axis 1", lambda x, i, u: x[:, i]),
    ("index twice", lambda x, i, u: x[i, i]),
    ("index and slice", lambda x, i, u: x[1:, i]),
    ("index_put", lambda x, i, u: x.index_put((i,), u)),
    ("index_put accumulate", lambda x, i, u: x.index_put((i,), u, accumulate=True)),
    ("index_add", lambda x, i, u: x.index_add(0, i, u)),
    ("index_add scaled", lambda x, i, u: x.index_add(0, i, u, alpha=2)),
    ("index_copy", lambda x, i, u: x.index_copy(0, i, u)),
    ("index_copy axis 1", lambda x, i, u: x.index_copy(1, i, u.T)),
    ("index_fill", lambda x, i, u: x.index_fill(0, i, 7.0)),
    ("index_fill axis 1", lambda x, i, u: x.index_fill(-1, i, 7.0)),
    ("put", lambda x, i, u: x[0].put(i, u[:, 0])),
    ("scatter", lambda x, i, u: x.scatter(0, rows(i, 4), u)),
    ("scatter value", lambda x, i, u: x.scatter(1, rows(i).T, 7.0)),
    ("scatter reduce", lambda x, i, u: x.scatter(0, rows(i, 4), u, reduce="add")),
    ("scatter_add", lambda x, i, u: x.scatter_add(0, rows(i, 4), u)),
    ("scatter_reduce", lambda x, i, u: x.scatter_reduce(0, rows(i, 4), u, "amax")),
    ("scatter_reduce mean", lambda x, i, u: x.scatter_reduce(0, rows(i, 4), u, "mean")),
    ("one_hot", lambda x, i, u: F.one_hot(i, N)),
    ("nll_loss", lambda x, i, u: F.nll_loss(u, i)),
    ("nll_loss ignored", lambda x, i, u: F.nll_loss(u, i, ignore_index=-7)),
    ("cross_entropy", lambda x, i, u: F.cross_entropy(u, i)),
    ("cross_entropy smooth", lambda x, i, u: F.cross_entropy(u, i, label_smoothing=0.1)),
    ("cross_entropy weights", lambda x, i, u: F.cross_entropy(u, i, weight=x[0] + 1)),
    ("multi_margin_loss", lambda x, i, u: F.multi_margin_loss(u, i)),
)

# Indices by what they are; all of a call have one length.
INDICES: dict[str, list[int]] = {
    "inside": [0, 3, 1],
    "last": [3, 3, 3],
    "one": [2],
    "too large": [1, N, 0],
    "far too large": [99999, 0, 0],
    "beyond int32": [0, 1 << 40, 0],
    "greatest": [(1 << 63) - 1, 0, 0],
    "negative": [0, -1, 2],
    "negative last": [-N, 0, 0],
    "too negative": [0, 0, -N - 1],
    "least": [-(1 << 63), 0, 0],
}
ZERO_TO = [7, -7, 0, 5]
DIVISIONS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("//", lambda x, y: x // y),
    ("%", lambda x, y: x % y),
    ("fmod", torch.fmod),
    ("remainder of a scalar", lambda x, y: torch.remainder(9, y)),
    ("div floor", lambda x, y: torch.div(x, y, rounding_mode="floor")),
    ("div trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    ("by one number", lambda x, y: x // y[:1]),
)


def module(function: Callable[..., Any], arity: int) -> Any:
    class Three(torch.nn.Module):
        def forward(self, x: Any, i: Any, u: Any) -> Any:
            return function(x, i, u)

    class Two(torch.nn.Module):
        def forward(self, x: Any, i: Any) -> Any:
            return function(x, i)

    return Three() if arity == 3 else Two()


def build(function: Callable[..., Any], args: tuple[Any, ...], **options: Any) -> Any:
    """A program whose number of indices may change."""
    dim = torch.export.Dim("n", max=64)
    shapes = tuple(None if k == 0 and len(args) == 3 else {0: dim} for k, _ in enumerate(args))
    program = torch.export.export(module(function, len(args)), args, dynamic_shapes=shapes)
    return tvm_disc.build(program, options=tvm_disc.Options(**options))


def eager(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What PyTorch gives, or None where it raises."""
    try:
        return function(*args).numpy()
    except (IndexError, RuntimeError):
        return None


@pytest.mark.parametrize(("name", "function"), MEMBERS, ids=[m[0] for m in MEMBERS])
def test_an_index_is_refused_where_eager_refuses_it(
    name: str, function: Callable[..., Any]
) -> None:
    example = (table(), torch.tensor([0, 3, 1]), updates(3))
    program = build(function, example)
    wrong = 0
    for what, index in INDICES.items():
        args = (table(), torch.tensor(index), updates(len(index)))
        want = eager(function, args)
        if want is not None:
            np.testing.assert_allclose(program(*args), want, rtol=1e-6, err_msg=what)
            continue
        wrong += 1
        with pytest.raises(DiscError, match=r"expected .*<= index <") as info:
            program(*args)
        assert isinstance(info.value, IndexError), what
        outside = [k for k in index if not 0 <= k < N]
        assert any(f"found {k}" in str(info.value) for k in outside), (what, str(info.value))
    assert wrong >= 5


@pytest.mark.parametrize(("name", "function"), MEMBERS, ids=[m[0] for m in MEMBERS])
def test_unchecked_indices_stay_inside_memory(name: str, function: Callable[..., Any]) -> None:
    example = (table(), torch.tensor([0, 3, 1]), updates(3))
    program = build(function, example, check_indices=False)
    for index in INDICES.values():
        args = (table(), torch.tensor(index), updates(len(index)))
        got = np.asarray(program(*args))
        assert got.dtype.kind == "i" or not np.isnan(got).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize(("name", "function"), DIVISIONS, ids=[m[0] for m in DIVISIONS])
def test_integers_divided_by_zero(name: str, function: Callable[..., Any], dtype: str) -> None:
    kind = getattr(torch, dtype)
    x = torch.tensor([7, 100, 0, 5], dtype=kind)
    program = build(function, (x, torch.ones_like(x)))
    for divisor in ([1, 2, 3, 100], [100, 7, 5, 1]):
        args = (x, torch.tensor(divisor, dtype=kind))
        np.testing.assert_array_equal(program(*args), function(*args).numpy())
    args = (x, torch.tensor([0, 2, 3, 0], dtype=kind))
    assert eager(function, args) is None
    with pytest.raises(DivisionByZero, match="expected a divisor other than 0") as info:
        program(*args)
    assert isinstance(info.value, ZeroDivisionError)
    assert program(x[:0], x[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize(("name", "function"), DIVISIONS, ids=[m[0] for m in DIVISIONS])
def test_the_least_integer_divided_by_minus_one(
    name: str, function: Callable[..., Any], dtype: str
) -> None:
    """A processor's own division traps there: PyTorch's ``fmod`` ends the process."""
    kind = getattr(torch, dtype)
    x = torch.full((4,), torch.iinfo(kind).min, dtype=kind)
    got = np.asarray(build(function, (x, torch.ones_like(x)))(x, torch.full_like(x, -1)))
    with np.errstate(over="ignore"):
        quotient = (x.numpy() * -1).astype(dtype)  # wraps, as the negation of the least does
    rests = ("%", "fmod", "remainder of a scalar")
    np.testing.assert_array_equal(got, np.zeros(4, dtype) if name in rests else quotient)


def test_the_message_names_operator_input_value_and_limits() -> None:
    program = tvm_disc.build(torch.nn.Embedding(10, 4), example_inputs=(torch.arange(6),))
    text = r"embedding at embedding.*: input 'input': expected 0 <= index < 10, found 99999"
    with pytest.raises(IndexOutside, match=text):
        program(torch.tensor([1, 99999]))
    with pytest.raises(IndexOutside, match="found -7"):
        program(torch.tensor([-7]))
    assert np.asarray(program(torch.tensor([9, 0]))).shape == (2, 4)


def test_an_index_that_is_known_is_refused_by_the_build() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.index_select(x, 1, torch.tensor([0, 9]))

    with torch.no_grad():
        dim = torch.export.Dim("n")
        program = torch.export.export(Fixed(), (torch.rand(3, 12),), dynamic_shapes=({0: dim},))
    tvm_disc.build(program)  # inside
    for node in program.graph.nodes:
        if "index_select" in str(node.target):
            node.args = (node.args[0], 0, node.args[2])
    with pytest.raises(DiscError, match=r"index.*9"):
        tvm_disc.build(program)(torch.rand(3, 12))


def test_positions_that_count_are_checked_by_their_number() -> None:
    class Positions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(8, 4)

        def forward(self, x: Any) -> Any:
            return x + self.table(torch.arange(x.shape[0]))

    dim = torch.export.Dim("n", max=64)
    program = torch.export.export(Positions(), (torch.rand(5, 4),), dynamic_shapes=({0: dim},))
    exe = tvm_disc.build(program)
    assert np.asarray(exe(torch.rand(8, 4))).shape == (8, 4)
    with pytest.raises(DiscError, match="expected less than 8"):
        exe(torch.rand(9, 4))


def test_what_is_proved_costs_no_kernel() -> None:
    def sorted_rows(x: Any, i: Any) -> Any:
        places = x.argsort(0)
        best = x.argmax(0, keepdim=True)
        return torch.gather(x, 0, places), torch.gather(x, 0, best), x[x > i]

    class Sorted(torch.nn.Module):
        def forward(self, x: Any, i: Any) -> Any:
            return sorted_rows(x, i)

    args = (torch.rand(5), torch.tensor(0.5))
    program = torch.export.export(Sorted(), args, dynamic_shapes=({0: torch.export.Dim("n")}, None))
    checked, plain = (
        tvm_disc.build(program, options=tvm_disc.Options(check_indices=c)) for c in (True, False)
    )
    assert checked.explain() == plain.explain()
