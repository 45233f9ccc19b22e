"""Small kernels, each by one template, as CUDA C."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import tvm_disc
import tvm_disc.codegen.build
from tests.cuda.attention.forced import only_attention
from tests.cuda.forced import only_rows, only_strips, only_sums, only_tile
from tests.cuda.helpers import noise
from tests.cuda.tensor.forced import only_tensor_tile
from tests.models import function, rows
from tests.schedules.attention.cases import FACTS, attend, qkv
from tvm_disc import relay
from tvm_disc.schedules.cuda.attention.tile import FlashKnobs
from tvm_disc.schedules.cuda.reduce import ReduceKnobs
from tvm_disc.schedules.cuda.rows.template import RowKnobs
from tvm_disc.schedules.cuda.tensor.tile import TensorKnobs
from tvm_disc.schedules.cuda.tile import TileKnobs

FOLDER = Path(__file__).parent


class _Enough(Exception):
    """The text is there; nothing is to be compiled."""


@dataclass(frozen=True)
class Case:
    """A program, and which of its device functions is kept."""

    name: str
    program: Callable[[], Any]
    number: int = 1
    forced: Callable[[], AbstractContextManager[None]] = nullcontext
    facts: Sequence[str] = ()


def _relu() -> Any:
    x = rows("n")
    return function(x, relay.nn.relu(x))


def _bias() -> Any:
    x, y = rows("n", "m"), rows("m", name="y")
    return function(x, y, relay.add(x, y))


def _softmax() -> Any:
    x = rows("n", "m")
    return function(x, relay.nn.softmax(x))


def _columns() -> Any:
    x = rows("n", "m")
    return function(x, relay.nn.softmax(x, axis=0))


def _matmul() -> Any:
    x, y = rows("m", "k"), rows("k", "n", name="y")
    return function(x, y, relay.nn.relu(relay.nn.matmul(x, y)))


def _bfloat16() -> Any:
    x, y = rows("m", "k", dtype="bfloat16"), rows("k", "n", name="y", dtype="bfloat16")
    return function(x, y, relay.nn.relu(relay.nn.matmul(x, y)))


def _vector() -> Any:
    x, y = rows(1, "k"), rows("k", "n", name="y")
    return function(x, y, relay.nn.matmul(x, y))


def _pool() -> Any:
    x = rows("n", 3, "h", "w")
    return function(x, relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1)))


def _channels_last() -> Any:
    x = rows("n", "h", "w", 8)
    attrs = {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": (1, 1)}
    weight = relay.const(noise(3, 3, 8, 64))
    return function(x, relay.nn.conv2d(x, weight, channels=64, kernel_size=(3, 3), **attrs))


def _attention() -> Any:
    inputs = qkv(64, 64)
    return relay.Function(inputs, attend(*inputs))


SMALL = TileKnobs(32, 32, 16, 4, 4)
TENSOR = TensorKnobs(32, 32, 32, 1, 2, 3)
CASES = (
    Case("relu", _relu),
    Case("bias", _bias),
    Case("softmax", _softmax, 1, lambda: only_rows(RowKnobs(256))),
    Case("softmax_held", _softmax, 2, lambda: only_rows(RowKnobs(32))),
    Case("softmax_columns", _columns, 1, lambda: only_rows(RowKnobs(8, columns=32))),
    Case("matmul", _matmul, 1, lambda: only_tile(SMALL)),
    Case("matmul_bfloat16", _bfloat16, 1, lambda: only_tensor_tile(TENSOR)),
    Case("attention", _attention, 1, lambda: only_attention(FlashKnobs(32, 32, 4, 4)), FACTS),
    Case("vector", _vector, 1, lambda: only_sums(ReduceKnobs(8, columns=32))),
    Case("pool", _pool, 0, only_strips),
    Case("conv_channels_last", _channels_last, 1, lambda: only_tile(SMALL)),
)


def path(case: Case) -> Path:
    """Where the text is kept."""
    return FOLDER / f"{case.name}.cu"


def text(case: Case) -> str:
    """The device function, with what every line repeats left out."""
    sources: list[str] = []

    def keep(source: str, architectures: Any) -> None:
        sources.append(source)
        raise _Enough

    place, options = tvm_disc.codegen.build, tvm_disc.Options(cache=False, progress=False)
    with (
        mock.patch.object(place, "compile_source", keep),
        case.forced(),
        contextlib.suppress(_Enough),
    ):
        tvm_disc.build(case.program(), target="cuda", constraints=case.facts, options=options)
    found = [f for f in sources[0].split('extern "C" __global__ ')[1:] if ") {" in f]
    return readable(found[case.number])


def readable(source: str) -> str:
    """Without casts of literals, alignment, and cells that hold one value for a moment."""
    source = re.sub(r"\(int64_t\)(\d+)", r"\1", source)
    source = re.sub(r"0x[\da-f.]+p[+-]\d+f?/\*([-\d.e+]+)\*/", r"\1", source)
    source = source.replace("alignas(64) ", "")
    source = re.sub(
        r"( *)\w+ (\w+_ptr\w*)\[1\];\n *\2\[0\] = (.*);\n *(\w+) (\w+) = \2\[0\];\n",
        r"\1\4 \5 = \3;\n",
        source,
    )
    return source.strip() + "\n"
