"""Single-thread GEMM table: the dot template against the FMA peak and other libraries.

    python benchmarks/gemm.py [weights] [dietcode] [batch] [gemv] [--quick] [--only 768x768]
                              [--knobs m_r=12,n_r=32,...] [--save points.json]
                              [--target x86-64-v3]
    python benchmarks/gemm.py share [--sweeps 5] [--pause 30]
    python benchmarks/gemm.py summary points.json ...

Every round times each engine once, one after the other, and the FMA loop before and after the
generated kernel. Times are CPU seconds of the process, because a shared machine preempts it.
Figures are medians over rounds, and ratios are medians of per-round ratios, so that slow drifts of
a shared machine cancel.
``onnxruntime``, ``openvino`` and ``torch`` are measured if they can be imported. Their times
include one Python call per product, so that points below 20 us say little about them. ``--save``
adds the points to a file, so that a long table can be measured in parts.

``share`` measures only the generated kernels and the FMA loop, at all points with at least 64 rows
and K and N of at least 256. It does so in several sweeps with pauses between them: another virtual
machine on the same physical core, which uses its ports and caches, disturbs longer than one point
takes.
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
    os.environ.setdefault(_name, "1")

import argparse
import ctypes
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from gemm_harness import Gemm, aligned, build, cpu, weights
from gemm_peers import onnx_peer, openvino_peer, torch_peer

from tvm_disc.codegen.gauge import multiply_adds, sums
from tvm_disc.schedules.gemm import macro_kernel
from tvm_disc.schedules.gemm.layouts import PanelsOfB
from tvm_disc.schedules.gemm.macro_kernel import Affine, Operand, Stores
from tvm_disc.schedules.gemm.micro_kernel import ramp
from tvm_disc.schedules.packing import pack_constant
from tvm_disc.tir.builder import Block, index_var, pointer, prim_func

LAYERS = [
    (768, 768),
    (768, 2304),
    (768, 3072),
    (3072, 768),
    (768, 1000),
    (64, 64),
    (13, 512),
    (512, 256),
    (415, 512),
]  # (K, N) of BERT-base, GPT-2 and ViT-B; then DLRM
DIETCODE = [(768, 2304), (768, 768), (3072, 768), (768, 3072)]  # (K, N); M is 16 * T
ROWS = [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 200, 255, 384, 512, 1000]
LENGTHS = [5, 24, 43, 62, 81, 100, 119, 128]
PARTS = ("weights", "dietcode", "batch", "gemv")
LARGE = (64, 256)  # least M, and least K and N, of the points whose share of peak is reported
SHARE = 0.88
Run = Callable[[], float]  # one timing: seconds per product
Tuned = Callable[[int | None], macro_kernel.GemmTile]  # number of columns, or None -> tile
Grid = list[tuple[tuple[int, int], list[int]]]  # ((K, N), values of M)
POINTS: list[dict[str, Any]] = []


def fma_peak(target: Any) -> Run:
    """Return a function that measures the GFLOP/s of independent FMAs in registers."""
    isa = macro_kernel.isa_of(target)
    lanes, count = isa.lanes_f32, sums(isa)
    data, n = pointer("data", "float32"), index_var("n")
    block = Block()
    multiply_adds(block, isa, data, n)
    func = prim_func([data, n], block.stmt(), {"global_symbol": "peak"})
    lib = build({tvm.ir.GlobalVar("peak"): func}, target)
    memory = aligned(count * lanes, "float32")
    turns = 1000000

    def sample() -> float:
        start = time.process_time()
        lib["peak"](ctypes.c_void_p(memory.ctypes.data), turns)
        return 2.0 * turns * count * lanes / (time.process_time() - start) / 1e9

    sample()
    return sample


def timed(call: Callable[[], Any], repeat: int) -> Run:
    """Return a function that measures the seconds per call, over ``repeat`` calls."""

    def run() -> float:
        start = time.process_time()
        for _ in range(repeat):
            call()
        return (time.process_time() - start) / repeat

    return run


def timed_inside(call: Callable[[int], Any], repeat: int) -> Run:
    """Return the same as :func:`timed` for a function that receives the number of repetitions."""

    def run() -> float:
        start = time.process_time()
        call(repeat)
        return (time.process_time() - start) / repeat

    return run


def measure(
    ours: Callable[[int], Any],
    peers: dict[str, Callable[[], Any]],
    flops: float,
    peak: Run,
    rounds: int,
) -> tuple[float, float, float, dict[str, float]]:
    """Return (seconds, GFLOP/s, share of peak, speed-up over each peer)."""
    repeat = max(1, int(4e-3 * 60e9 / max(flops, 2e5)))
    runs = {"ours": timed_inside(ours, repeat)}
    runs |= {name: timed(f, repeat) for name, f in peers.items()}
    for run in runs.values():
        run()
    rows: list[dict[str, float]] = []
    shares = []
    for _ in range(rounds):
        before = peak()
        row = {"ours": runs["ours"]()}
        shares.append(flops / row["ours"] / 1e9 / max(before, peak()))
        row |= {name: runs[name]() for name in peers}
        rows.append(row)
    seconds = float(np.median([r["ours"] for r in rows]))
    ratios = {p: float(np.median([r[p] / r["ours"] for r in rows])) for p in peers}
    return seconds, flops / seconds / 1e9, float(np.median(shares)), ratios


def report(
    label: str, shape: tuple[int, ...], point: tuple[float, float, float, dict[str, float]]
) -> None:
    """Print a point and append it to ``POINTS``; ``shape`` is (batch, M, K, N)."""
    seconds, rate, share, ratios = point
    text = "  ".join(f"{name} {ratio:5.2f}x" for name, ratio in ratios.items())
    print(
        f"{label:>22} {seconds * 1e6:9.1f} us {rate:7.1f} GF/s {share:6.1%} peak  {text}",
        flush=True,
    )
    POINTS.append({"part": label.split()[0], "shape": shape, "share": share, "over": ratios})


def bench_weights(tuned: Tuned, target: Any, peak: Run, grid: Grid, rounds: int) -> None:
    """Measure ``c[M, N] = a[M, K] @ constant``, with one compiled body for all M."""
    rng = np.random.default_rng(0)
    for (k, n), rows in grid:
        tile = tuned(n)
        start = time.process_time()
        gemm = Gemm(("a", "b", "c"), weights(n, k, tile), target, tile)
        spent = time.process_time() - start
        w = rng.standard_normal((k, n)).astype("float32")
        b = packed(w, tile)
        print(f"# K={k} N={n}: build {spent:.2f} s of CPU")
        binds = {"ort": onnx_peer([None, k], w), "ov": openvino_peer([None, k], w),
                 "torch": torch_peer(w)}  # fmt: skip
        for m in rows:
            a = aligned(m * k, "float32").reshape(m, k)
            a[:] = rng.standard_normal((m, k))
            c = aligned(m * n, "float32").reshape(m, n)
            out = np.empty((m, n), np.float32)
            peers: dict[str, Callable[[], Any]] = {
                "numpy": lambda a=a, w=w, out=out: np.matmul(a, w, out=out)
            }
            peers |= {name: bind({"a": a}, out) for name, bind in binds.items() if bind}
            run = gemm.runner({"a": a, "b": b, "c": c}, m=m)
            point = measure(run, peers, 2.0 * m * n * k, peak, rounds)
            np.testing.assert_allclose(c, a @ w, rtol=1e-3, atol=1e-3)
            report(f"{k}x{n} M={m}", (1, m, k, n), point)


def packed(w: np.ndarray, tile: macro_kernel.GemmTile) -> np.ndarray:
    """Return weights in the packed layout of the kernels."""
    panels = pack_constant(PanelsOfB(tile.n_r, tile.lanes), w)
    b = aligned(panels.size, "float32")
    b[:] = panels.ravel()
    return b


def bench_share(tuned: Tuned, target: Any, peak: Run, sweeps: int, pause_s: float) -> None:
    """Print the share of the FMA peak at large sizes, in several sweeps over all of them."""
    rng = np.random.default_rng(0)
    points: list[tuple[tuple[int, int, int], Callable[[int], Any]]] = []
    for k, n in [layer for layer in LAYERS if min(layer) >= LARGE[1]]:
        tile = tuned(n)
        gemm = Gemm(("a", "b", "c"), weights(n, k, tile), target, tile)
        w = rng.standard_normal((k, n)).astype("float32")
        b = packed(w, tile)
        listed = [16 * t for t in LENGTHS] if (k, n) in DIETCODE else []
        for m in sorted({m for m in ROWS + listed if m >= LARGE[0]}):
            a, c = aligned(m * k, "float32"), aligned(m * n, "float32")
            a[:] = rng.standard_normal(a.size)
            points.append(((m, k, n), gemm.runner({"a": a, "b": b, "c": c}, m=m)))
    found: list[list[float]] = []
    for sweep in range(sweeps):
        time.sleep(pause_s if sweep else 0)
        now = [measure(run, {}, 2.0 * m * k * n, peak, 5)[2] for (m, k, n), run in points]
        found.append(now)
        print(f"sweep {sweep + 1}: median {np.median(now):.1%}, least {min(now):.1%}, "
              f"{_reach(now)} reach {SHARE:.0%}", flush=True)  # fmt: skip
    medians, best = np.median(found, axis=0), np.max(found, axis=0)
    print(f"median of sweeps: {_reach(medians)} reach {SHARE:.0%}; best of them: {_reach(best)}")
    for (m, k, n), typical, most in zip([p for p, _ in points], medians, best, strict=True):
        if typical < SHARE:
            print(f"  {k}x{n} M={m}: {typical:.0%}, best {most:.0%}")


def _reach(shares: Any) -> str:
    return f"{int(np.sum(np.asarray(shares) >= SHARE))} of {len(shares)}"


def attention(
    heads: int, width: int, second: bool, tile: macro_kernel.GemmTile, target: Any
) -> Gemm:
    """Return ``scores = q @ k^T``, or with ``second`` ``out = scores @ v``.

    The size ``m`` is the length T.
    """

    def describe(_b: Block, bufs: dict[str, Any], sizes: dict[str, Any]) -> macro_kernel.GemmSpec:
        t = sizes["m"]
        n, k = (width, t) if second else (t, width)
        c = bufs["c"]
        one = (1, width) if second else (width, 1)

        def store_vector(b: Block, g: Any, i: Any, j: Any, lanes: int, v: Any) -> bool:
            b.store(c, ramp((g * t + i) * n + j, lanes), v)
            return True

        return macro_kernel.GemmSpec(
            heads,
            t,
            n,
            k,
            Operand(affine=Affine(bufs["a"], lambda _b, g: g * t * k, k, 1)),
            Operand(affine=Affine(bufs["b"], lambda _b, g: g * t * width, *one)),
            Stores(lambda b, g, i, j, v: b.store(c, (g * t + i) * n + j, v), store_vector),
            direct=macro_kernel.Direct(c, lambda _b, g: g * t * n, n),
        )

    return Gemm(("a", "b", "c"), describe, target, tile)


def bench_batch(tuned: Tuned, target: Any, peak: Run, lengths: list[int], rounds: int) -> None:
    """Measure the products of attention: both operands are dynamic, and B of the first is
    transposed.
    """
    rng = np.random.default_rng(0)
    heads, width = 192, 64
    for second in (False, True):
        tile = tuned(width if second else None)
        start = time.process_time()
        gemm = attention(heads, width, second, tile, target)
        print(f"# batch {'T x T x 64' if second else 'T x 64 x T'}: build "
              f"{time.process_time() - start:.2f} s of CPU")  # fmt: skip
        last = None if second else width
        left, right_shape = [None, None, last], [None, None, None if not second else width]
        binds = {
            # ONNX Runtime receives B untransposed, which is faster.
            "ort": onnx_peer(left, right_shape),
            "ov": openvino_peer(left, [None, None, width], transposed=not second),
            "torch": torch_peer(None, transposed=not second),
        }
        for t in lengths:
            a = rng.standard_normal((heads, t, t if second else width)).astype("float32")
            b = rng.standard_normal((heads, t, width)).astype("float32")
            right = b if second else b.transpose(0, 2, 1)
            n = width if second else t
            c = np.empty((heads, t, n), np.float32)
            out = np.empty_like(c)
            peers: dict[str, Callable[[], Any]] = {
                "numpy": lambda a=a, right=right, out=out: np.matmul(a, right, out=out)
            }
            plain = np.ascontiguousarray(right)
            for name, bind in binds.items():
                if bind is not None:
                    peers[name] = bind({"a": a, "b": plain if name == "ort" else b}, out)
            run = gemm.runner({"a": a, "b": b, "c": c}, m=t)
            flops = 2.0 * heads * t * t * width
            point = measure(run, peers, flops, peak, rounds)
            np.testing.assert_allclose(c, a @ right, rtol=1e-3, atol=1e-3)
            label = f"{'TxTx64' if second else 'Tx64xT'} {heads} T={t}"
            report(label, (heads, t, t if second else width, n), point)


def bench_gemv(tuned: Tuned, target: Any, quick: bool) -> None:
    """Measure M = 1: weight bytes per second against a copy of these bytes (read and written)."""
    rng = np.random.default_rng(0)
    for k, n in [(768, 768), (768, 2304), (768, 3072), (3072, 768), (4096, 8192)]:
        tile = tuned(n)
        gemm = Gemm(("a", "b", "c"), weights(n, k, tile), target, tile)
        w = rng.standard_normal((k, n)).astype("float32")
        b = packed(w, tile)
        dst = aligned(b.size, "float32")
        a = aligned(k, "float32")
        c = aligned(n, "float32")
        run = gemm.runner({"a": a, "b": b, "c": c}, m=1)
        repeat = max(1, int(3e7 / b.nbytes))
        ours, copy = timed_inside(run, repeat), timed(lambda d=dst, s=b: np.copyto(d, s), repeat)
        pairs = [(ours(), copy()) for _ in range(7 if quick else 15)]
        rate = float(np.median([b.nbytes / o for o, _ in pairs])) / 1e9
        ratio = float(np.median([p / o / 2 for o, p in pairs]))
        print(
            f"gemv K={k} N={n}: {rate:.1f} GB/s of weights, {ratio:.2f} of copy bandwidth",
            flush=True,
        )


def summary(points: list[dict[str, Any]]) -> None:
    """Print the geometric mean and the worst speed-up over the fastest peer, by part and in all."""
    for part in [*dict.fromkeys(p["part"] for p in points), "all"]:
        mine = [p for p in points if part in ("all", p["part"])]
        best = {tuple(p["shape"]): min(p["over"].values()) for p in mine}
        at, worst = min(best.items(), key=lambda item: item[1])
        mean = float(np.exp(np.mean(np.log(list(best.values())))))
        low = [f"{'x'.join(map(str, s))} {v:.2f}" for s, v in best.items() if v < 0.9]
        print(f"{part:>10}: {len(best)} points, geometric mean {mean:.2f}, worst {worst:.2f} at "
              f"{'x'.join(map(str, at))}; below 0.9: {', '.join(low) or '-'}")  # fmt: skip
    large = [p for p in points if p["shape"][0] == 1 and p["shape"][1] >= LARGE[0]
             and min(p["shape"][2:]) >= LARGE[1]]  # fmt: skip
    if large:
        shares = np.array([p["share"] for p in large])
        low = [f"{'x'.join(map(str, p['shape']))} {p['share']:.0%}" for p in large
               if p["share"] < SHARE]  # fmt: skip
        print(
            f"share of peak where M >= 64 and K, N >= 256: median {np.median(shares):.0%}, "
            f"{_reach(shares)} reach {SHARE:.0%}; not: {', '.join(low)}"
        )


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = f"of {', '.join(PARTS)}; default: all. Or: share. Or: summary FILE ..."
    parser.add_argument("words", nargs="*", metavar="PART", help=words)
    parser.add_argument("--quick", action="store_true", help="fewer points and rounds")
    parser.add_argument("--only", default="", metavar="KxN", help="one layer")
    parser.add_argument("--knobs", default="", metavar="NAME=VALUE,...", help="of the tile")
    parser.add_argument("--save", type=Path, metavar="FILE", help="add the points to this file")
    parser.add_argument("--sweeps", type=int, default=5, help="of the share of peak")
    parser.add_argument("--pause", type=float, default=30, help="seconds between them")
    level.add_option(parser)
    args = parser.parse_args()
    alone = args.words[:1] == ["summary"] or args.words == ["share"]
    unknown = [] if alone else [w for w in args.words if w not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    return args


def main(args: argparse.Namespace) -> None:
    if args.words[:1] == ["summary"]:
        summary([p for path in args.words[1:] for p in json.loads(Path(path).read_text())])
        return
    target = cpu()
    rounds = 5 if args.quick else 7
    knobs = {k: int(v) for k, v in (i.split("=") for i in args.knobs.split(",") if i)}

    def tuned(n: int | None) -> macro_kernel.GemmTile:
        base = macro_kernel.default_tile(macro_kernel.isa_of(target), "float32", n).to_json()
        return macro_kernel.GemmTile.from_json({**base, **knobs})

    def chosen(layers: list[tuple[int, int]], rows: list[int]) -> Grid:
        return [(layer, rows) for layer in layers if args.only in ("", "{}x{}".format(*layer))]

    parts = args.words or PARTS
    peak = fma_peak(target)
    print(f"# {tuned(None)}\n# FMA peak {np.median([peak() for _ in range(9)]):.1f} GF/s")
    if args.words == ["share"]:
        bench_share(tuned, target, peak, args.sweeps, args.pause)
        return
    few = [1, 7, 16, 64, 100, 128, 255, 512]
    lengths = LENGTHS[::3] if args.quick else LENGTHS
    if "gemv" in parts:
        bench_gemv(tuned, target, args.quick)
    if "batch" in parts:
        bench_batch(tuned, target, peak, lengths, rounds)
    if "weights" in parts:
        bench_weights(tuned, target, peak, chosen(LAYERS, few if args.quick else ROWS), rounds)
    if "dietcode" in parts:
        rows = [16 * t for t in lengths]
        bench_weights(tuned, target, peak, chosen(DIETCODE, rows), rounds)
    if POINTS:
        summary(POINTS)
    if args.save is not None:
        before = json.loads(args.save.read_text()) if args.save.exists() else []
        args.save.write_text(json.dumps(before + POINTS))


if __name__ == "__main__":
    main(arguments())
