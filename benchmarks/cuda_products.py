"""Products on a GPU: every variant of the compiler, and cuBLASLt, over a grid of dynamic rows.

    python -m benchmarks.cuda_products --records FILE [--dtype bfloat16] [--tf32] [--target T]
        [--budget SECONDS] [--torch] [--bert]

``tune`` times the variants of ``x[m, k] @ w[n, k].T`` with the driver's events and writes records
to the file, which ``Options(records=...)`` reads. The table has microseconds: the best generated
kernel and its variant, cuBLASLt as the program calls it, and with ``--torch`` PyTorch's ``matmul``,
timed with its events. ``ratio`` is cuBLASLt over the best generated kernel, whose geometric mean is
printed last. ``--bert`` times the dense layers of BERT-base for 16 sequences of 5 to 128 tokens,
the workload of DietCode (Zheng et al., MLSys 2022). Without a GPU the command prints an error and
exits with 2.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.compile import prepare
from tvm_disc.errors import DeviceError, Unsupported
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.support.debug import Trace

PRODUCTS = ((768, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 4096))  # (n, k)
ROWS = (1, 4, 16, 31, 64, 100, 128, 256, 384, 512, 1024, 2048, 4096)
BERT = ((2304, 768), (768, 768), (3072, 768), (768, 3072))
BERT_ROWS = tuple(16 * tokens for tokens in (5, 24, 43, 62, 81, 100, 119, 128))
LIBRARY = "cublaslt"


def module(products: Sequence[tuple[int, int]], dtype: str = "float32") -> Any:
    """Return one program of the products ``x[m, k] @ w[n, k].T``, with the weights as inputs."""
    inputs: dict[str, Any] = {}
    results = []
    for n, k in products:
        x = relay.var(f"x{k}", shape=(relay.Any("m"), k), dtype=dtype)
        x = inputs.setdefault(f"x{k}", x)
        w = inputs.setdefault(f"w{n}_{k}", relay.var(f"w{n}_{k}", shape=(n, k), dtype=dtype))
        results.append(relay.nn.dense(x, w))
    return relay.Function(list(inputs.values()), relay.Tuple(results))


def key_of(n: int, k: int, dtype: str, options: Options, target: str) -> str:
    """Return the key of a product's records."""
    front = prepare(module([(n, k)], dtype), None, target, (), options, Trace(0, None))
    return group_key(front.programs[0].kernels[0].group)


def read(path: Path) -> dict[tuple[str, int], dict[str, float]]:
    """Return (group, rows) -> variant -> least nanoseconds."""
    found: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "ns" in record:
            times = found[record["group"], record["dims"][0]]
            name = " ".join(f"{k}={v}" for k, v in record["variant"].items())
            times[name] = min(times.get(name, float("inf")), record["ns"])
    return found


def theirs(n: int, k: int, m: int, dtype: str, tf32: bool) -> float:
    """Return the microseconds of PyTorch's product, timed with its events."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = tf32
    kind = getattr(torch, dtype)
    x, w = (torch.randn(rows, k, device="cuda").to(kind) for rows in (m, n))
    times = []
    for _ in range(20):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        x @ w.T
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times[5:])


def show(
    n: int, k: int, times: dict[int, dict[str, float]], peer: Callable[[int], float] | None
) -> list[float]:
    """Print the lines of a product, and return its ratios.

    ``peer`` times PyTorch for a number of rows.
    """
    ratios = []
    for m in sorted(times):
        own = {v: ns for v, ns in times[m].items() if LIBRARY not in v.lower()}
        library = [ns for v, ns in times[m].items() if LIBRARY in v.lower()]
        best = min(own, key=own.__getitem__)
        flops = 2.0 * m * n * k
        cells = f"{n:6}{k:6}{m:6}{own[best] / 1e3:10.1f}{flops / own[best]:9.0f}"
        cells += f"{library[0] / 1e3:10.1f}{library[0] / own[best]:8.2f}" if library else " " * 18
        ratios += [library[0] / own[best]] if library else []
        if peer is not None:
            cells += f"{peer(m):9.1f}"
        print(f"{cells}  {best}", flush=True)
    return ratios


def main() -> int:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=None, help="seconds")
    parser.add_argument("--rows", type=int, default=len(ROWS), help="how many, from the least")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--bert", action="store_true", help="dense layers of BERT-base")
    options = parser.parse_args()
    products, grid = (BERT, BERT_ROWS) if options.bert else (PRODUCTS, ROWS)
    rows, given = list(grid[: options.rows]), Options(tf32=options.tf32)
    try:
        tuned = tvm_disc.tune(
            module(products, options.dtype), records=options.records, shapes={"m": rows},
            target=options.target, options=given, points=len(rows), budget_s=options.budget,
            progress=False,
        )  # fmt: skip
    except (DeviceError, Unsupported) as error:
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 2
    print(tuned, flush=True)
    head = "n k m best_us GFLOP/s library ratio torch".split()
    print("".join(f"{h:>9}" for h in head) + "  variant")
    ratios = []
    for n, k in products:
        key = key_of(n, k, options.dtype, given, options.target)
        times = {m: t for (group, m), t in read(options.records).items() if group == key}
        peer = partial(theirs, n, k, dtype=options.dtype, tf32=options.tf32)
        ratios += show(n, k, times, peer if options.torch else None)
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
