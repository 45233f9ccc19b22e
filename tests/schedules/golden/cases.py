"""The cases: for every template a small group that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tvm import relax

from tests.models import function, rows
from tests.schedules.golden.readable import readable
from tvm_disc import relay
from tvm_disc.codegen.plan.kernels import KernelLibrary
from tvm_disc.codegen.target import resolve_target
from tvm_disc.compile import fused_graph
from tvm_disc.options import Options
from tvm_disc.schedules.dispatch.shipped import memory_for, model_for
from tvm_disc.schedules.group import Machine
from tvm_disc.schedules.kernel import Kernel
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.target.processor import processor_of

FOLDER = Path(__file__).parent
# Described, not this machine: tables know its registers and caches.
TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3"


@dataclass(frozen=True)
class Case:
    """A program of one kernel.

    Attributes:
        name: of the case and its text.
        template: that takes it, by the name that policy has for it.
        program: makes the module.
        constraints: on its dims.
        outline: whether the text shows loops, branches and stores alone.
    """

    name: str
    template: str
    program: Callable[[], Any]
    constraints: tuple[str, ...] = ()
    outline: bool = False


def machine() -> Machine:
    """The described machine, one thread."""
    processor = processor_of(resolve_target(TARGET))
    return Machine(processor.isa, 1, model_for(processor), memory=memory_for(processor))


def kernels(case: Case) -> list[Kernel]:
    """The kernels of a case, as a build would choose them."""
    options = Options(versions=False, progress=False)
    graph = fused_graph(case.program(), None, case.constraints, options, Trace(0, None))
    library = KernelLibrary(Solver, machine(), {})
    for gv, func in graph.versions[-1].mod.functions_items():
        if isinstance(func, relax.Function) and "disc.kind" in (func.attrs or ()):
            library.kernel(gv, func)
    return library.kernels()


@cache
def the_kernel(case: Case) -> Kernel:
    """The kernel of a case, which has one."""
    (kernel,) = kernels(case)
    return kernel


def text(case: Case) -> str:
    """What is kept of a case: who refused it, how a variant is chosen, and the code."""
    return "\n".join(_lines(the_kernel(case), case.outline)) + "\n"


def _lines(kernel: Kernel, outline: bool) -> Iterator[str]:
    for key, value in kernel.notes.items():
        yield f"# {key}: {value}".replace("\n", "\n# ")
    for gv, func in kernel.funcs.items():
        params = ", ".join(str(p.name) for p in func.params)
        yield f"\n{gv.name_hint}({params}):"
        yield readable(func.script(), outline)


def path(case: Case) -> Path:
    """Where its text is kept."""
    return FOLDER / f"{case.name}.tir"


def _weight(*shape: int) -> Any:
    return relay.const(np.ones(shape, "float32"))


def _relu() -> Any:
    x = rows("n", "m")
    return function(x, relay.nn.relu(x))


def _broadcast() -> Any:
    x, y = rows("n", "m"), rows("m", name="y")
    return function(x, y, relay.add(x, y))


def _joined() -> Any:
    x, y = rows("n", 2), rows("n", 3, name="y")
    return function(x, y, relay.concatenate([x, y], axis=1))


def _runs() -> Any:
    x, y = rows("n", "m", name="x"), rows("n", "k", name="y")
    return function(x, y, relay.concatenate([x, y], axis=1))


def _transpose() -> Any:
    x = rows("n", "m")
    return function(x, relay.transpose(x))


def _interleave() -> Any:
    x = rows(3, "n")
    return function(x, relay.transpose(x))


def _softmax() -> Any:
    x = rows("n", 8)
    return function(x, relay.nn.softmax(x))


def _row_sums() -> Any:
    x = rows("n", "m")
    return function(x, relay.sum(x, axis=1))


def _column_sums() -> Any:
    x = rows("n", "m")
    return function(x, relay.sum(x, axis=0))


def _dense() -> Any:
    x = rows("n", 8)
    dense = relay.nn.dense(x, _weight(8, 8))
    return function(x, relay.nn.relu(relay.nn.bias_add(dense, _weight(8))))


def _quantized_weights() -> Any:
    x, numbers = rows("n", 256), relay.const(np.ones((256, 256), "int8"))
    weight = relay.multiply(relay.cast(numbers, "float32"), relay.const(np.float32(0.5)))
    return function(x, relay.nn.dense(x, weight))


def _matmul() -> Any:
    a, b = rows("m", "k", name="a"), rows("k", "n", name="b")
    return function(a, b, relay.nn.matmul(a, b))


def _integers() -> Any:
    a, b = rows("m", 4, name="a", dtype="int64"), rows(4, 3, name="b", dtype="int64")
    return function(a, b, relay.nn.matmul(a, b))


def _attention() -> Any:
    q, k, v = (rows(4, "s", 8, name=name) for name in "qkv")
    scores = relay.nn.batch_matmul(q, k)
    return function(q, k, v, relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False))


def _masked_attention() -> Any:
    q, k, v = (rows(4, "s", 8, name=name) for name in "qkv")
    mask = rows(1, "s", "s", name="mask")
    scores = relay.add(relay.nn.batch_matmul(q, k), mask)
    made = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
    return function(q, k, v, mask, made)


def _padded_conv() -> Any:
    x = rows("n", 8, "h", "w")
    sizes: dict[str, Any] = {"channels": 8, "kernel_size": (3, 3), "padding": (1, 1)}
    return function(x, relay.nn.conv2d(x, _weight(8, 8, 3, 3), **sizes))


def _conv(groups: int = 1, last: bool = False) -> Any:
    """3 x 3 over images of 8 channels, which lie last or before the pixels."""
    x = rows("n", 6, 6, 8) if last else rows("n", 8, 6, 6)
    sizes: dict[str, Any] = {"channels": 8, "kernel_size": (3, 3), "groups": groups}
    if not last:
        return function(x, relay.nn.conv2d(x, _weight(8, 8 // groups, 3, 3), **sizes))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO" if groups < 8 else "HWOI"}
    weight = _weight(3, 3, 8 // groups, 8) if groups < 8 else _weight(3, 3, 8, 1)
    return function(x, relay.nn.conv2d(x, weight, **sizes, **layouts))


def _depthwise_bytes() -> Any:
    x = relay.var("x", shape=(relay.Any("n"), 6, 6, 8), dtype="uint8")
    layouts = {"data_layout": "NHWC", "kernel_layout": "OIHW", "out_dtype": "int32"}
    sizes: dict[str, Any] = {"channels": 8, "kernel_size": (3, 3), "groups": 8}
    weight = relay.const(np.ones((8, 1, 3, 3), "int8"))
    return function(x, relay.nn.conv2d(x, weight, **sizes, **layouts))


def _winograd() -> Any:
    x = rows("n", 6, 6, 16)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    sizes: dict[str, Any] = {"channels": 16, "kernel_size": (3, 3), "padding": (1, 1)}
    return function(x, relay.nn.conv2d(x, _weight(3, 3, 16, 16), **sizes, **layouts))


def _pool(stride: int) -> Any:
    x = rows("n", 4, 8, 8)
    return function(x, relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(stride, stride)))


def _scatter() -> Any:
    x, i, u = rows("n", 4), rows("k", 4, name="i", dtype="int64"), rows("k", 4, name="u")
    return function(x, i, u, relay.scatter_elements(x, i, u, axis=0))


def _argsort() -> Any:
    x = rows("n", "m")
    return function(x, relay.argsort(x, dtype="int64"))


def _topk() -> Any:
    x = rows("n", 96)
    return function(x, relay.topk(x, 3, ret_type="indices", dtype="int64"))


def _search() -> Any:
    x, v = rows("n"), rows("k", name="v")
    return function(x, v, relay.searchsorted(x, v, dtype="int64"))


def _pool_grad() -> Any:
    x, grad = rows("n", 4, 8, 8), rows("n", 4, 4, 4, name="grad")
    sizes = {"pool_size": (2, 2), "strides": (2, 2)}
    return function(x, grad, relay.nn.max_pool2d_grad(grad, x, **sizes))


CASES: tuple[Case, ...] = (
    Case("relu", "loop", _relu),
    Case("broadcast", "loop", _broadcast, outline=True),
    Case("joined", "loop", _joined),
    Case("runs", "loop", _runs),
    Case("whole_vectors", "loop", _relu, ("m == 64",)),
    Case("transpose", "transpose", _transpose, outline=True),
    Case("interleave", "interleave", _interleave),
    Case("softmax", "row", _softmax, outline=True),
    Case("row_sums", "row", _row_sums, outline=True),
    Case("column_sums", "row", _column_sums),
    Case("dense", "gemm", _dense),
    Case("matmul", "gemm", _matmul, outline=True),
    Case("quantized_weights", "gemm", _quantized_weights, outline=True),
    Case("integers", "reduce", _integers),
    Case("attention", "attention", _attention, outline=True),
    Case("attention_masked", "attention", _masked_attention, outline=True),
    Case("conv", "implicit gemm", _conv, outline=True),
    Case("conv_padded", "implicit gemm", _padded_conv, outline=True),
    Case("conv_channels_last", "pixel gemm", lambda: _conv(last=True), outline=True),
    Case("conv_direct", "channel window", lambda: _conv(2, last=True), outline=True),
    Case("winograd", "winograd", _winograd, outline=True),
    Case("depthwise", "window tile", lambda: _conv(groups=8), outline=True),
    Case("depthwise_channels_last", "channel window", lambda: _conv(8, last=True), outline=True),
    Case("depthwise_bytes", "channel window", _depthwise_bytes, outline=True),
    Case("pool", "window tile", lambda: _pool(2), outline=True),
    Case("pool_stride_3", "window", lambda: _pool(3)),
    Case("scatter", "scatter", _scatter),
    Case("argsort", "sort", _argsort),
    Case("topk", "sort", _topk),
    Case("search", "search", _search),
    Case("pool_grad", "special", _pool_grad),
)
