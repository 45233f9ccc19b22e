"""Every row of the operator table, compiled once for all shapes, against its NumPy meaning."""

from __future__ import annotations

import re

import pytest

import tvm_disc
from tests.build.cases import COMPILED, calls, check_results, make_case
from tvm_disc import relay
from tvm_disc.compile import compile_counter
from tvm_disc.errors import Unsupported
from tvm_disc.relay.ops.refused import REFUSED
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.relay.ops.table import OPS


@pytest.mark.parametrize("row", COMPILED, ids=[r.name for r in COMPILED])
def test_compiled_once_for_every_size(row: OpRow) -> None:
    with compile_counter() as count:
        executable = tvm_disc.build(make_case(row).function)
    assert count == [1]
    for inputs, wanted in calls(row):
        check_results(executable(*inputs), wanted)
    assert count == [1]


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
    pattern = rf"no import rule:\n  {re.escape(name)}: 1 call.*: {re.escape(REFUSED[name])}"
    with pytest.raises(Unsupported, match=pattern):
        tvm_disc.build(dummy_call(OPS[name]))
