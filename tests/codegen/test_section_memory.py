"""Memory of a process after a build: the weights of the program, once."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
import tvm_disc
from tvm_disc import relay

def anonymous():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Anonymous"))

def program(sizes):
    x = y = relay.var("x", shape=(relay.Any(), sizes[0]))
    for k, n in zip(sizes, sizes[1:]):
        y = relay.nn.dense(y, relay.const(np.ones((n, k), "float32")))
    return tvm_disc.build(relay.Function([x], y), options=tvm_disc.Options(cache=sys.argv[1]))

program([64, 64])
before = anonymous()
exe = program([2048, 4096, 4096, 2048])
weights = 4 * (2 * 2048 * 4096 + 4096 * 4096)
print((anonymous() - before) / weights)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps_rollup")
def test_weights_are_held_once_after_a_build(tmp_path: object) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert 0.9 <= float(run.stdout) <= 1.3
