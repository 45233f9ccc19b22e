"""Element-wise and row kernels on a GPU, compared to a copy on the device: share of its bandwidth.

    python -m benchmarks.cuda_bandwidth [--target "cuda -arch=sm_90"] [--mib 1,32,256] [--torch]

One program per operator serves every size. A time is that of consecutive calls in one stream that
take 50 ms. One element is read back after the last call, or PyTorch synchronizes, so that the time
includes the work of the device. The programs alternate, and the median of the rounds is printed.
``copy`` is the driver's copy within the device, which moves the same number of bytes. With
``--torch``, PyTorch's ``clone`` and ``torch.compile(dynamic=True)`` of the same operator run on the
same tensors. Without a GPU the command prints an error and exits with 2.
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
    """Return operators over a matrix of any number of rows; each reads and writes it once."""
    x = relay.var("x", shape=(relay.Any("rows"), COLUMNS), dtype="float32")
    one = relay.const(np.ones(COLUMNS, "float32"))
    return {
        "copy": relay.Function([x], relay.copy(x)),
        "gelu": relay.Function([x], relay.multiply(x, relay.sigmoid(x))),
        "softmax": relay.Function([x], relay.nn.softmax(x)),
        "layer_norm": relay.Function([x], relay.nn.layer_norm(x, one, one)),
    }


def peers() -> dict[str, Any]:
    """Return the same operators in PyTorch."""
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
    """Return the seconds of one call on the device."""
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
    """Return the programs of tvm_disc and PyTorch, on tensors of the device."""
    host = np.random.default_rng(0).standard_normal((rows, COLUMNS)).astype("float32")
    there, last = exe._main.sent(host), exe._main.sent(np.zeros(1, "float32"))
    # Reading an element waits for all earlier work of the stream.
    found = {"disc": (lambda: exe(there), lambda out: exe._main.fetched(last))}
    if peer is not None:
        import torch

        tensor = torch.from_dlpack(there)
        found["torch"] = (lambda: peer(tensor), lambda out: torch.cuda.synchronize())
    return found


def main() -> int:
    """Print a line for each operator and size."""
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
