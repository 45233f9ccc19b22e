"""Small programs of each family of passes: the operators that are left, and the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm_disc.relay.analysis import well_formed
from tvm_disc.relay.testing import count_ops

from tests.relay.helpers import run
from tests.relay.transform.helpers import optimized, parsed
from tvm_disc import relay
from tvm_disc.relay import transform

DATAFLOW = (relay.Call, relay.Constant, relay.Op, relay.Tuple, relay.TupleGetItem, relay.Var)


def rows() -> Iterator[tuple[str, str, str]]:
    """The passes, a program, and the operators that are left."""
    passes = ""
    for line in (Path(__file__).parent / "families.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            passes = line[1:-1]
        elif line and not line.startswith("#"):
            program, _, left = line.rpartition(" =>")
            yield passes, program, left.strip()


CASES = list(rows())


def made_by(text: str) -> list[Any]:
    """Passes from their calls."""
    return [eval(call, vars(transform)) for call in text.split(" & ")]


def values(mod: relay.IRModule) -> list[np.ndarray] | None:
    """Results for small random inputs; None for programs with control flow or functions."""
    main = mod["main"]
    types = [p.type_annotation for p in main.params]
    if not all(isinstance(node, DATAFLOW) for node in relay.post_order(main.body)):
        return None
    if not all(isinstance(t, relay.TensorType) and not relay.is_dynamic(t) for t in types):
        return None
    rng = np.random.default_rng(0)
    data = {
        p.name_hint: np.asarray(rng.uniform(1, 3, t.shape)).astype(t.dtype)
        for p, t in zip(main.params, types, strict=True)
    }
    found = run(main, data)
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize(("passes", "program", "left"), CASES)
def test_operators_and_values(passes: str, program: str, left: str) -> None:
    mod = transform.InferType()(parsed(program))
    made = optimized(mod, made_by(passes))
    found = sum((Counter(count_ops(f)) for f in made.functions.values()), Counter[str]())
    assert " ".join(f"{name} {found[name]}" for name in sorted(found)) == left
    assert well_formed(made)
    before, after = values(mod), values(made)
    if before is not None and after is not None:
        tolerance = 1e-3 if "FastMath" in passes else 1e-5
        for a, b in zip(before, after, strict=True):
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)
