"""Fused attention over batch, heads and length, compared to operators of OpenVINO and PyTorch.

    python -m benchmarks.attention --openvino PYTHON --torch PYTHON [--quick] [--target x86-64-v3]

One program per mask serves every shape; OpenVINO's ``ScaledDotProductAttention`` is compiled once
with dynamic dims as well. Each peer runs in a separate process, with the interpreter that its
option names. All engines are measured on the same shapes, alternately (A B C A B C). A time is the
median of the rounds, in microseconds of CPU time of one call from Python on one thread. A ratio is
the median of the rounds' ratios. Masks: ``none``; ``padding``, additive ``[batch, 1, 1, S]``;
``causal``.
"""

# The environment must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

from benchmarks import level

level.hold()
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

LENGTHS = (1, 7, 16, 33, 64, 128, 200, 384, 512, 1024)
QUICK = (7, 33, 128, 384)
BATCH_HEADS = ((1, 12), (8, 12), (1, 16))
DEPTH = 64
MASKS = ("none", "padding", "causal")
SAMPLE_S = 0.004
LARGEST_FLOPS = 4e9


def shapes() -> list[tuple[int, int, int]]:
    """Return the sweep of (batch, heads, length)."""
    flops = 4 * DEPTH
    return [
        (b, h, s) for b, h in BATCH_HEADS for s in LENGTHS if b * h * s * s * flops <= LARGEST_FLOPS
    ]


def program(mask: str) -> tuple[Any, list[str]]:
    """Return the Relay function, with every dim but the depth unknown, and the facts about its
    inputs.
    """
    from tvm_disc import relay

    q, k, v = (relay.var(n, shape=(*[relay.Any()] * 3, DEPTH), dtype="float32") for n in "qkv")
    inputs = [q, k, v]
    facts = [f"{n}.{a} == q.{a}" for n in "kv" for a in (0, 1)] + ["v.2 == k.2"]
    flat = [relay.reshape(x, (-3, -2)) for x in inputs]
    heads: dict[str, int] = {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2}
    scores = relay.nn.batch_matmul(flat[0], flat[1]) * relay.const(np.float32(DEPTH**-0.5))
    scores = relay.reshape_like(scores, q, **heads)
    if mask == "padding":
        m = relay.var("m", shape=(relay.Any(), 1, 1, relay.Any()), dtype="float32")
        inputs.append(m)
        facts += ["m.0 == q.0", "m.3 == k.2"]
        scores = scores + m
    elif mask == "causal":
        zero, one = relay.const(0, "int64"), relay.const(1, "int64")
        length = relay.take(relay.shape_of(q, "int64"), relay.const(2))
        position = relay.arange(zero, length, one, "int64")
        later = relay.less(relay.expand_dims(position, 1), relay.expand_dims(position, 0))
        facts.append("q.2 == k.2")
        lowest = relay.const(np.finfo("float32").min)
        scores = scores + relay.where(later, lowest, relay.const(np.float32(0)))
    weights = relay.reshape(relay.nn.softmax(scores), (-3, -2))
    result = relay.nn.batch_matmul(weights, flat[2], transpose_b=False)
    return relay.Function(inputs, relay.reshape_like(result, q, **heads)), facts


def inputs(mask: str, shape: tuple[int, int, int]) -> list[np.ndarray]:
    """Return random inputs; the mask ``padding`` hides the last third of the keys of every item."""
    batch, heads, length = shape
    rng = np.random.default_rng(sum(shape))
    arrays = [rng.standard_normal((batch, heads, length, DEPTH), dtype=np.float32) for _ in "qkv"]
    if mask == "padding":
        hidden = np.arange(length) >= length - length // 3
        row = np.where(hidden, np.finfo("float32").min, np.float32(0)).astype("float32")
        arrays.append(np.tile(row, (batch, 1, 1, 1)))
    return arrays


def timed(fn: Callable[[], Any]) -> float:
    """Return the microseconds of CPU time of one call, from enough calls to fill a sample."""
    begin = time.perf_counter()
    fn()
    once = max(time.perf_counter() - begin, 1e-7)
    count = max(1, min(2000, int(SAMPLE_S / once)))
    begin = time.process_time()
    for _ in range(count):
        fn()
    return (time.process_time() - begin) / count * 1e6


# -- the other processes ---------------------------------------------------------------------------


def openvino_call() -> Callable[[str, list[np.ndarray]], Callable[[], Any]]:
    """Return a function that prepares a call of OpenVINO's operator, compiled once per mask."""
    import openvino
    from openvino import opset13 as op

    core, compiled = openvino.Core(), {}
    config = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}

    def prepare(mask: str, arrays: list[np.ndarray]) -> Callable[[], Any]:
        if mask not in compiled:
            shape = openvino.PartialShape([-1] * 4)
            params = [op.parameter(shape, np.float32) for _ in arrays]
            node = op.scaled_dot_product_attention(*params, causal=mask == "causal")
            model = openvino.Model([node], params)
            compiled[mask] = core.compile_model(model, "CPU", config).create_infer_request()
        request = compiled[mask]
        for k, array in enumerate(arrays):
            request.set_input_tensor(k, openvino.Tensor(array, shared_memory=True))
        # The lambda keeps the arrays alive: the tensors share their memory.
        return lambda arrays=arrays: request.infer()

    return prepare


