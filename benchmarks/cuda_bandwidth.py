"""Element-wise and row kernels on a GPU, beside a copy on the device: part of its bandwidth.

    python -m benchmarks.cuda_bandwidth [--target "cuda -arch=sm_90"] [--mib 1,32,256] [--torch]

A program per operator serves every size. A time is that of as many calls as take 50 ms, one after
the other in one stream, ended by reading one number behind them, so that it is the device's and not
the caller's; the median of the rounds, in turns with the others. ``copy`` is the driver's from one
place of the device to another, which moves as many bytes; with ``--torch``, PyTorch's ``clone`` and
``torch.compile(dynamic=True)`` of the same operator run on the same tensors. Without a GPU it says
so and ends with 2.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import DeviceError, Unsupported

COLUMNS = 1024
SAMPLE_S, ROUNDS = 0.05, 7
Timed = Callable[[], Any]


def programs() -> dict[str, Any]:
    """Operators over a matrix of any number of rows, each moving it in and out once."""
    x = relay.var("x", shape=(relay.Any("rows"), COLUMNS), dtype="float32")
    one = relay.const(np.ones(COLUMNS, "float32"))
    return {
        "copy": relay.Function([x], relay.copy(x)),
        "gelu": relay.Function([x], relay.multiply(x, relay.sigmoid(x))),
        "softmax": relay.Function([x], relay.nn.softmax(x)),
        "layer_norm": relay.Function([x], relay.nn.layer_norm(x, one, one)),
    }


def peers() -> dict[str, Any]:
    """The same in PyTorch."""
    import torch

    one = torch.ones(COLUMNS, device="cuda")
    functions = {
        "copy": lambda x: x.clone(),
        "gelu": lambda x: x * torch.sigmoid(x),
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (COLUMNS,), one, one),
    }
    return {
        name: f if name == "copy" else torch.compile(f, dynamic=True)
        for name, f in functions.items()
    }


def seconds(call: Timed, finish: Callable[[Any], Any]) -> float:
    """Of one call, on the device."""
    finish(call())
    count, spent = 1, 0.0
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            last = call()
        finish(last)
        spent = time.perf_counter() - begin
        if spent >= SAMPLE_S:
            return spent / count
        count = max(2 * count, int(count * SAMPLE_S / max(spent, 1e-6)))


def contestants(exe: Any, rows: int, peer: Any) -> dict[str, tuple[Timed, Callable[[Any], Any]]]:
    """Our program, and PyTorch's, on tensors of the device."""
    host = np.random.default_rng(0).standard_normal((rows, COLUMNS)).astype("float32")
    there, last = exe._main.sent(host), exe._main.sent(np.zeros(1, "float32"))
    # Reading anything waits for all that is before it in the stream.
    found = {"disc": (lambda: exe(there), lambda out: exe._main.fetched(last))}
    if peer is not None:
        import torch

        tensor = torch.from_dlpack(there)
        found["torch"] = (lambda: peer(tensor), lambda out: torch.cuda.synchronize())
    return found


def main() -> int:
    """A line for each operator and size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--mib", default="1,32,256", help="of the operand")
    parser.add_argument("--torch", action="store_true", help="PyTorch beside")
    options = parser.parse_args()
    try:
        built = {n: tvm_disc.build(f, target=options.target) for n, f in programs().items()}
        built["copy"](np.zeros((1, COLUMNS), "float32"))
    except (DeviceError, Unsupported) as error:
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 2
    theirs = peers() if options.torch else {}
    print(f"{'operator':12}{'MiB':>6}{'of':>8}{'us':>10}{'GB/s':>8}{'of copy':>9}")
    for mib in map(int, options.mib.split(",")):
        rows = (mib << 20) // (4 * COLUMNS)
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(ROUNDS):
            for name, exe in built.items():
                for who, (call, finish) in contestants(exe, rows, theirs.get(name)).items():
                    times.setdefault((name, who), []).append(seconds(call, finish))
        copy = statistics.median(times["copy", "disc"])
        for (name, who), all_ in times.items():
            took = statistics.median(all_)
            speed = 2 * (mib << 20) / took / 1e9
            print(f"{name:12}{mib:6}{who:>8}{took * 1e6:10.1f}{speed:8.0f}{copy / took:9.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
