"""How many workers a parallel kernel wakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Workers that do not spin sleep after every task, which the system counts.
SCRIPT = """
import json, os, sys, time
import numpy as np, tvm, tvm_disc
from tvm_disc import relay

pool, compiled, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
tasks = lambda: set(os.listdir("/proc/self/task"))
before = tasks()
tvm.get_global_func("runtime.config_threadpool")(1, pool)
workers = sorted(tasks() - before)
x = relay.var("x", shape=(relay.Any(), 256), dtype="float32")
options = tvm_disc.Options(threads=compiled)
exe = tvm_disc.build(relay.Function([x], relay.exp(x)), options=options)
if path:
    exe.save(path)
    exe = tvm_disc.load(path)
a = np.linspace(-4, 4, 2048 * 256, dtype="float32").reshape(2048, 256)

def sleeps(task):
    with open(f"/proc/self/task/{task}/status") as status:
        return next(int(s.split()[1]) for s in status if s.startswith("voluntary"))

found = {}
exe(a)
for threads in map(int, sys.argv[4:]):
    exe.threads = threads
    time.sleep(0.05)
    counts = [sleeps(w) for w in workers]
    for _ in range(10):
        np.testing.assert_allclose(exe(a), np.exp(a), rtol=1e-6)
        time.sleep(0.005)
    time.sleep(0.05)
    woken = [sleeps(w) > c for w, c in zip(workers, counts)]
    found[threads] = sum(woken)
print(json.dumps([len(workers), found]))
"""


def woken(pool: int, compiled: int, threads: list[int], path: str = "") -> tuple[int, list[int]]:
    """Workers of the pool, and how many of them ran for each bound of the threads."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TVM_NUM_THREADS": str(pool),
        "TVM_THREAD_POOL_SPIN_COUNT": "0",
    }
    command = [sys.executable, "-c", SCRIPT, str(pool), str(compiled), path, *map(str, threads)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    workers, found = json.loads(done.stdout)
    return workers, [found[str(t)] for t in threads]


linux = pytest.mark.skipif(sys.platform != "linux", reason="counts sleeps in /proc")


@linux
@pytest.mark.parametrize("saved", [False, True])
def test_a_kernel_wakes_a_worker_for_every_part_but_one(saved: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "exp.so") if saved else ""
    assert woken(6, 4, [4, 2, 1, 3], path) == (5, [3, 1, 0, 2])


@linux
def test_a_pool_with_fewer_workers_than_parts_shares_them() -> None:
    assert woken(2, 4, [4, 1]) == (1, [1, 0])
