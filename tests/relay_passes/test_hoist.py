"""Recurrent cells in a loop: what a step costs, and which half of it leaves the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import Options, relay

FEATURES = 5
LENGTHS = (0, 1, 2, 7, 33)

LSTM = """
      let %g = split(%z, indices_or_sections=4, axis=1);
      let %m = add(multiply(sigmoid(%g.1), %c), multiply(sigmoid(%g.0), tanh(%g.2)));
      let %o = multiply(sigmoid(%g.3), tanh(%m));
      %while_loop({next}, %o, %m, %n, %xv)"""
GRU = """
      let %i = split(%y, indices_or_sections=3, axis=1);
      let %k = split(%w, indices_or_sections=3, axis=1);
      let %r = sigmoid(add(%i.0, %k.0));
      let %u = sigmoid(add(%i.1, %k.1));
      let %f = tanh(add(%i.2, multiply(%r, %k.2)));
      let %o = add(multiply(subtract(%h, %f), %u), %f);
      %while_loop({next}, %o, %c, %n, %xv)"""


def program(
    cell: str, gates: int, width: int, begin: str = "0", following: str = "add(%t, 1)", n: str = ""
) -> str:
    """A loop over the rows of ``xs``; ``n`` replaces the number of rows as its end."""
    state = f"Tensor[(1, {width}), float32]"
    rows = f"Tensor[(?, 1, {FEATURES}), float32]"
    weights = f"%wx: Tensor[({gates * width}, {FEATURES}), float32]"
    weights += f", %wh: Tensor[({gates * width}, {width}), float32]"
    weights += f", %b: Tensor[({gates * width}), float32]"
    end = n or 'take(shape_of(%xs, dtype="int32"), 0)'
    extra = ", %end: int32" if n else ""
    return f"""#[version = "0.0.5"]
def @main(%xs: {rows}, {weights}{extra}) {{
  let %s = zeros(shape=[1, {width}], dtype="float32");
  let %e = {end};
  let %l = (
    let %while_loop = fn (%t: int32, %h: {state}, %c: {state}, %n: int32, %xv: {rows}) {{
      let %a = less(%t, %n);
      if (%a) {{
      let %x = take(%xv, %t, axis=0);
      let %y = nn.bias_add(nn.dense(%x, %wx, units=None), %b);
      let %w = nn.dense(%h, %wh, units=None);
      let %z = add(%y, %w);{cell.format(next=following)}
      }} else {{
        (%t, %h, %c, %n, %xv)
      }}
    }};
    %while_loop
  );
  let %q = %l({begin}, %s, %s, %e, %xs);
  (%q.1, %q.2)
}}
"""


def weights(gates: int, width: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(gates)
    shapes = {"wx": (gates * width, FEATURES), "wh": (gates * width, width), "b": (gates * width,)}
    return {k: (rng.standard_normal(s) * 0.5).astype("float32") for k, s in shapes.items()}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def lstm(xs: np.ndarray, w: dict[str, np.ndarray], width: int) -> list[np.ndarray]:
    h = c = np.zeros((1, width))
    for x in xs:
        i, f, g, o = np.split(x @ w["wx"].T + w["b"] + h @ w["wh"].T, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return [h, c]


def gru(xs: np.ndarray, w: dict[str, np.ndarray], width: int) -> list[np.ndarray]:
    h = np.zeros((1, width))
    for x in xs:
        i = np.split(x @ w["wx"].T + w["b"], 3, axis=1)
        k = np.split(h @ w["wh"].T, 3, axis=1)
        r, u = sigmoid(i[0] + k[0]), sigmoid(i[1] + k[1])
        f = np.tanh(i[2] + r * k[2])
        h = (h - f) * u + f
    return [h, np.zeros((1, width))]


CELLS = {"lstm": (LSTM, 4, lstm), "gru": (GRU, 3, gru)}


def build(text: str, params: dict[str, np.ndarray] | None) -> Any:
    return tvm_disc.build(relay.parse(text), params=params, options=Options(threads=1))


def in_loop(exe: Any) -> list[str]:
    """The kernels from the test of the counter on: those that a step calls."""
    names = [name.rpartition("_")[0] for name in exe.launches]
    return list(names[names.index("loop_less") :])


@pytest.mark.parametrize("width", [8, 19])
@pytest.mark.parametrize("name", CELLS)
def test_a_step_is_one_product_and_its_gates(name: str, width: int) -> None:
    cell, gates, reference = CELLS[name]
    exe = build(program(cell, gates, width), weights(gates, width))
    assert [n for n in in_loop(exe) if n.startswith("dot")] == ["dot_matmul"]
    assert len(in_loop(exe)) <= 5
    for length in LENGTHS:
        xs = np.random.default_rng(length).standard_normal((length, 1, FEATURES)).astype("float32")
        for got, want in zip(exe(xs), reference(xs, weights(gates, width), width), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


KEPT = {
    "some rows are not visited": {"begin": "1"},
    "every other row is visited": {"following": "add(%t, 2)"},
    "the end is not known": {"n": "%end"},
}


@pytest.mark.parametrize("case", KEPT)
def test_stays_in_the_loop_where(case: str) -> None:
    exe = build(program(LSTM, 4, 8, **KEPT[case]), weights(4, 8))
    assert [n for n in in_loop(exe) if n.startswith("dot")] == ["dot_matmul"] * 2
    xs = np.random.default_rng(0).standard_normal((9, 1, FEATURES)).astype("float32")
    visited = {"begin": xs[1:], "following": xs[::2], "n": xs[:4]}[next(iter(KEPT[case]))]
    got = exe(xs, np.array(4, "int32")) if "n" in KEPT[case] else exe(xs)
    for found, wanted in zip(got, lstm(visited, weights(4, 8), 8), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_stays_in_the_loop_where_the_weight_is_an_input() -> None:
    given = weights(4, 8)
    exe = build(program(LSTM, 4, 8), None)
    assert [n for n in in_loop(exe) if n.startswith("dot")] == ["dot_matmul"] * 2
    xs = np.random.default_rng(0).standard_normal((3, 1, FEATURES)).astype("float32")
    for found, wanted in zip(exe(xs=xs, **given), lstm(xs, given, 8), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
