"""Attentions to compile, and their reference in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tvm_disc
from tvm_disc import Options, relay
from tvm_disc.compile import prepare
from tvm_disc.support.debug import Trace

# (queries, keys): empty, one, around the register tiles and the blocks, primes, several blocks.
LENGTHS = (
    (0, 3), (5, 0), (1, 1), (1, 17), (7, 13), (8, 47), (9, 48), (10, 49), (35, 15), (36, 16),
    (37, 96), (73, 127), (3, 1024), (2, 1025), (5, 2053), (2, 3), (6, 2),
)  # fmt: skip
LOWEST = np.finfo("float32").min
SCALE = 0.3
HEADS = {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2}
FACTS = [f"{n}.{a} == q.{a}" for n in "kv" for a in (0, 1)] + ["v.2 == k.2"]
CLOSE = {"float32": {"rtol": 2e-5, "atol": 5e-6}, "float64": {"rtol": 1e-12, "atol": 1e-13}}


def tensor(name: str, *dims: Any, dtype: str = "float32") -> Any:
    """An input; ``?`` is an anonymous dim."""
    shape = tuple(relay.Any() if d == "?" else d for d in dims)
    return relay.var(name, shape=shape, dtype=dtype)


def qkv(depth: int, width: int, dtype: str = "float32") -> list[Any]:
    """Inputs of four dims."""
    return [
        tensor(n, "?", "?", "?", d, dtype=dtype)
        for n, d in zip("qkv", (depth, depth, width), strict=True)
    ]


def flat(x: Any) -> Any:
    """Batch and heads as one dim."""
    return relay.reshape(x, (-3, -2))


def attend(
    q: Any,
    k: Any,
    v: Any,
    chain: Callable[[Any], Any] = lambda s: s,
    scale: float = SCALE,
    dtype: str = "float32",
) -> Any:
    """softmax(chain(q k^T scale)) v, the chain over four dims."""
    scores = relay.nn.batch_matmul(flat(q), flat(k)) * relay.const(scale, dtype)
    weights = relay.nn.softmax(chain(relay.reshape_like(scores, q, **HEADS)))
    result = relay.nn.batch_matmul(flat(weights), flat(v), transpose_b=False)
    return relay.reshape_like(result, q, **HEADS)


def compile_one(
    inputs: list[Any], body: Any, facts: list[str] | None = None, threads: int = 1
) -> Any:
    """The program of one attention, which is one kernel beside those that make its mask."""
    function = relay.Function(inputs, body)
    facts = FACTS if facts is None else facts
    program = tvm_disc.build(function, constraints=facts, options=Options(threads=threads))
    assert sum(k.startswith("attention") for k in program.kernels) == 1
    return program


def planned(inputs: list[Any], body: Any, facts: list[str]) -> str:
    """What ``explain`` says of the one attention, of which no machine code is made."""
    function = relay.Function(inputs, body)
    front = prepare(function, None, None, facts, Options(threads=1), Trace(0, None))
    [kernel] = [k for k in front.library.kernels() if k.kind == "attention"]
    return "\n".join(f"{key}: {value}" for key, value in kernel.notes.items())


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None
) -> np.ndarray:
    """In float64, but for the addition of the mask; without keys the weights are an empty sum."""
    q, k, v = (x.astype("float64") for x in (q, k, v))
    if not k.shape[-2]:
        return np.zeros((*q.shape[:-1], v.shape[-1]))
    with np.errstate(invalid="ignore"):
        s = q @ k.swapaxes(-1, -2) * SCALE
        if mask is not None:
            s = (s.astype("float32") + mask).astype("float64")
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v


def random(m: int, n: int, depth: int, width: int, dtype: str = "float32") -> list[np.ndarray]:
    """Two items of three heads."""
    rng = np.random.default_rng(m * 7919 + n)
    shapes = [(2, 3, m, depth), (2, 3, n, depth), (2, 3, n, width)]
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def guarded(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """The attention of PyTorch's exporter: zeros for weights that are NaN."""
    scores = relay.nn.batch_matmul(flat(q), flat(k)) * relay.const(SCALE)
    scores = relay.reshape_like(scores, q, **HEADS)
    weights = relay.nn.softmax(scores if mask is None else relay.add(scores, mask))
    weights = relay.where(relay.isnan(weights), relay.const(0.0), weights)
    result = relay.nn.batch_matmul(flat(weights), flat(v), transpose_b=False)
    return relay.reshape_like(result, q, **HEADS)


def guarded_reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any = 0) -> np.ndarray:
    """:func:`guarded` in float64."""
    with np.errstate(invalid="ignore"):
        s = q.astype("float64") @ k.astype("float64").swapaxes(-1, -2) * SCALE + mask
        e = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
        weights = e / e.sum(-1, keepdims=True)
    return np.asarray(np.where(np.isnan(weights), 0, weights) @ v.astype("float64"))
