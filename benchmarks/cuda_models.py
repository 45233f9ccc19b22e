"""Whole models on a GPU, compared to PyTorch: eager, and ``torch.compile`` with dynamic shapes.

    python -m benchmarks.cuda_models bert|gpt2|resnet50|decoder [--target T] [--tf32] [--half]
        [--lock FILE] [--records FILE]

The weights are random, the types float32, or bfloat16 with ``--half``. Our program is built once
from the exported module; ``torch.compile(dynamic=True)`` compiles the same module. Its dims are
marked as unbacked, so that PyTorch cannot specialise on a size; if it refuses this, they are marked
as dynamic. The table prints which mark is used. The engines alternate at each shape. A time is that
of consecutive calls that take 30 ms, including a final synchronisation; the median of the rounds is
printed. ``host`` is the time until the last call returns, ``graph`` our program with CUDA graphs.
Results are compared with those of eager PyTorch. ``--lock`` is a file that is locked while the GPU
is timed, so that several of these commands can compile at the same time. Without a GPU the command
prints an error and exits with 2.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Shape = tuple[int, ...]
SHAPES: dict[str, tuple[Shape, ...]] = {
    "bert": ((1, 16), (1, 128), (1, 384), (4, 64), (8, 128), (32, 128), (16, 384)),
    "gpt2": ((1, 16), (1, 128), (1, 512), (8, 128), (16, 256)),
    "resnet50": ((1, 224, 224), (1, 160, 215), (8, 224, 224), (32, 192, 192)),
    "decoder": ((1, 1), (1, 128), (1, 1024), (8, 512), (32, 1024)),
}
LAYERS, HEADS, GROUPS, WIDTH = 12, 12, 4, 768
SAMPLE_S, ROUNDS = 0.03, 5
Call = Callable[[], Any]


def decoder() -> Any:
    """Return one step of a LLaMA-like decoder: states [b, 1, 768] over caches [b, 4, s, 64]."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(WIDTH, WIDTH, bias=False)
            self.kv = nn.Linear(WIDTH, 2 * GROUPS * WIDTH // HEADS, bias=False)
            self.o = nn.Linear(WIDTH, WIDTH, bias=False)
            self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
            self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            b, size = x.shape[0], WIDTH // HEADS
            h = self.first(x)
            q = self.q(h).view(b, 1, HEADS, size).transpose(1, 2)
            new = self.kv(h).view(b, 1, 2, GROUPS, size)
            keys = torch.cat([keys, new[:, :, 0].transpose(1, 2)], 2)
            values = torch.cat([values, new[:, :, 1].transpose(1, 2)], 2)
            seen = nn.functional.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
            x = x + self.o(seen.transpose(1, 2).reshape(b, 1, WIDTH))
            return x + self.down(nn.functional.silu(self.up(self.second(x)))), keys, values

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

        def forward(self, x: Any, keys: list[Any], values: list[Any]) -> Any:
            found = []
            for k, layer in enumerate(self.layers):
                x, key, value = layer(x, keys[k], values[k])
                found += [key, value]
            return x, *found

    torch.manual_seed(0)
    return Decoder().eval()


@dataclass
class Model:
    """A module on the CPU, the inputs of a shape, and its dynamic dims for ``torch.export``.

    ``varying`` lists the axes of each input that vary.
    """

    module: Any
    inputs: Callable[[Shape], tuple[Any, ...]]
    dims: Any
    varying: Callable[[tuple[Any, ...]], Iterator[tuple[Any, tuple[int, ...]]]]


def model_of(name: str) -> Model:
    """Return the model of a name."""
    import torch
    from torch.export import Dim

    if name == "decoder":
        b, s = Dim("b"), Dim("s")
        caches = [{0: b, 2: s}] * LAYERS

        def inputs(shape: Shape) -> tuple[Any, ...]:
            torch.manual_seed(sum(shape))
            cache = (shape[0], GROUPS, shape[1], WIDTH // HEADS)
            made = [[torch.randn(cache) for _ in range(LAYERS)] for _ in range(2)]
            return torch.randn(shape[0], 1, WIDTH), *made

        def varying(args: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[int, ...]]]:
            yield args[0], (0,)
            yield from ((t, (0, 2)) for side in args[1:] for t in side)

        return Model(decoder(), inputs, ({0: b}, caches, caches), varying)
    from benchmarks.full_models import TEXTS, inputs_of, module_of

    text = name in TEXTS
    axes = (0, 1) if text else (0, 2, 3)
    limit = {"bert": 512, "gpt2": 1024}.get(name)
    named = (
        {0: Dim("b"), 1: Dim("s", max=limit)}
        if text
        else {0: Dim("b"), 2: Dim("h", min=32), 3: Dim("w", min=32)}
    )
    return Model(
        module_of(name),
        lambda shape: tuple(map(torch.from_numpy, inputs_of(name, shape))),
        (named,) * (2 if text else 1),
        lambda args: ((t, axes) for t in args),
    )


def halved(model: Model) -> Model:
    """Return the model in bfloat16; inputs that are not floating-point are unchanged."""
    import torch

    def cast(args: Any) -> Any:
        if isinstance(args, (list, tuple)):
            return tuple(map(cast, args)) if isinstance(args, tuple) else [cast(a) for a in args]
        return args.to(torch.bfloat16) if args.is_floating_point() else args

    inputs = model.inputs
    return Model(
        model.module.to(torch.bfloat16), lambda s: cast(inputs(s)), model.dims, model.varying
    )


def moved(args: Any, device: str) -> Any:
    """Return the arguments on a device."""
    return [moved(a, device) for a in args] if isinstance(args, (list, tuple)) else args.to(device)


def ours(name: str, model: Model, target: str, options: Any) -> Any:
    """Return the program that tvm_disc builds from a model's export."""
    import torch

    import tvm_disc

    sample = model.inputs((2, 64, 96) if name == "resnet50" else (2, 16))
    exported = torch.export.export(
        model.module, sample, dynamic_shapes=model.dims, strict=False,
        prefer_deferred_runtime_asserts_over_guards=True,
    )  # fmt: skip
    return tvm_disc.build(exported, target=target, options=options)


def theirs(model: Model, sample: tuple[Any, ...]) -> tuple[str, Any]:
    """Return (marks of the dims, the module under ``torch.compile``), compiled for the sample."""
    import torch
    from torch._dynamo import decorators

    for which in ("unbacked", "dynamic"):
        torch._dynamo.reset()
        compiled = torch.compile(model.module, dynamic=True)
        mark = decorators.mark_unbacked if which == "unbacked" else decorators.mark_dynamic
        for tensor, axes in model.varying(sample):
            for axis in axes:
                mark(tensor, axis)
        try:
            compiled(*sample)
        except Exception as error:
            print(f"torch.compile, {which}: {' '.join(str(error).split())[:400]}", flush=True)
            continue
        return which, compiled
    return "plain", torch.compile(model.module, dynamic=True)


def timed(call: Call) -> tuple[float, float]:
    """Return (seconds of a call, seconds until the call returns), over a sample of calls."""
    import torch

    call()
    torch.cuda.synchronize()
    count = 1
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        returned = time.perf_counter() - begin
        torch.cuda.synchronize()
        spent = time.perf_counter() - begin
        if spent >= SAMPLE_S:
            return spent / count, returned / count
        count = max(2 * count, int(count * SAMPLE_S / max(spent, 1e-6)))


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock of a file; do nothing if the path is empty."""
    if not path:
        yield
        return
    with Path(path).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def flat(out: Any) -> list[Any]:
    """Return the tensors of a result."""
    parts = out.values() if isinstance(out, dict) else out
    return [out] if hasattr(out, "shape") else [t for part in parts for t in flat(part)]


def error_of(found: Any, wanted: Any) -> float:
    """Return the largest difference of two results, relative to the largest element."""
    import torch

    worst = 0.0
    for one, two in zip(flat(found), flat(wanted), strict=True):
        here, there = torch.from_dlpack(one).double().cpu(), two.double().cpu()
        assert here.shape == there.shape, f"{tuple(here.shape)}, expected {tuple(there.shape)}"
        scale = max(float(there.abs().max()), 1e-30)
        worst = max(worst, float((here - there).abs().nan_to_num(1e30).max()) / scale)
    return worst


def breakdown(call: Call) -> str:
    """Return PyTorch's times of a call: kernels of products and attention, other kernels, host.

    These are the columns of table 2 of DISC (Zhu et al., 2021).
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    device_s, _ = timed(call)
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        call()
        torch.cuda.synchronize()
    compute = memory = 0.0
    for event in found.key_averages():
        if any(word in event.key.lower() for word in ("gemm", "fmha", "attention", "cutlass")):
            compute += event.self_device_time_total
        else:
            memory += event.self_device_time_total
    host = max(device_s * 1e6 - compute - memory, 0.0)
    return f"compute {compute:.0f}, memory {memory:.0f}, host {host:.0f}"


def compare(name: str, model: Model, programs: dict[str, Any], lock: str) -> Any:
    """Print the table of a model, a line for each shape; return the compiled module."""
    import torch

    model.module.cuda()
    first = tuple(moved(model.inputs(SHAPES[name][1]), "cuda"))
    begin = time.perf_counter()
    which, compiled = theirs(model, first)
    print(f"torch.compile ({which}): {time.perf_counter() - begin:.1f} s", flush=True)
    calls = {"eager": model.module, "compile": compiled}
    print(f"{'shape':16}" + "".join(f"{w:>10}" for w in (*calls, *programs)) + "   host   error")
    for shape in SHAPES[name]:
        args = tuple(moved(model.inputs(shape), "cuda"))
        print(f"{shape!s:16}{line(calls, programs, args, lock)}", flush=True)
        torch.cuda.empty_cache()
    return compiled


def line(calls: dict[str, Any], programs: dict[str, Any], args: Any, lock: str) -> str:
    """Return the times of one shape, and the largest error of our programs."""
    import tvm_ffi

    own = [tvm_ffi.from_dlpack(t) for t in flat(args)]
    wanted = calls["eager"](*args)
    worst = max(error_of(p(*own), wanted) for p in programs.values())
    runs: dict[str, Call] = {w: partial(c, *args) for w, c in calls.items()}
    runs |= {w: partial(p, *own) for w, p in programs.items()}
    calls["compile"](*args)
    times: dict[str, list[tuple[float, float]]] = {w: [] for w in runs}
    with locked(lock):
        for _ in range(ROUNDS):
            for who, run in runs.items():
                times[who].append(timed(run))
    medians = {w: statistics.median(t for t, _ in all_) * 1e3 for w, all_ in times.items()}
    host = statistics.median(h for _, h in times["disc"]) * 1e3
    return "".join(f"{ms:10.3f}" for ms in medians.values()) + f"{host:7.3f}{worst:9.1e}"


def main() -> int:
    """Print a line for each shape, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=tuple(SHAPES))
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--tf32", action="store_true", help="TF32 for all products")
    parser.add_argument("--half", action="store_true", help="bfloat16")
    parser.add_argument("--lock", default="")
    parser.add_argument("--records", default=None)
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("nothing was measured: PyTorch finds no GPU", file=sys.stderr)
        return 2
    from tvm_disc import Options

    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    torch.backends.cudnn.allow_tf32 = options.tf32
    torch.set_grad_enabled(False)
    model = model_of(options.name)
    if options.half:
        model = halved(model)
    programs = {}
    for who, graphs in (("disc", 0), ("graph", 8)):
        begin = time.perf_counter()
        given = Options(tf32=options.tf32, cuda_graphs=graphs, records=options.records)
        programs[who] = ours(options.name, model, options.target, given)
        print(f"{who}: built in {time.perf_counter() - begin:.1f} s", flush=True)
    compiled = compare(options.name, model, programs, options.lock)
    args = tuple(moved(model.inputs(SHAPES[options.name][3]), "cuda"))
    with locked(options.lock):
        print(f"profile of {SHAPES[options.name][3]}:")
        print("eager:   ", breakdown(partial(model.module, *args)))
        print("compile: ", breakdown(partial(compiled, *args)))
        import tvm_ffi

        print(programs["disc"].profile(*[tvm_ffi.from_dlpack(t) for t in flat(args)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
