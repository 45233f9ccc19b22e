"""Where the recorded Relay modules are, and the inputs of table samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.relay.samples import Sample
from tvm_disc import relay
from tvm_disc.relay.ops.table import OPS

DATA = Path(__file__).resolve().parents[1] / "data" / "relay"
TEXTS = sorted([*DATA.glob("printed/*.relay"), *DATA.glob("models/*.relay")])
JSONS = sorted(p for p in DATA.glob("printed/*.json") if p.name != "summary.json")


def resolve(dim: Any, env: dict[str, int]) -> Any:
    """A dim (number, symbol or arithmetic) as a number; nested tuples element-wise."""
    if isinstance(dim, (tuple, list)):
        return tuple(resolve(d, env) for d in dim)
    return eval(dim, {}, env) if isinstance(dim, str) and dim != "?" else dim


def make_inputs(sample: Sample, env: dict[str, int], seed: int = 0) -> list[Any]:
    """One array (or tuple of arrays) per argument."""
    rng = np.random.default_rng(seed)

    def tensor(spec: Any, position: int) -> Any:
        if spec and isinstance(spec[0], tuple):
            if position in sample.values:
                parts = zip(sample.values[position], spec, strict=True)
                return tuple(np.array(value, s[-1]) for value, s in parts)
            return tuple(tensor(s, position if i else -1) for i, s in enumerate(spec))
        *dims, dtype = spec
        if position in sample.values:
            return np.array(resolve(sample.values[position], env), dtype)
        shape = resolve(dims, env)
        if dtype == "bool":
            return rng.random(shape) < 0.5
        low, high = sample.ranges.get(max(position, 0), (-2, 3))
        if np.dtype(dtype).kind == "f":
            return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
        return np.asarray(rng.integers(low, high, shape)).astype(dtype)

    return [tensor(spec, i) for i, spec in enumerate(sample.inputs)]


def run(func: relay.Function, inputs: dict[str, Any]) -> Any:
    """Evaluate a function without control flow."""
    values: dict[int, Any] = {id(p): inputs[p.name_hint] for p in func.params}
    for node in relay.post_order(func.body):
        if isinstance(node, relay.Constant):
            values[id(node)] = node.data
        elif isinstance(node, relay.Tuple):
            values[id(node)] = tuple(values[id(f)] for f in node.fields)
        elif isinstance(node, relay.TupleGetItem):
            values[id(node)] = values[id(node.tuple_value)][node.index]
        elif isinstance(node, relay.Call):
            assert isinstance(node.op, relay.Op)
            reference = OPS[node.op.name].reference
            assert reference is not None, node.op.name
            values[id(node)] = reference(*(values[id(a)] for a in node.args), **node.attrs)
    return values[id(func.body)]
