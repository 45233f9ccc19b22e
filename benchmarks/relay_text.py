"""Time to parse Relay text: ``python benchmarks/relay_text.py --layers 48``.

The text is an encoder of unknown batch and length, with its weights in the metadata.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from tvm_disc import relay


def encoder(layers: int, width: int, heads: int = 2) -> relay.IRModule:
    """Return an encoder whose layers have attention, two norms and a GELU."""
    rng = np.random.default_rng(layers)

    def weight(*shape: int) -> relay.Constant:
        return relay.const(rng.standard_normal(shape).astype("float32") / 8)

    def linear(x: relay.Expr, inputs: int, units: int) -> relay.Expr:
        rows = relay.reshape(x, (-1, inputs))
        product = relay.nn.dense(rows, weight(units, inputs), units=units)
        out = relay.nn.bias_add(product, weight(units), axis=-1)
        return relay.reshape(out, (1, -1, units))

    def parted(x: relay.Expr) -> relay.Expr:
        parts = relay.reshape(linear(x, width, width), (-1, heads, width // heads))
        return relay.transpose(parts, (1, 0, 2))

    def norm(x: relay.Expr) -> relay.Expr:
        return relay.nn.layer_norm(x, weight(width), weight(width))

    def gelu(x: relay.Expr) -> relay.Expr:
        half = relay.erf(x * relay.const(0.70710677)) * relay.const(0.5) + relay.const(0.5)
        return x * half

    x = y = relay.var("x", shape=(1, relay.Any(), width))
    for _ in range(layers):
        scores = relay.nn.softmax(relay.nn.batch_matmul(parted(y), parted(y)))
        values = relay.nn.batch_matmul(scores, parted(y), transpose_b=False)
        joined = relay.reshape(relay.transpose(values, (1, 0, 2)), (1, -1, width))
        y = norm(relay.add(linear(joined, width, width), y))
        inner = linear(gelu(linear(y, width, 2 * width)), 2 * width, width)
        y = norm(relay.add(inner, y))
    return relay.IRModule.from_expr(relay.Function([x], y))


def main() -> None:
    """Print the size of the text and the median of the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    module = encoder(args.layers, args.width)
    text = module.astext()
    program, _, meta = text.partition("#[metadata]")
    seconds = []
    for _ in range(args.repeat):
        start = time.perf_counter()
        parsed = relay.parse(text)
        seconds.append(time.perf_counter() - start)
    assert relay.structural_equal(parsed, module)
    print(
        f"{args.layers} layers, {len(program) / 1e3:.0f} kB of program, {len(meta) / 1e6:.1f} MB "
        f"of metadata: parsed in {statistics.median(seconds):.2f} s"
    )


if __name__ == "__main__":
    main()
