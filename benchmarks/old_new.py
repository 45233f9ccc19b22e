"""Compare two checkouts of tvm_disc: the effect of a change on run time and builds.

    python benchmarks/old_new.py OLD_TREE [--new NEW_TREE] [--groups products rows ...]
                                 [--only NAME] [--rounds N] [--threads N] [--turn SECONDS] [--json]

Every checkout runs in a separate process, which compiles the programs of a group and times calls on
request. The two alternate on every shape: old, new, old, new. A turn is the median of the calls
that fit into it. A row is the least time of the old checkout's turns divided by that of the new
one's: above 1 the new checkout is faster. On one thread times are processor time, so that other
processes matter little; on several they are wall time. ``build`` is the processor time of the
builds of a group, without cached code, and ``bytes`` the size of the saved programs, both old /
new. The results of the two are compared on every shape.

``python benchmarks/old_new.py .`` compares a checkout with itself and shows the noise. Calls of a
few microseconds differ by up to one microsecond between two processes that run the same code, so
that their row is significant only if another run repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "data" / "relay" / "models"  # both checkouts read these models
LOW = 0.9  # a summary lists the rows below this ratio
TOLERANCE = 1e-3  # relative to the largest element of a result: orders of addition may differ

Shape = tuple[int, ...]


# --- programs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A source to compile once, and the shapes and inputs with which to call it."""

    make: Callable[[], Any]
    shapes: Sequence[Shape]
    inputs: Callable[..., list[Any]]


def _floats(*shapes: Shape) -> list[Any]:
    import numpy as np

    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def _input(name: str, *dims: Any) -> Any:
    from tvm_disc import relay

    shape = tuple(relay.Any(d) if isinstance(d, str) else d for d in dims)
    return relay.var(name, shape=shape, dtype="float32")


def _constant(*shape: int) -> Any:
    from tvm_disc import relay

    return relay.const(_floats(shape)[0] / 8)


def _dense(n: int, k: int, activated: bool = True) -> Program:
    def make() -> Any:
        from tvm_disc import relay

        x = _input("x", "m", k)
        made = relay.nn.dense(x, _constant(n, k))
        made = relay.nn.relu(relay.nn.bias_add(made, _constant(n))) if activated else made
        return relay.Function([x], made)

    return Program(make, [(m,) for m in (1, 4, 7, 16, 33, 128, 500)], lambda m: _floats((m, k)))


def _matmul(shapes: Sequence[Shape], transposed: bool = False) -> Program:
    def make() -> Any:
        from tvm_disc import relay

        x, y = _input("x", "m", "k"), _input("y", *(("n", "k") if transposed else ("k", "n")))
        made = relay.nn.dense(x, y) if transposed else relay.nn.matmul(x, y)
        return relay.Function([x, y], made)

    def inputs(m: int, n: int, k: int) -> list[Any]:
        return _floats((m, k), (n, k) if transposed else (k, n))

    return Program(make, shapes, inputs)


def _batched(shapes: Sequence[Shape], transposed: bool) -> Program:
    def make() -> Any:
        from tvm_disc import relay

        x, y = _input("x", "b", "m", "k"), _input("y", "b", *("nk" if transposed else "kn"))
        made = relay.nn.batch_matmul(x, y, transpose_b=transposed)
        return relay.Function([x, y], made)

    def inputs(b: int, m: int, n: int, k: int) -> list[Any]:
        return _floats((b, m, k), (b, n, k) if transposed else (b, k, n))

    return Program(make, shapes, inputs)


def _attention(width: int, masked: bool) -> Program:
    def make() -> Any:
        from tvm_disc import relay

        q, k, v = (_input(name, "b", "s", width) for name in "qkv")
        mask = _input("mask", 1, "s", "s")
        scores = relay.nn.batch_matmul(q, k, transpose_b=True)
        scores = relay.multiply(scores, relay.const(_scalar(width**-0.5)))
        scores = relay.add(scores, mask) if masked else scores
        made = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
        return relay.Function([q, k, v, *([mask] if masked else [])], made)

    def inputs(b: int, s: int) -> list[Any]:
        return _floats(*[(b, s, width)] * 3, *([(1, s, s)] if masked else []))

    return Program(make, [(12, 1), (12, 17), (12, 64), (12, 128), (4, 384)], inputs)


