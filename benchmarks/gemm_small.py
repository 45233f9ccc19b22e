"""Small products of two inputs with all dims unknown, compared to the BLAS of NumPy.

    python benchmarks/gemm_small.py [--form plain|transposed|batch] [--points M,K,N ...]

Both are variants of one kernel, called alternately on one thread, without a Python call. The ratio
is the time of the BLAS divided by that of the generated product.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tvm_disc import Options, relay
from tvm_disc.abi.blas import expose
from tvm_disc.compile import prepare
from tvm_disc.schedules.dispatch.variant import SERIAL
from tvm_disc.schedules.gemm.vendor import calls_vendor
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.tuning.entry import build_bench
from tvm_disc.tuning.measure import Effort, local_session
from tvm_disc.tuning.tune import tasks_of

EFFORT = Effort(rounds=9, round_ns=1e5, most_rounds=9, hopeless=1e9, pause_s=0.0)
SIZES = {
    "m": (1, 2, 4, 9, 12, 26, 100, 600),
    "k": (8, 28, 71, 256, 636),
    "n": (1, 2, 3, 6, 12, 17, 36, 100),
}


def _input(name: str, *dims: Any) -> Any:
    return relay.var(name, shape=dims, dtype="float32")


def program(form: str) -> Any:
    """Return a program of one product with the dims m, k and n; a batch has g items."""
    any_ = relay.Any
    if form == "plain":
        x, y = _input("x", any_("m"), any_("k")), _input("y", any_("k"), any_("n"))
        return relay.Function([x, y], relay.nn.matmul(x, y))
    if form == "transposed":
        x, y = _input("x", any_("m"), any_("k")), _input("y", any_("n"), any_("k"))
        return relay.Function([x, y], relay.nn.dense(x, y))
    x = _input("x", any_("g"), any_("m"), any_("k"))
    y = _input("y", any_("g"), any_("k"), any_("n"))
    return relay.Function([x, y], relay.nn.batch_matmul(x, y, transpose_b=False))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", default="plain", choices=("plain", "transposed", "batch"))
    parser.add_argument("--items", type=int, default=64, help="of a batch")
    parser.add_argument("--points", nargs="*", help="M,K,N; a grid unless given")
    args = parser.parse_args()
    front = prepare(program(args.form), None, None, (), Options(), Trace(0, None))
    [task] = tasks_of(front, (), expose())
    serial = [v for v in task.variants if v.run == SERIAL]
    wanted = [serial[0], next(v for v in serial if calls_vendor(v.plan))]
    [bench] = build_bench([(task.group, wanted)], Solver(), front.machine, front.target)
    session = local_session(bench)
    names = [str(s.name) for s in task.group.symbols()]
    points = [tuple(map(int, p.split(","))) for p in args.points or ()]
    logs: list[float] = []
    for m, k, n in points or itertools.product(*SIZES.values()):
        known = {"g": args.items, "m": m, "k": k, "n": n}
        ours, other = session.time([known[x] for x in names], EFFORT).ns
        logs.append(float(np.log(other / ours)))
        print(f"{m:4} x {k:4} x {n:4}  {ours:10.0f} ns  {other:10.0f} ns  {other / ours:6.2f}")
    low = np.sort(logs)[: max(1, len(logs) // 20)]
    print(f"{len(logs)} points, mean {np.exp(np.mean(logs)):.2f}, worst {np.exp(min(logs)):.2f}, "
          f"worst twentieth {np.exp(low.mean()):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
