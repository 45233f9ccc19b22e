"""Every row of the operator table, compiled once for all shapes, against its NumPy meaning."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.cases import assert_same, environments, expected, make_case, tensors
from tvm_disc import relay
from tvm_disc.compile import compile_counter
from tvm_disc.errors import Unsupported
from tvm_disc.relay.ops.refused import REFUSED
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.relay.ops.table import OPS

WITH_SAMPLES = [r for r in OPS.values() if r.samples and r.reference is not None]
COMPILED = [r for r in WITH_SAMPLES if r.lower is not None or r.value is not None]


def result_list(out: Any) -> list[np.ndarray]:
    """All results of a call."""
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("row", COMPILED, ids=[r.name for r in COMPILED])
def test_compiled_once_for_every_size(row: OpRow) -> None:
    with compile_counter() as count:
        executable = tvm_disc.build(make_case(row).function)
    assert count == [1]
    sizes = [list(environments(s)) for s in row.samples]
    for k in range(max(map(len, sizes))):
        inputs: list[np.ndarray] = []
        wanted: list[tuple[dict[str, int], np.ndarray]] = []
        for sample, choices in zip(row.samples, sizes, strict=True):
            env = choices[min(k, len(choices) - 1)]
            given, flat = tensors(row, sample, env, seed=k)
            results = expected(row, sample, given)
            if results is None:  # not defined for such dims, in NumPy as well
                env = choices[0]
                given, flat = tensors(row, sample, env, seed=k)
                results = expected(row, sample, given)
            assert results is not None
            inputs += flat
            wanted += [(env, r) for r in results]
        found = result_list(as_arrays(executable(*inputs)))
        assert len(found) == len(wanted)
        for value, (env, want) in zip(found, wanted, strict=True):
            assert_same(value, want, f"{row.name} at {env}")
    assert count == [1]


def as_arrays(out: Any) -> Any:
    """Results as NumPy arrays, also of a program without inputs."""
    if isinstance(out, (tuple, list)):
        return tuple(as_arrays(o) for o in out)
    return out if isinstance(out, np.ndarray) else np.from_dlpack(out)


WITHOUT_RULE = sorted(r.name for r in OPS.values() if r.lower is None and r.value is None)


def test_every_operator_has_a_rule_or_a_reason() -> None:
    assert set(WITHOUT_RULE) == set(REFUSED)


def dummy_call(row: OpRow) -> relay.Function:
    """A call with one small tensor per argument; nothing but the operator's name matters."""
    params = [relay.var(f"x{i}", shape=(relay.Any(), 4)) for i in range(len(row.args))]
    tuples = [a.startswith("*") for a in row.args]
    args = [relay.Tuple([p]) if t else p for p, t in zip(params, tuples, strict=True)]
    return relay.Function(params, relay.Call(relay.op.get(row.name), args, {}))


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_refused_with_a_reason(name: str) -> None:
    pattern = rf"no import rule:\n  {re.escape(name)}: 1 calls.*: {re.escape(REFUSED[name])}"
    with pytest.raises(Unsupported, match=pattern):
        tvm_disc.build(dummy_call(OPS[name]))