def torch_call() -> Callable[[str, list[np.ndarray]], Callable[[], Any]]:
    """Return a function that prepares a call of PyTorch's operator."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attention

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)

    def prepare(mask: str, arrays: list[np.ndarray]) -> Callable[[], Any]:
        tensors = [torch.from_numpy(a) for a in arrays]
        return lambda: attention(*tensors, is_causal=mask == "causal")

    return prepare


PEERS = {"openvino": openvino_call, "torch": torch_call}


def serve(name: str) -> None:
    """Answer requests, one JSON value per line: ``[mask, shape]`` prepares a call, ``null`` times
    it.
    """
    prepare, call = PEERS[name](), None
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = None
        if request is None:
            assert call is not None
            answer = timed(call)
        else:
            mask, shape = request
            call = prepare(mask, inputs(mask, tuple(shape)))
            call()
        print(json.dumps(answer), flush=True)


class Peer:
    """Another process that serves one operator."""

    def __init__(self, python: str, name: str) -> None:
        command = [python, "-m", "benchmarks.attention", "--serve", name]
        pipe = subprocess.PIPE
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)

    def ask(self, request: Any) -> Any:
        """Send a request and return the answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# -- measuring -------------------------------------------------------------------------------------


def measure(
    masks: Sequence[str],
    chosen: Sequence[tuple[int, int, int]],
    peers: dict[str, Peer],
    rounds: int,
) -> list[dict[str, Any]]:
    """Return a record per mask and shape, with the microseconds of every engine in every round."""
    import tvm

    from tvm_disc.compile import build
    from tvm_disc.options import Options

    records = []
    for mask in masks:
        function, facts = program(mask)
        ours = build(function, constraints=facts, options=Options(threads=1))
        for shape in chosen:
            arrays = [tvm.runtime.tensor(a) for a in inputs(mask, shape)]
            for peer in peers.values():
                peer.ask([mask, shape])
            times: dict[str, list[float]] = {"disc": [], **{name: [] for name in peers}}
            for _ in range(rounds):
                times["disc"].append(timed(lambda: ours(*arrays)))  # noqa: B023
                for name, peer in peers.items():
                    times[name].append(peer.ask(None))
            records.append({"mask": mask, "shape": shape, **times})
            print(line(records[-1]), flush=True)
    return records


def ratio(record: dict[str, Any], peer: str) -> float:
    """Return the time of a peer divided by that of tvm_disc."""
    return statistics.median(p / d for d, p in zip(record["disc"], record[peer], strict=True))


def line(record: dict[str, Any]) -> str:
    """Return one record as text."""
    batch, heads, length = record["shape"]
    cells = [f"{record['mask']:<8} {batch}x{heads}x{length:<5}"]
    disc = statistics.median(record["disc"])
    cells.append(
        f"disc {disc:10.1f} us {4e-3 * DEPTH * batch * heads * length**2 / disc:6.1f} GF/s"
    )
    for name in PEERS:
        if name in record:
            cells.append(f"{name} {statistics.median(record[name]):10.1f} us")
            cells.append(f"x{ratio(record, name):.2f}")
    return "  ".join(cells)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def summary(records: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table of the speed-ups by mask and by length."""
    names = [n for n in PEERS if n in records[0]]
    lines = ["| | " + " | ".join(f"vs {n} (geomean) | (least)" for n in names) + " |"]
    lines.append("|---|" + "---|---|" * len(names))
    groups: dict[str, list[dict[str, Any]]] = {}
    for r in records:
        groups.setdefault(f"mask: {r['mask']}", []).append(r)
    for r in records:
        groups.setdefault(f"S = {r['shape'][2]}", []).append(r)
    groups["all"] = list(records)
    for title, members in groups.items():
        cells = []
        for n in names:
            ratios = [ratio(r, n) for r in members]
            cells += [f"{geomean(ratios):.2f}", f"{min(ratios):.2f}"]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openvino", help="interpreter that has OpenVINO")
    parser.add_argument("--torch", help="interpreter that has PyTorch")
    parser.add_argument("--masks", nargs="+", default=list(MASKS), choices=MASKS)
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS))
    parser.add_argument("--batch", nargs="+", type=int, help="only these batch sizes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="few lengths, three rounds")
    level.add_option(parser)
    parser.add_argument("--records", type=Path, help="add the times to this JSON file")
    parser.add_argument("--serve", choices=list(PEERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    if args.quick:
        args.lengths, args.rounds = [s for s in args.lengths if s in QUICK], 3
    given = {"openvino": args.openvino, "torch": args.torch}
    peers = {name: Peer(python, name) for name, python in given.items() if python}
    chosen = [
        s for s in shapes() if s[2] in args.lengths and (not args.batch or s[0] in args.batch)
    ]
    records = measure(args.masks, chosen, peers, args.rounds)
    for peer in peers.values():
        peer.close()
    if args.records:
        if args.records.exists():
            records = json.loads(args.records.read_text()) + records
        args.records.write_text(json.dumps(records))
    if peers:
        print(summary(records))


if __name__ == "__main__":
    main()
