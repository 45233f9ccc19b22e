"""What passes make compiles, and computes the same."""

from __future__ import annotations

import numpy as np

import tvm_disc
from tests.relay.transform.helpers import optimized
from tvm_disc import relay

T = relay.transform


def test_a_program_after_all_kinds_of_passes() -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    names = ("gamma", "beta", "mean", "var")
    moments = [relay.const(np.linspace(0.5, 1.5, 6).astype("float32")) for _ in names]
    weights = [relay.const(np.full((6, 8), v, "float32")) for v in (0.1, 0.2)]
    parts = [relay.nn.dense(x, relay.multiply(w, relay.const(2.0))) for w in weights]
    normed = relay.nn.batch_norm(relay.add(*parts), *moments)[0]
    mod = relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(normed)))
    steps = [
        T.SimplifyInference(),
        T.FoldConstant(),
        T.CombineParallelDense(2, False),
        T.SimplifyExpr(),
        T.ToANormalForm(),
        T.ToGraphNormalForm(),
        T.FuseOps(2),
    ]
    made = optimized(mod, steps)
    groups = [n for n in relay.post_order(made["main"].body) if isinstance(n, relay.Function)]
    assert groups
    before, after = tvm_disc.build(mod), tvm_disc.build(made)
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 16, 100):
        value = rng.standard_normal((n, 8)).astype("float32")
        np.testing.assert_allclose(after(value), before(value), rtol=1e-5, atol=1e-6)
