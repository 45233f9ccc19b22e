"""Products on tensor cores: types, layouts, edges of tiles, alignment, epilogues, refusals."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

import tvm_disc
from tests.cuda.tensor.forced import (
    DTYPES,
    built,
    check_layouts,
    layouts,
    numbers,
    only_tensor_tile,
)
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda.tensor.template import TILES
from tvm_disc.schedules.cuda.tensor.tile import TensorKnobs

# (m, n, k): 1, a prime, a tile, more than one; multiples of eight in all dims; nothing to add.
SIZES = ((1, 1, 1), (5, 3, 7), (64, 128, 64), (72, 136, 200), (130, 66, 33), (3, 8, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_layout(gpu: ctypes.CDLL, tile: TensorKnobs, dtype: str) -> None:
    """Operands by rows and by columns, in a batch, with an epilogue."""
    with only_tensor_tile(tile):
        program, code = built(layouts(dtype))
    # each product element by element, and with asynchronous copies
    assert len(code) == 6 and sum("disc_tensor_copy" in t for t in code) == 3
    check_layouts(gpu, program, dtype, SIZES)


def test_computed_operands(gpu: ctypes.CDLL) -> None:
    """A transposed operand, which is read element by element if its rows are not adjacent."""
    x = rows("m", "a", "k", dtype="float16")
    y = rows("c", "n", name="y", dtype="float16")
    sliced = relay.reshape(relay.strided_slice(x, [0, 0, 1], [1 << 30, 1 << 30, 1 << 30]), (-1, 15))
    with only_tensor_tile(TILES[0]):
        program = tvm_disc.build(
            function(x, y, relay.nn.matmul(sliced, y)), target="cuda", constraints=["x.2 == 16"]
        )
    a, b = numbers("float16", 3, 5, 16), numbers("float16", 15, 24)
    wanted = a[:, :, 1:].reshape(-1, 15).astype("f8") @ b.astype("f8")
    np.testing.assert_allclose(program(a, b), wanted, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(
    ("dtypes", "result", "tf32", "target", "reason"),
    [
        (("float32", "float32"), "float32", False, "cuda", "Options(tf32=True) allows them"),
        (
            ("int8", "int8"),
            "int32",
            True,
            "cuda",
            "they require float16 or bfloat16 operands: found int8",
        ),
        (
            ("float16", "float16"),
            "float16",
            True,
            "cuda -arch=sm_75",
            "they require sm_80 or newer",
        ),
        (
            ("float64", "float64"),
            "float64",
            True,
            "cuda",
            "they require float16 or bfloat16 operands: found float64",
        ),
    ],
)
def test_refusals_are_explained(
    dtypes: tuple[str, str], result: str, tf32: bool, target: str, reason: str
) -> None:
    x, y = rows("m", 64, dtype=dtypes[0]), rows(64, 64, name="y", dtype=dtypes[1])
    made = relay.nn.matmul(x, y, out_dtype=result)
    program = tvm_disc.build(
        function(x, y, made), target=target, options=tvm_disc.Options(tf32=tf32)
    )
    assert reason in program.explain()


MISTAKES = {
    "a wait": ("instructions.Instructions.wait", "lambda self, groups: None"),
    "a barrier": ("instructions.DeviceBlock.barrier", "lambda self: None"),
    "a meeting of a warp": ("instructions.Instructions.meet", "lambda self: None"),
}
SCRIPT = """
from unittest import mock
from tests.cuda import emulator
from tests.cuda.tensor.forced import built, numbers, only_tensor_tile
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.schedules.cuda.tensor.template import TILES
x, y = rows("m", "k", dtype="bfloat16"), rows("k", "n", name="y", dtype="bfloat16")
path, replacement = {mistake!r}
with emulator.emulated() as gpu, only_tensor_tile(TILES[0]):
    with mock.patch("tvm_disc.schedules.cuda.tensor." + path, eval(replacement)):
        program, _ = built(function(x, y, relay.nn.matmul(x, y)))
    a, b = numbers("bfloat16", 64, 512), numbers("bfloat16", 512, 64)
    wanted = a.astype("f8") @ b.astype("f8")
    for order in (0, 1, 5):
        gpu.emulated_order(order)
        found = program(a, b).astype("f8")
        if not abs(found - wanted).max() < 1:
            raise SystemExit(7)
"""


@pytest.mark.parametrize("name", MISTAKES)
def test_the_emulator_finds_missing_synchronisation(name: str) -> None:
    script = SCRIPT.format(mistake=MISTAKES[name])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode in (7, -6), done.stderr.decode()[-2000:]
