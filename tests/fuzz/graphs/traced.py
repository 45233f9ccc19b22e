"""Random JAX functions of symbolic shapes, compiled once each, against ``jax.jit``.

python -m tests.fuzz.graphs.traced --functions 200 --seed 0 --time 600
python -m tests.fuzz.graphs.traced --show 17    # one function, and what is wrong with it
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "2")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
from jax import export

import tvm_disc
from tests.fuzz.children import Limits, run
from tests.fuzz.graphs.draws import campaign
from tests.fuzz.graphs.functions import Function, Maker
from tests.fuzz.graphs.judge import differences
from tests.fuzz.graphs.world import numbers, special
from tests.fuzz.judge import place, shortened
from tests.quick_code import quick_target
from tvm_disc.errors import DiscError

LIMITS = Limits(cpu_s=150)
SIZES = (1, 2, 3, 5, 7, 15, 16, 17, 40)


def calls(f: Function, count: int) -> list[tuple[dict[str, int], list[np.ndarray], bool]]:
    """Dims, arguments and whether they have special values, for every call."""
    rng, found = np.random.default_rng(f.seed + 1), []
    for call in range(count + 1):
        dims = {d: int(rng.choice(SIZES)) for d in "abc"}
        if call == 1:
            dims = dict.fromkeys("abc", 1)
        args = []
        for s in f.specs:
            shape = [int(eval(str(d), {}, dict(dims))) for d in s.shape]
            array = numbers(rng, str(s.dtype), shape)
            args.append(special(rng, array) if call == count else array)
        found.append((dims, args, call == count))
    return found


def judge(f: Function, tell: Callable[[str], None], count: int = 5) -> tuple[str, str] | None:
    """What is wrong with a function, as its class and details; None if nothing is."""
    tell("export")
    jitted = jax.jit(f)
    try:
        module = export.export(jitted)(*f.specs)
    except Exception as error:  # of any class: a limit of JAX
        return "not exported", f"{type(error).__name__}: {str(error)[:200]}"
    tell("build")
    try:
        exe = tvm_disc.build(module)
    except DiscError as error:
        return f"refused {shortened(error)}", str(error)
    except Exception as error:
        return f"build raised {place(error)}", str(error)[:1500]
    for number, (dims, args, wild) in enumerate(calls(f, count)):
        tell(f"JAX of call {number}")
        try:
            wanted = [np.asarray(w) for w in jitted(*args)]
        except Exception as error:  # of any class: shapes that JAX does not take
            wanted = None
            why = str(error)
        tell(f"call {number}")
        try:
            given = exe(*args)
        except DiscError as error:
            if wanted is not None:
                return f"refused a call {shortened(error)}", f"{dims}: {error}"
            continue
        except Exception as error:
            return f"call raised {place(error)}", f"{dims}: {error}"
        if wanted is None:
            return "accepted a call", f"{dims}: {why[:200]}"
        found = list(given) if isinstance(given, tuple | list) else [given]
        told = differences([np.array(np.from_dlpack(x)) for x in found], wanted)
        if told:
            return "wrong result" + (" of special values" if wild else ""), f"{dims}: {told}"
    return None


def judged(
    seed: int, length: int | None = None, results: Sequence[int] = ()
) -> tuple[str, str] | None:
    """What is wrong with the function of a seed, found in a process of its own.

    JAX's backend starts threads, which a forked child lacks, so only children use it.
    """

    def work(tell: Callable[[str], None]) -> Any:
        tell("make")
        f = Maker(seed).make(length)
        f.results = list(results) or f.results
        return judge(f, tell)

    child = run(work, LIMITS)
    if child.end:
        return child.end, f"while: {child.stage}"
    return tuple(child.answer) if child.answer else None


def described(seed: int, length: int | None, result: int | None = None) -> tuple[str, list[int]]:
    """The function of a seed as text, or the steps that one result reads, and its results."""

    def work(tell: Callable[[str], None]) -> Any:
        f = Maker(seed).make(length)
        if result is None:
            return str(f), f.results
        f.results = [result]
        return "\n".join(cone(f)), f.results

    child = run(work, LIMITS)
    text, results = child.answer or (child.end, [])
    return text, results


def cone(f: Function) -> list[str]:
    """The steps that the results read, with the specifications of what they make."""
    env: list[Any] = list(f.specs)
    need, lines = set(f.results), []
    ranges = []
    for s in f.steps:
        made = jax.eval_shape(s.work, *(env[k] for k in s.uses))
        made = list(made) if isinstance(made, tuple | list) else [made]
        ranges.append(range(len(env), len(env) + len(made)))
        env += made
    for s, span in zip(reversed(f.steps), reversed(ranges), strict=True):
        if need & set(span):
            need |= set(s.uses)
            specs = ", ".join(f"{k}: {env[k].dtype}{list(map(str, env[k].shape))}" for k in span)
            lines.append(f"{specs} = {s.name} of {s.uses}")
    return [f"{k}: {s.dtype}{list(map(str, s.shape))}" for k, s in enumerate(f.specs)] + lines[::-1]


def main() -> int:
    """Judge functions of some seeds; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", type=float, default=1e9)
    parser.add_argument("--length", type=int)
    parser.add_argument("--show", type=int)
    args = parser.parse_args()
    os.environ["DISC_TARGET"] = quick_target()
    warnings.simplefilter("ignore")
    if args.show is not None:
        print(kind := judged(args.show, args.length))
        text, results = described(args.show, args.length)
        print(text)
        for k in results:
            found = judged(args.show, args.length, [k])
            if found and kind and found[0] == kind[0]:
                print(f"result {k} alone: {found}")
                print(described(args.show, args.length, k)[0])
                break
        return 0
    seeds = range(args.seed, args.seed + args.functions)
    kinds = campaign(seeds, args.time, "functions", lambda seed: judged(seed, args.length))
    return int(set(kinds) - {"right", "not exported"} != set())


if __name__ == "__main__":
    sys.exit(main())
