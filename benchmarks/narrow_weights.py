"""Products with narrow weights, compared to the same product with float32 weights.

    python benchmarks/narrow_weights.py [--only 768x50304] [--rows 1,64] [--peer] [--rounds 9]

A program multiplies several inputs, each by a different matrix; the matrices together are larger
than the caches. The kinds of weights are float32; bfloat16; int8 with a scale per column, and per
32 rows; uint8 with a zero point per column; and 4 bits with a scale per 32 rows. In kinds with
"x int8" the inputs are rounded to int8, too. One round calls all programs, one after another, on
one thread; there are three rounds from 64 rows on. Printed is the median of ``float32 / other`` in
processor time. ``--peer`` adds ONNX Runtime's MatMulNBits of 8 bits and 32 rows, if it is
installed.
"""

# The thread counts must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import level

level.hold()
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tvm_disc
from tvm_disc import relay

LAYERS = [(768, 50304), (4096, 4096), (4096, 11008), (768, 768), (768, 3072)]  # (K, N)
ROWS = [1, 2, 4, 8, 16, 64, 128, 512]
BLOCK = 32
BEYOND_BYTES = 96 << 20  # total bytes of int8 weights: more than the caches hold
TURN_S = 0.03
Call = Callable[[], Any]


def weights(kind: str, q: np.ndarray, scale: np.ndarray) -> Any:
    """Return a matrix ``[N, K]`` as an expression of a graph, from int8 ``q`` and ``scale [N]``."""
    if kind == "float32":
        return relay.const(q.astype("float32") * scale[:, None])
    if kind == "bfloat16":
        import ml_dtypes

        narrow = (q.astype("float32") * scale[:, None]).astype(ml_dtypes.bfloat16)
        return relay.cast(relay.const(narrow, "bfloat16"), "float32")
    if kind == "per column":
        wide = relay.cast(relay.const(q), "float32")
        return relay.multiply(wide, relay.const(scale[:, None]))
    if kind == "zeros":
        numbers = (q.astype("int16") + 128).astype("uint8")
        zero = np.arange(120, 136, dtype="float32")[np.arange(len(q)) % 16, None]
        wide = relay.subtract(relay.cast(relay.const(numbers), "float32"), relay.const(zero))
        return relay.multiply(wide, relay.const(scale[:, None]))
    n, k = q.shape
    if kind.startswith(FOUR):
        q = q >> 4
    wide = relay.cast(relay.const(q.reshape(n, k // BLOCK, BLOCK)), "float32")
    each = np.repeat(scale[:, None, None], k // BLOCK, 1) * np.linspace(1, 2, k // BLOCK)[:, None]
    return relay.reshape(relay.multiply(wide, relay.const(each.astype("float32"))), (n, k))


FOUR = f"4 bits per {BLOCK} rows"
ROUNDED = " x int8"
KINDS = ("float32", "bfloat16", "per column", f"per {BLOCK} rows", "zeros", FOUR)
KINDS += (f"per {BLOCK} rows{ROUNDED}", f"{FOUR}{ROUNDED}")


def program(kind: str, k: int, n: int, count: int) -> Any:
    """Return a program of ``count`` products, each of a different input and matrix."""
    rng = np.random.default_rng(0)
    inputs, outs = [], []
    for i in range(count):
        q = rng.integers(-127, 128, (n, k)).astype("int8")
        scale = (rng.random(n) * 0.01 + 0.001).astype("float32")
        inputs.append(relay.var(f"x{i}", shape=(relay.Any(), k), dtype="float32"))
        outs.append(relay.nn.dense(inputs[-1], weights(kind, q, scale)))
    body = outs[0] if count == 1 else relay.Tuple(outs)
    func = relay.Function(inputs, body)
    options = tvm_disc.Options(threads=1, int8_activations=kind.endswith(ROUNDED))
    return tvm_disc.build(func, options=options)


def peer(k: int, n: int, count: int) -> Any:
    """Return ONNX Runtime's product with 8-bit blocks of weights."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes, inputs, outs, init = [], [], [], []
    for i in range(count):
        q = rng.integers(0, 256, (n, k // BLOCK, BLOCK)).astype("uint8")
        s = (rng.random((n, k // BLOCK)) * 0.01 + 0.001).astype("float32")
        init += [numpy_helper.from_array(q, f"q{i}"), numpy_helper.from_array(s, f"s{i}")]
        attrs = {"K": k, "N": n, "bits": 8, "block_size": BLOCK, "domain": "com.microsoft"}
        names = [f"x{i}", f"q{i}", f"s{i}"]
        nodes.append(helper.make_node("MatMulNBits", names, [f"y{i}"], **attrs))
        inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, ["m", k]))
        outs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["m", n]))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outs, init)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda *xs: session.run(None, {f"x{i}": x for i, x in enumerate(xs)})


def turn(call: Call) -> float:
    """Return the processor seconds of a call."""
    call()
    times, end = [], time.perf_counter() + TURN_S
    while not times or time.perf_counter() < end:
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--peer", action="store_true")
    level.add_option(parser)
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    for k, n in LAYERS:
        if args.only and args.only != f"{k}x{n}":
            continue
        count = -(-BEYOND_BYTES // (k * n))
        engines = {kind: program(kind, k, n, count) for kind in kinds}
        if args.peer:
            engines["ONNX Runtime"] = peer(k, n, count)
        print(f"{k} x {n}, {count} of them; ms of float32, times faster: " + ", ".join(kinds[1:]))
        for rows in map(int, args.rows.split(",")):
            xs = [np.random.rand(rows, k).astype("float32") for _ in range(count)]
            found: dict[str, list[float]] = {kind: [] for kind in engines}
            for _ in range(args.rounds if rows < 64 else 3):
                for kind, engine in engines.items():
                    found[kind].append(turn(partial(engine, *xs)))
            base = found[kinds[0]]
            line = [f"{statistics.median(base) / count * 1e3:9.3f}"]
            for kind in list(engines)[1:]:
                ratios = [a / b for a, b in zip(base, found[kind], strict=True)]
                line.append(f"{statistics.median(ratios):6.2f}")
            print(f"{rows:5d} {' '.join(line)}", flush=True)


if __name__ == "__main__":
    main()
