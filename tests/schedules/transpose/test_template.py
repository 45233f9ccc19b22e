"""The transpose template against NumPy: ranks, permutations, dtypes, edges of tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_disc import relay
from tvm_disc.codegen.target import resolve_target
from tvm_disc.compile import build
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.schedules.dispatch.cost_model import Memory
from tvm_disc.target.isa import isa_of
from tvm_disc.tir.llvm_ops import LANES, streams


def program(params: str, body: str) -> Executable:
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{\n  {body}\n}}\n'
    return build(text, options=Options(threads=2))


def tensor(rank: int, dtype: str = "float32", name: str = "x") -> str:
    return f"%{name}: Tensor[({', '.join('?' * rank)}), {dtype}]"


SHAPES = [
    (1, 1),
    (1, 40),
    (40, 1),
    (3, 5),
    (16, 16),
    (15, 17),
    (64, 128),
    (100, 7),
    (70, 1300),
    (0, 3),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_matrix(dtype: str, rng: np.random.Generator) -> None:
    run = program(tensor(2, dtype), "transpose(%x, axes=[1, 0])")
    if dtype not in ("bool", "float16"):
        assert "template: transpose" in run.explain()
    for shape in SHAPES:
        x = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        np.testing.assert_array_equal(run(x), x.T)


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 1, 0), (1, 0, 2)])
def test_rank_three(axes: tuple[int, ...], rng: np.random.Generator) -> None:
    run = program(tensor(3), f"transpose(%x, axes={list(axes)})")
    for shape in [(1, 1, 1), (2, 3, 5), (17, 4, 33), (3, 40, 50), (64, 2, 20), (2, 0, 3)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        np.testing.assert_array_equal(run(x), x.transpose(axes))


@pytest.mark.parametrize("axes", [(0, 3, 1, 2), (0, 2, 1, 3)])
def test_rank_four_and_work_around_it(axes: tuple[int, ...], rng: np.random.Generator) -> None:
    run = program(tensor(4), f"multiply(abs(transpose(nn.relu(%x), axes={list(axes)})), 2f)")
    assert len(run.kernels) == 1
    for shape in [(2, 7, 9, 3), (1, 16, 16, 32), (3, 5, 1, 40)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        expected = np.maximum(x, 0).transpose(axes) * 2
        np.testing.assert_allclose(run(x), expected, rtol=1e-5)


def test_rows_of_one_value(rng: np.random.Generator) -> None:
    """A row that holds one element everywhere is read once, not as a vector."""
    text = '#[version = "0.0.5"]\n'
    text += f"def @main(%x: Tensor[(?, 1), float32], {tensor(2, name='y')}) {{\n"
    text += (
        "  add(transpose(broadcast_to_like(%x, %y), axes=[1, 0]), transpose(%y, axes=[1, 0]))\n}\n"
    )
    run = build(text, constraints=["x.0 == y.0"], options=Options(threads=2))
    assert "template: transpose" in run.explain()
    for shape in SHAPES:
        y = rng.standard_normal(shape, dtype=np.float32)
        x = rng.standard_normal((shape[0], 1), dtype=np.float32)
        np.testing.assert_allclose(run(x, y), (x + y).T, rtol=1e-6)


def test_sum_of_a_matrix_and_its_transpose(rng: np.random.Generator) -> None:
    text = f'#[version = "0.0.5"]\ndef @main({tensor(2)}, {tensor(2, name="y")}) {{\n'
    text += "  add(transpose(%x, axes=[1, 0]), %y)\n}\n"
    run = build(text, constraints=["y.0 == x.1", "y.1 == x.0"], options=Options(threads=2))
    for shape in SHAPES:
        x, y = rng.standard_normal(shape), rng.standard_normal(shape[::-1])
        x, y = x.astype("f"), y.astype("f")
        np.testing.assert_allclose(run(x, y), x.T + y, rtol=1e-6)


def test_large_results_are_streamed(rng: np.random.Generator) -> None:
    """Rows on cache lines or not, a result in place of ours that starts off a line, threads."""
    run = program(tensor(2), "transpose(%x, axes=[1, 0])")
    for shape in [(1024, 1025), (1024, 800), (1023, 1040), (16, 60000), (60000, 17)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        np.testing.assert_array_equal(run(x), x.T)
    # Tiles where a register fills a line; a side of one, which is a copy, on AVX2 as well.
    assert ("vmovnt" in run.source("asm")) == streams(isa_of(resolve_target()), LANES)


def test_numbers_of_eight_bytes_are_not_streamed(rng: np.random.Generator) -> None:
    run = program(tensor(2, "float64"), "transpose(%x, axes=[1, 0])")
    assert "vmovnt" not in run.source("asm")
    x = rng.standard_normal((1040, 528))
    np.testing.assert_array_equal(run(x), x.T)


@pytest.mark.parametrize("offset_bytes", [0, 4, 16, 60])
@pytest.mark.parametrize("of_operand", [0, 16, 44])
def test_anywhere_in_a_line_of_cache(
    offset_bytes: int, of_operand: int, rng: np.random.Generator
) -> None:
    """Tiles lie on the lines of both sides, and nothing is written beside the result."""
    run = program(tensor(2), "transpose(%x, axes=[1, 0])")
    shapes = [(16, 17), (256, 16), (16, 256), (272, 33), (33, 272), (300, 40)]
    for shape in [*shapes, (1024, 784), (1040, 801)]:
        x, _, _ = placed(shape, of_operand)
        x[...] = rng.standard_normal(shape, dtype=np.float32)
        out, room, begin = placed(shape[::-1], offset_bytes)
        run(x, out=out)
        np.testing.assert_array_equal(out, x.T)
        assert (room[:begin] == 0xA5).all() and (room[begin + x.nbytes :] == 0xA5).all()


@pytest.mark.parametrize("run_tiles", [0, 1, 3, 32])
@pytest.mark.parametrize("stream_bytes", [1 << 12, 1 << 40])
def test_whichever_way_memory_wants_it(
    run_tiles: int, stream_bytes: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs along either side, alone and with other work around, past the caches or not."""
    memory = Memory(run_tiles=run_tiles, stream_bytes=stream_bytes)
    monkeypatch.setattr("tvm_disc.codegen.machine.memory_for", lambda processor: memory)
    moved = program(tensor(2), "transpose(%x, axes=[1, 0])")
    more = program(tensor(2), "nn.relu(transpose(nn.relu(%x), axes=[1, 0]))")
    sides = [1, 4, 8, 11, 15, 16, 17, 32, 33, 64, 100, 257, 528]
    for shape in [(a, b) for a in sides for b in sides]:
        x = rng.standard_normal(shape, dtype=np.float32)
        np.testing.assert_array_equal(moved(x), x.T)
        np.testing.assert_array_equal(more(x), np.maximum(x, 0).T)


