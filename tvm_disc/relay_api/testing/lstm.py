"""An unrolled LSTM."""

from __future__ import annotations

from tvm_disc.relay.builder import var
from tvm_disc.relay.expr import Expr, Function
from tvm_disc.relay_api.op import function as op
from tvm_disc.relay_api.op import split
from tvm_disc.relay_api.testing.init import create_workload
from tvm_disc.relay_api.testing.layers import closed, constant_of, dense


def _cell(
    x: Expr, hidden: Expr, memory: Expr, units: int, name: str, dtype: str
) -> tuple[Expr, Expr]:
    gates = dense(x, f"{name}i2h", units, 4 * units, dtype=dtype)
    gates = gates + dense(hidden, f"{name}h2h", units, 4 * units, dtype=dtype)
    given, forget, change, out = split(gates, 4, 1)
    sigmoid, tanh = op("sigmoid"), op("tanh")
    memory = sigmoid(forget) * memory + sigmoid(given) * tanh(change)
    return sigmoid(out) * tanh(memory), memory


def get_net(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> Function:
    """Return the network of ``iterations`` steps; every step has a separate input and weights.

    The inputs are ``data``, ``data1``, ``data2`` and so on.
    """
    hidden: Expr = constant_of((batch_size, num_hidden), dtype=dtype)
    memory = hidden
    inputs = [
        var(f"data{step or ''}", shape=(batch_size, num_hidden), dtype=dtype)
        for step in range(iterations)
    ]
    for step, data in enumerate(inputs):
        hidden, memory = _cell(data, hidden, memory, num_hidden, f"cell{step}_", dtype)
    weights = [v for v in closed(hidden).params if v not in inputs]
    return Function([*inputs, *weights], hidden)


def get_workload(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> object:
    """Return the network as a module, and its weights by name."""
    mod, params = create_workload(get_net(iterations, num_hidden, batch_size, dtype))
    return mod, {name: value for name, value in params.items() if not name.startswith("data")}