def _scalar(value: float) -> Any:
    import numpy as np

    return np.float32(value)


def _conv(
    channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1, last: bool = False
) -> Program:
    """Return a convolution.

    With ``last`` the images are channels last, as between the layers of a network.
    """

    def make() -> Any:
        from tvm_disc import relay

        x = _input("x", *(("n", "h", "w", channels) if last else ("n", channels, "h", "w")))
        made = relay.nn.conv2d(
            x,
            _constant(out, channels // groups, kernel, kernel),
            channels=out,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            padding=(kernel // 2, kernel // 2),
            groups=groups,
            data_layout="NHWC" if last else "NCHW",
            kernel_layout="OIHW",
        )
        made = made if last else relay.nn.bias_add(made, _constant(out))
        return relay.Function([x], relay.nn.relu(made))

    def inputs(n: int, h: int, w: int) -> list[Any]:
        return _floats((n, h, w, channels) if last else (n, channels, h, w))

    shapes = [(1, 7, 7), (1, 14, 14), (1, 28, 31), (2, 56, 56)]
    more = [(1, 1, 1), (1, 3, 3), (1, 113, 5)] if last else []
    return Program(make, [*shapes, *more], inputs)


_conv_last = partial(_conv, last=True)


def _residual(blocks: Sequence[int]) -> Program:
    """Return a network of bottlenecks as in ResNet-50; ``blocks`` are the blocks of each stage."""

    def make() -> Any:
        from tvm_disc import relay

        def conv(x: Any, ins: int, outs: int, kernel: int, stride: int = 1) -> Any:
            weight = relay.const(_floats((outs, ins, kernel, kernel))[0] / (ins * kernel**2) ** 0.5)
            made = relay.nn.conv2d(
                x,
                weight,
                channels=outs,
                kernel_size=(kernel, kernel),
                strides=(stride, stride),
                padding=(kernel // 2, kernel // 2),
            )
            return relay.nn.bias_add(made, _constant(outs))

        x = _input("x", "n", 3, "h", "w")
        y = relay.nn.relu(conv(x, 3, 64, 7, 2))
        y, ins = relay.nn.max_pool2d(y, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)), 64
        for stage, count in enumerate(blocks):
            for block in range(count):
                width, stride = 64 << stage, 2 if block == 0 and stage > 0 else 1
                inner = relay.nn.relu(conv(y, ins, width, 1))
                inner = relay.nn.relu(conv(inner, width, width, 3, stride))
                inner = conv(inner, width, 4 * width, 1)
                beside = y if block else conv(y, ins, 4 * width, 1, stride)
                y, ins = relay.nn.relu(relay.add(inner, beside)), 4 * width
        y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
        return relay.Function([x], relay.nn.dense(y, _constant(10, ins)))

    def inputs(n: int, h: int, w: int) -> list[Any]:
        return _floats((n, 3, h, w))

    return Program(make, [(1, 32, 32), (1, 64, 97), (4, 64, 64), (1, 224, 224)], inputs)


def _rows(make_body: str, shapes: Sequence[Shape] = ()) -> Program:
    def make() -> Any:
        from tvm_disc import relay

        x = _input("x", "n", "m")
        bodies = {
            "softmax": lambda: relay.nn.softmax(x),
            "sum": lambda: relay.sum(x, axis=1),
            "columns": lambda: relay.sum(x, axis=0),
            "gelu": lambda: relay.multiply(x, relay.erf(x)),
            "normed": lambda: relay.divide(
                relay.subtract(x, relay.mean(x, axis=1, keepdims=True)),
                relay.sqrt(relay.add(relay.variance(x, axis=1, keepdims=True), _small())),
            ),
            "transpose": lambda: relay.transpose(x),
            "relu": lambda: relay.nn.relu(x),
        }
        return relay.Function([x], bodies[make_body]())

    usual = [(1, 64), (7, 5), (64, 33), (128, 768), (1000, 3), (3, 20000), (512, 1024)]
    return Program(make, list(shapes) or usual, lambda n, m: _floats((n, m)))


def _bias(shapes: Sequence[Shape]) -> Program:
    """Return the addition of a vector of unknown length to rows."""

    def make() -> Any:
        from tvm_disc import relay

        x, bias = _input("x", "n", "m"), _input("bias", "m")
        return relay.Function([x, bias], relay.nn.relu(relay.add(x, bias)))

    return Program(make, shapes, lambda n, m: _floats((n, m), (m,)))


def _small() -> Any:
    from tvm_disc import relay

    return relay.const(_scalar(1e-5))


def _recorded(name: str) -> Program:
    """Return a recorded model, with the inputs of its first three recorded cases."""

    def make() -> Any:
        from tvm_disc import relay

        return relay.parse((MODELS / f"{name}.relay").read_text(encoding="utf-8"))

    def inputs(number: int) -> list[Any]:
        import numpy as np

        names = [p.name_hint for p in make()["main"].params]
        with np.load(MODELS / f"{name}.npz") as arrays:
            return [arrays[f"{number}.{p}"] for p in names]

    return Program(make, [(0,), (1,), (2,)], inputs)


def _encoder(layers: int, width: int, heads: int) -> Program:
    """Return a transformer of layers of PyTorch's form, over a batch and a length."""

    def make() -> Any:
        from benchmarks.encoder import encoder

        return encoder(layers, width=width, heads=heads, positions=512)

    def inputs(b: int, s: int) -> list[Any]:
        return _floats((b, s, width), (b, s))

    return Program(make, [(1, 1), (1, 8), (1, 31), (1, 128), (4, 64)], inputs)


SQUARE = [(n, n, n) for n in (8, 31, 64, 127, 256)]
FLAT = [(1, 512, 512), (5, 300, 64), (64, 3, 200), (200, 64, 5), (33, 1000, 16)]
TINY = [(1, 1, 1), (2, 3, 4), (4, 8, 16), (7, 5, 3), (16, 16, 16)]
TURNED = [(2, 1000), (1000, 3), (31, 33), (512, 512), (7, 4096), (1, 300), (300, 5), (4000, 6)]
TURNED += [(4, 4000), (4000, 9), (12, 300), (300, 17), (3, 3), (64, 64), (2000, 1000)]
BATCHES = [(12, n, n, 64) for n in (1, 9, 32, 64, 128)] + [(100, 3, 4, 5), (1, 64, 64, 64)]
GROUPS: dict[str, dict[str, Program]] = {
    "products": {
        "dense 768 x 768": _dense(768, 768),
        "dense 3072 x 768": _dense(3072, 768),
        "dense 10 x 64": _dense(10, 64),
        "dense 768 x 3072, bare": _dense(768, 3072, activated=False),
        "matmul": _matmul(SQUARE + FLAT),
        "matmul, transposed": _matmul(SQUARE + FLAT, transposed=True),
    },
    "attention": {
        "64 wide": _attention(64, masked=False),
        "64 wide, masked": _attention(64, masked=True),
        "32 wide": _attention(32, masked=False),
    },
    "convolution": {
        "1 x 1, 64 to 64": _conv(64, 64, 1),
        "3 x 3, 64 to 64": _conv(64, 64, 3),
        "3 x 3 by 2, 32 to 64": _conv(32, 64, 3, stride=2),
        "7 x 7 by 2, 3 to 64": _conv(3, 64, 7, stride=2),
        "3 x 3 of 96 channels": _conv(96, 96, 3, groups=96),
    },
    "channels last": {
        "3 x 3, 64 to 64, last": _conv_last(64, 64, 3),
        "3 x 3, 256 to 256, last": _conv_last(256, 256, 3),
        "3 x 3, 512 to 512, last": _conv_last(512, 512, 3),
        "3 x 3, 24 to 40, last": _conv_last(24, 40, 3),
        "3 x 3, 128 to 32, last": _conv_last(128, 32, 3),
        "3 x 3 by 2, 32 to 64, last": _conv_last(32, 64, 3, stride=2),
        "3 x 3 by 2, 256 to 256, last": _conv_last(256, 256, 3, stride=2),
        "3 x 3 by 2, 3 to 32, last": _conv_last(3, 32, 3, stride=2),
        "7 x 7 by 2, 3 to 64, last": _conv_last(3, 64, 7, stride=2),
        "5 x 5, 64 to 64, last": _conv_last(64, 64, 5),
        "1 x 1, 64 to 256, last": _conv_last(64, 256, 1),
        "1 x 1 by 2, 256 to 512, last": _conv_last(256, 512, 1, stride=2),
        "3 x 3, 32 groups of 4, last": _conv_last(128, 128, 3, groups=32),
        "3 x 3, 32 groups of 32, last": _conv_last(1024, 1024, 3, groups=32),
        "3 x 3, 14 groups of 24, last": _conv_last(336, 336, 3, groups=14),
        "3 x 3 of 96 channels, last": _conv_last(96, 96, 3, groups=96),
    },
    "rows": {name: _rows(name) for name in ("softmax", "sum", "columns", "gelu", "normed")},
    "dispatch": {
        "matmul, small": _matmul(TINY),
        "batch_matmul": _batched(BATCHES, transposed=False),
        "batch_matmul, transposed": _batched(BATCHES, transposed=True),
        "transpose": _rows("transpose", TURNED),
        "bias": _bias([(n, m) for n in (7, 100, 4000) for m in (1, 3, 5, 7, 12, 64)]),
        "relu": _rows("relu", [(1, 1), (3, 5), (100, 100), (1000, 1000)]),
    },
    "models": {
        "encoder 2 x 256": _encoder(2, 256, 4),
        "encoder 1 x 768": _encoder(1, 768, 12),
        "residual, 1 block a stage": _residual((1, 1, 1, 1)),
        **{name: _recorded(name) for name in ("bert", "cnn", "dlrm")},
    },
}


# --- a checkout's process ----------------------------------------------------------------------


def serve() -> None:
    """Answer requests, one JSON value per line: build a program, set a shape, time calls."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    import tvm_disc

    server = _Server(tvm_disc)
    print(json.dumps({"file": tvm_disc.__file__}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(server, request.pop("do"))(**request)), file=answers, flush=True)


class _Server:
    """State of a checkout's process: one program at a time, and its inputs."""

    def __init__(self, package: Any) -> None:
        self.package = package
        self.clock = time.perf_counter
        self.build_options = package.Options(cache=False)
        if os.environ["TVM_NUM_THREADS"] == "1":
            self.clock = time.process_time
        first = _rows("relu").make()
        package.build(first, options=self.build_options)  # one-time costs are not measured

    def build(self, group: str, name: str) -> dict[str, Any]:
        """Compile a program; return the processor seconds, and the bytes of its file."""
        self.program = GROUPS[group][name]
        made, begin = self.program.make(), time.process_time()
        self.exe = self.package.build(made, options=self.build_options)
        seconds = time.process_time() - begin
        with tempfile.TemporaryDirectory() as folder:
            self.exe.save(file := Path(folder) / "program.so")
            return {"seconds": seconds, "bytes": file.stat().st_size}

    def take(self, shape: Sequence[int], results: str) -> dict[str, Any]:
        """Make the inputs of a shape, call once, and write the results."""
        import numpy as np
        import tvm

        inputs = self.program.inputs(*shape)
        self.tensors = [tvm.runtime.tensor(np.asarray(x)) for x in inputs]
        found = self.exe(*self.tensors)
        found = list(found) if isinstance(found, Sequence) else [found]
        np.savez(results, *[x.numpy() for x in found])
        return {}

    def time(self, seconds: float) -> dict[str, Any]:
        """Return the median seconds of the calls that fit into ``seconds``; short calls are
        timed together.
        """
        many = max(1, int(1e-3 / max(self._calls(1), 1e-7)))
        end = time.perf_counter() + seconds
        found = [self._calls(many)]
        while time.perf_counter() < end:
            found.append(self._calls(many))
        return {"seconds": statistics.median(found)}

    def _calls(self, count: int) -> float:
        begin = self.clock()
        for _ in range(count):
            self.exe(*self.tensors)
        return (self.clock() - begin) / count


class Checkout:
    """The process of a checkout."""

    def __init__(self, tree: Path, threads: int) -> None:
        known = {
            k: v for k, v in os.environ.items() if not k.startswith("DISC_") or k == "DISC_TARGET"
        }
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tree,
            env={**known, "PYTHONPATH": str(tree), "TVM_NUM_THREADS": str(threads)},
        )
        found = Path(self._answer()["file"]).parents[1]
        if found != tree:
            raise SystemExit(f"{tree}: expected its own tvm_disc, found that of {found}")

    def ask(self, do: str, **words: Any) -> dict[str, Any]:
        """Send a request and return its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **words}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a checkout's process ended with {self.process.wait()}")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# --- comparison ---------------------------------------------------------------------------------


@dataclass
class Report:
    """Ratios old / new of a group."""

    ratios: dict[str, float] = field(default_factory=dict)
    build_s: list[tuple[float, float]] = field(default_factory=list)
    file_bytes: list[tuple[float, float]] = field(default_factory=list)

    def lines(self, group: str) -> Iterator[str]:
        """Yield the geometric mean, the worst case, and the ratios of builds."""
        build, size = (
            sum(old for old, _ in pairs) / sum(new for _, new in pairs)
            for pairs in (self.build_s, self.file_bytes)
        )
        worst = min(self.ratios, key=self.ratios.__getitem__)
        mean = statistics.geometric_mean(self.ratios.values())
        least = f"worst {self.ratios[worst]:5.3f} ({worst})"
        yield f"{group:12} {mean:5.3f}  {least}  build {build:5.3f}  bytes {size:5.3f}"
        low = {name: ratio for name, ratio in self.ratios.items() if ratio < LOW}
        yield from (f"    below {LOW}: {ratio:5.3f} {name}" for name, ratio in low.items())


def compare(pair: Sequence[Checkout], group: str, name: str, args: Any, report: Report) -> None:
    """Measure one program on all its shapes."""
    made = [checkout.ask("build", group=group, name=name) for checkout in pair]
    (old_s, new_s), (old_bytes, new_bytes) = ([m[k] for m in made] for k in ("seconds", "bytes"))
    report.build_s.append((old_s, new_s))
    report.file_bytes.append((old_bytes, new_bytes))
    print(
        f"{group}: {name}: built in {old_s:.2f} s and {new_s:.2f} s, "
        f"{old_bytes:,} and {new_bytes:,} bytes",
        flush=True,
    )
    for shape in GROUPS[group][name].shapes:
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{k}.npz" for k in range(2)]
            for checkout, file in zip(pair, files, strict=True):
                checkout.ask("take", shape=list(shape), results=file)
            gap = difference(*files)
        rounds = [
            [checkout.ask("time", seconds=args.turn)["seconds"] for checkout in pair]
            for _ in range(args.rounds)
        ]
        old, new = (min(column) * 1e6 for column in zip(*rounds, strict=True))
        ratio = report.ratios[f"{name} at {'x'.join(map(str, shape))}"] = old / new
        wrong = f"  DIFFERENT by {gap:.1e}" if gap > TOLERANCE else ""
        row = (
            f"  {'x'.join(map(str, shape)):>16} {old:10.1f} us {new:10.1f} us  {ratio:5.3f}{wrong}"
        )
        print(row, flush=True)


def difference(old: str, new: str) -> float:
    """Return the largest difference of results, relative to the largest element."""
    import numpy as np

    with np.load(old) as first, np.load(new) as second:
        gaps = [
            float(np.max(np.abs(a.astype("f8") - b.astype("f8")), initial=0))
            / (float(np.max(np.abs(a.astype("f8")), initial=0)) or 1.0)
            for a, b in zip(first.values(), second.values(), strict=True)
        ]
    return max(gaps, default=0.0)


def main() -> None:
    """Compare, and print a summary."""
    parser = argparse.ArgumentParser(prog="python benchmarks/old_new.py")
    parser.add_argument("old", type=Path, help="a checkout, such as a worktree of the base")
    parser.add_argument("--new", type=Path, default=ROOT, help="another; default: this one")
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turn", type=float, default=0.02, help="seconds of one turn")
    parser.add_argument("--json", action="store_true", help="ratios as one line of JSON at the end")
    args = parser.parse_args()
    reports = {}
    with contextlib.ExitStack() as stack:
        trees = (args.old.resolve(), args.new.resolve())
        pair = [Checkout(tree, args.threads) for tree in trees]
        for checkout in pair:
            stack.callback(checkout.close)
        for group in args.groups:
            reports[group] = Report()
            for name in GROUPS[group]:
                if args.only in name:
                    compare(pair, group, name, args, reports[group])
    print("\nold / new       mean  worst case  build  bytes")
    for group, report in reports.items():
        if report.ratios:
            print("\n".join(report.lines(group)))
    if args.json:
        print(json.dumps({group: report.ratios for group, report in reports.items()}))


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        sys.path.insert(0, os.getcwd())
        serve()
    else:
        main()
