"""Processor time of calls of tiny JAX functions, compared to ``jax.jit``.

python -m benchmarks.jax_calls
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import tvm_disc.jax


def cost(call: Callable[[], Any], count: int = 3000, rounds: int = 7) -> float:
    """Return the least processor time of a call in this thread, in microseconds."""
    found = []
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(count):
            call()
        found.append((time.thread_time_ns() - start) / count / 1e3)
    return min(found)


def one(x: Any) -> Any:
    return jnp.tanh(x) * 2


def tree(p: Any, x: Any) -> Any:
    return {"y": x @ p["w"] + p["b"], "z": p["s"] + 1}


def main() -> None:
    """Print a table."""
    x = jnp.ones((4, 4))
    p = {"w": jnp.ones((4, 4)), "b": jnp.ones(4), "s": jnp.ones(())}
    print("| function | `tvm_disc.jax.jit` | `jax.jit` |")
    print("|---|---|---|")
    for name, function, arguments in (
        ("an array to an array", one, (x,)),
        ("a tree of 4 arrays to a tree of 2", tree, (p, x)),
    ):
        ours = tvm_disc.jax.jit(function, dynamic={"x": "b, 4"})
        theirs = jax.jit(function)
        jax.block_until_ready((ours(*arguments), theirs(*arguments)))
        pair = [cost(lambda f=f, a=arguments: f(*a)) for f in (ours, theirs)]
        print(f"| {name} | {pair[0]:.1f} | {pair[1]:.1f} |")


if __name__ == "__main__":
    main()
