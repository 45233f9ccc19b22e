"""PyTorch's own samples of its operators, through export and build, beside PyTorch.

    python -m tests.frontends.torch.op_db [--match TEXT] [--limit N] [--seed N] [--dynamic]
    python -m tests.frontends.torch.op_db --compile ...    # torch.compile instead of export

Every operator is tried in a process of its own, with a time limit. A sample counts if
``torch.export`` accepts it and takes it apart into operators of ATen's core that compute the same
again (no random numbers, no memory that nobody has written). Prints the share that is right, and
of the rest every reason. With ``--json`` operators whose outcomes are in the file are not tried
again, so that a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import multiprocessing
import random
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

UNWRITTEN = ("empty", "empty_like", "new_empty", "empty_permuted", "new_empty_strided",
             "empty_strided")  # fmt: skip
OUTSIDE = ("not exported", "not core", "random", "no tensor results")


@dataclass
class Outcome:
    """What became of one sample: ``pass``, why it does not count, or what went wrong."""

    op: str
    dtype: str
    status: str
    reason: str = ""


def call_of(op: Any, sample: Any) -> tuple[Any, tuple[Any, ...]]:
    """A module of the tensors of a sample, and these."""
    import torch
    from torch.utils import _pytree as pytree

    leaves, tree = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
    places = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    class Call(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *tensors: Any) -> Any:
            given = list(leaves)
            for k, t in zip(places, tensors, strict=True):
                given[k] = t
            first, args, kwargs = pytree.tree_unflatten(given, tree)
            return op(first, *args, **kwargs)

    return Call(), tuple(leaves[k] for k in places)


def why_outside(program: Any) -> str:
    """Why a program does not count; empty if it does."""
    import torch

    nodes = [n for n in program.graph.nodes if n.op == "call_function"]
    for node in nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags:
            return "random"
    for node in nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if torch.Tag.core not in node.target.tags and "sym" not in str(node.target):
            return f"not core: {node.target}"
    return ""


def tried(op: Any, name: str, dtype: Any, sample: Any, dynamic: bool) -> Outcome:
    """One sample: exported, built, compared."""
    import torch

    import tvm_disc

    module, tensors = call_of(op, sample)
    short = str(dtype).removeprefix("torch.")
    dims = None
    if dynamic:
        auto = torch.export.Dim.AUTO
        dims = (tuple(dict.fromkeys(range(t.dim()), auto) for t in tensors),)
    try:
        with torch.no_grad():
            want = module(*tensors)
            program = torch.export.export(module, tensors, dynamic_shapes=dims)
        outside = why_outside(program.run_decompositions())
    except Exception as error:
        return Outcome(name, short, "not exported", f"{type(error).__name__}: {error}"[:120])
    if outside:
        return Outcome(name, short, outside.split(":")[0], outside)
    wanted = [t for t in torch.utils._pytree.tree_leaves(want) if isinstance(t, torch.Tensor)]
    if not wanted:
        return Outcome(name, short, "no tensor results")
    try:
        exe = tvm_disc.build(program)
        found = exe(*tensors[: len(exe.signature)])
    except Exception as error:
        ours = isinstance(error, tvm_disc.DiscError)
        text = f"{'' if ours else 'RAW '}{type(error).__name__}: {error}"
        if not ours:
            text += traceback.format_exc()[-300:]
        return Outcome(name, short, "refused" if ours else "raw", text[:600])
    results = list(found) if isinstance(found, tuple | list) else [found]
    try:
        for w, f in zip(wanted, results, strict=True):
            got = f if isinstance(f, torch.Tensor) else torch.from_dlpack(f)
            torch.testing.assert_close(
                got, w, rtol=2e-4, atol=2e-5, equal_nan=True, check_stride=False
            )
    except (AssertionError, ValueError) as error:
        return Outcome(name, short, "wrong", " ".join(str(error).split())[:300])
    return Outcome(name, short, "pass")


def compiled(op: Any, name: str, dtype: Any, sample: Any, dynamic: bool) -> Outcome:
    """Return the outcome of one sample under ``torch.compile``; every node must be compiled."""
    import torch

    from tvm_disc import dynamo

    module, tensors = call_of(op, sample)
    short = str(dtype).removeprefix("torch.")
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            want = module(*tensors)
            aot = torch.compile(module, backend="aot_eager", dynamic=dynamic)
            aot(*tensors)
    except Exception as error:
        return Outcome(name, short, "not exported", f"{type(error).__name__}: {error}"[:120])
    torch._dynamo.reset()
    fast = torch.compile(module, backend=dynamo.backend, dynamic=dynamic)
    try:
        with torch.no_grad(), dynamo.reporting() as report:
            found = fast(*tensors)
        torch.testing.assert_close(
            found, want, rtol=2e-4, atol=2e-5, equal_nan=True, check_stride=False
        )
    except Exception as error:
        ours = isinstance(error, AssertionError | ValueError)
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Outcome(name, short, "wrong" if ours else "raw", text[:300])
    if "random" in str(report.reasons) or not report.compiled + report.in_pytorch:
        return Outcome(name, short, "random" if report.reasons else "no tensor results")
    status = "fallback" if report.fallbacks else "refused" if report.in_pytorch else "pass"
    return Outcome(name, short, status, "; ".join(report.reasons)[:600])


def child(pipe: Any, index: int, limit: int, seed: int, dynamic: bool, way: Any) -> None:
    """All chosen samples of one operator."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    torch.manual_seed(seed)
    op = op_db[index]
    dtypes = op.supported_dtypes("cpu")
    for dtype in (torch.float32, torch.int64, torch.bool):
        if dtype not in dtypes:
            continue
        try:
            samples = list(op.sample_inputs("cpu", dtype))
        except Exception:
            continue
        chosen = random.Random(seed).sample(samples, min(limit, len(samples)))
        for sample in chosen:
            pipe.send(asdict(way(op.op, full_name(op), dtype, sample, dynamic)))
        if dtype == torch.float32:
            limit = max(1, limit // 2)
    pipe.close()


def full_name(op: Any) -> str:
    """An operator with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def outcomes(args: Any, known: Sequence[Outcome]) -> Iterator[Outcome]:
    """Every sample of every chosen operator that is not known."""
    from torch.testing._internal.common_methods_invocations import op_db

    context = multiprocessing.get_context("fork")
    part, parts = map(int, args.part.split("/"))
    seen = {found.op for found in known}
    for index, op in enumerate(op_db):
        name = full_name(op)
        if args.match not in name or name in UNWRITTEN or index % parts != part or name in seen:
            continue
        here, there = context.Pipe(duplex=False)
        way = compiled if args.compile else tried
        job = (there, index, args.limit, args.seed, args.dynamic, way)
        process = context.Process(target=child, args=job)
        process.start()
        there.close()
        end = time.monotonic() + args.seconds
        try:
            while here.poll(max(0.0, end - time.monotonic())):
                yield Outcome(**here.recv())
            yield Outcome(name, "", "timeout", f"more than {args.seconds} s")
            process.kill()
        except EOFError:
            process.join()
            if process.exitcode:
                yield Outcome(name, "", "crash", f"exit status {process.exitcode}")
        process.join()


def warm() -> None:
    """Import what exports and builds import late, so that children need not, each again."""
    import torch

    import tvm_disc
    from tests.fuzz.warm import warm as warm_compiler

    warm_compiler()
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2, 3),)).run_decompositions()
    tvm_disc.build(program, options=tvm_disc.Options(load=False))


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="operators whose name has this in it")
    parser.add_argument("--limit", type=int, default=4, help="samples of an operator and dtype")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of an operator")
    parser.add_argument("--dynamic", action="store_true", help="every dim free that may be")
    parser.add_argument("--compile", action="store_true", help="torch.compile, not torch.export")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th operator from the k-th")
    parser.add_argument("--json", help="a file of outcomes, one a line, read and written")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args(argv)
    warm()
    known = recorded(args.json)
    every = list(known)
    for _, group in itertools.groupby(outcomes(args, known), lambda found: found.op):
        tried_now = list(group)
        every += tried_now
        if args.json:
            with Path(args.json).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(found)) + "\n" for found in tried_now)
        for found in tried_now if args.verbose else ():
            print(found.op, found.dtype, found.status, found.reason[:200], flush=True)
    report(every)
    return 0


def recorded(path: str | None) -> list[Outcome]:
    """The outcomes of an earlier run."""
    if path is None or not Path(path).exists():
        return []
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [Outcome(**json.loads(line)) for line in lines]


def report(every: Sequence[Outcome]) -> None:
    """Print what failed and why, and the share that passes."""
    counts = collections.Counter(found.status for found in every)
    reasons: dict[str, list[Outcome]] = collections.defaultdict(list)
    for found in every:
        if found.status not in ("pass", *OUTSIDE):
            reasons[found.op].append(found)
    for op, failed in sorted(reasons.items()):
        kinds = collections.Counter((f.status, f.reason) for f in failed)
        for (status, reason), count in kinds.items():
            print(f"{op}: {count} {status}: {reason}")
    inside = sum(n for status, n in counts.items() if status not in OUTSIDE)
    print(dict(counts))
    print(f"{counts['pass']} of {inside} samples pass: {counts['pass'] / max(inside, 1):.1%}")


if __name__ == "__main__":
    sys.exit(main())