@pytest.mark.parametrize("side", [5, 8, 12, 15])
def test_a_side_of_known_length(side: int, rng: np.random.Generator) -> None:
    """A bias of attention: positions x positions x heads, moved to the front."""
    kind = f"%x: Tensor[(?, ?, {side}), float32]"
    back = f"%x: Tensor[({side}, ?, ?), float32]"
    run = program(kind, "transpose(%x, axes=[2, 0, 1])")
    again = program(back, "transpose(%x, axes=[1, 2, 0])")
    for shape in [(1, 1, side), (7, 1, side), (1, 16, side), (33, 33, side), (128, 97, side)]:
        x = rng.standard_normal(shape, dtype=np.float32)
        moved = run(x)
        np.testing.assert_array_equal(moved, x.transpose(2, 0, 1))
        np.testing.assert_array_equal(again(np.ascontiguousarray(moved)), x)


def placed(shape: tuple[int, ...], offset_bytes: int) -> tuple[np.ndarray, np.ndarray, int]:
    """An array so many bytes into a line, the memory around it, and where in that it begins."""
    size = 4 * int(np.prod(shape))
    room = np.full(size + 4096, 0xA5, np.uint8)
    begin = 1024 + (-room.ctypes.data) % 64 + offset_bytes
    return room[begin : begin + size].view("float32").reshape(shape), room, begin


@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_tiles_are_selected(level: str, dtype: str) -> None:
    """Tiles of whole registers, for all sides of 8 or more. Small masked tiles took four times as
    long on a Zen 5 at both levels.
    """
    x = relay.var("x", shape=(relay.Any("n"), relay.Any("m")), dtype=dtype)
    made = relay.Function([x], relay.transpose(x))
    exe = build(made, target=f"llvm -mcpu={level}", options=Options(threads=1))
    for n, m in ((8, 8), (9, 3000), (16, 16), (17, 40), (100, 300), (1000, 2000)):
        (tree,) = exe.dispatch.values()
        while "if" in tree:
            value = eval(tree["if"], {"n": n, "m": m, "min": min})
            tree = tree["then"] if value < tree["below"] else tree["else"]
        assert tree["run"]["knobs"]["walk"] == "tiles", (n, m)
