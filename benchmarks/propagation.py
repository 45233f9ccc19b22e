"""Effect of `PropagateShapeConstraints` on each recorded model, as the table in the docs.

python benchmarks/propagation.py [--repeat 5]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.encoder import encoder
from tvm_disc import relay
from tvm_disc.graph.nodes import free_symbols, is_tensor
from tvm_disc.relay_passes import (
    DecomposeComposite,
    FuseDISC,
    MergeProducts,
    PropagateShapeConstraints,
    Simplify,
)
from tvm_disc.relay_passes.versions import import_versions, kernel_calls

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "relax"
RELAY = DATA.parent / "relay" / "models"
SHAPES = {"relax.shape_of", "relax.shape_to_tensor", "relax.tensor_to_shape"}


def bindings(mod: Any) -> Iterator[Any]:
    """Yield every binding of `main`."""
    for block in mod["main"].body.blocks:
        yield from block.bindings


def types(mod: Any) -> list[Any]:
    """Return the tensor types of inputs and bindings."""
    main = mod["main"]
    found = [p.ty for p in main.params] + [b.var.ty for b in bindings(mod)]
    return [t for t in found if is_tensor(t)]


def symbols(mod: Any) -> list[str]:
    """Return the names of the symbols in shapes, sorted."""
    dims = [d for t in types(mod) if t.shape is not None for d in getattr(t.shape, "values", ())]
    return sorted({str(v.name) for v in free_symbols(dims)})


def lost(mod: Any) -> int:
    """Return the number of tensors without a shape, except those whose shape a `match_cast`
    states.
    """
    cast = {b.value for b in bindings(mod) if isinstance(b, relax.MatchCast)}
    found = [b.var.ty for b in bindings(mod) if b.var not in cast]
    return sum(is_tensor(t) and not isinstance(t.shape, relax.ShapeExpr) for t in found)


def arithmetic(mod: Any) -> int:
    """Return the number of operators that compute shapes."""
    calls = (b.value for b in bindings(mod) if isinstance(b.value, tvm.ir.Call))
    return sum(str(getattr(c.op, "name", "")) in SHAPES for c in calls)


def plain(cond: Any) -> str:
    """Return a condition as text without TVM's type marks."""
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(cond)).replace("T.", "")


def row(name: str, mod: Any, repeat: int) -> str:
    """Return one line of the table."""
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        propagate = PropagateShapeConstraints(portable=False)
        after = propagate(mod)
        seconds.append(time.perf_counter() - began)
    guards = propagate.solver.guards
    ranges = [plain(g.cond) for g in guards if len(g.symbols) == 1]
    joins = [plain(g.cond) for g in guards if len(g.symbols) != 1]
    before_count, after_count = (sum(1 for _ in bindings(m)) for m in (mod, after))
    cells = (
        name,
        f"{before_count} -> {after_count}",
        f"{lost(mod)} -> {lost(after)}",
        f"{arithmetic(mod)} -> {arithmetic(after)}",
        f"{', '.join(symbols(mod))} -> {', '.join(symbols(after))}",
        "; ".join(ranges) or "-",
        "; ".join(joins) or "-",
        f"{min(seconds):.3f}",
    )
    return "| " + " | ".join(cells) + " |"


def version_row(name: str, version: Any) -> str:
    """Return one line about a version of a Relay model: its symbols, premises, guards and
    kernel calls.
    """
    passes = [DecomposeComposite(), Simplify(), MergeProducts(), FuseDISC()]
    calls = kernel_calls(tvm.transform.Sequential(passes)(version.mod))
    cells = (
        name,
        ", ".join(symbols(version.mod)),
        "; ".join(p.text for p in version.premises) or "-",
        "; ".join(plain(g.cond) for g in version.solver.guards) or "-",
        str(calls),
    )
    return "| " + " | ".join(cells) + " |"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args(argv)
    print(
        "| model | bindings | shapes lost | shape operators | symbols | ranges checked "
        "| guards | seconds |\n|---|---|---|---|---|---|---|---|"
    )
    for path in sorted(DATA.glob("*.json")):
        mod = tvm.ir.load_json(path.read_text())
        print(row(path.stem, mod, options.repeat))
    for layers in (12, 48):
        print(row(f"encoder, {layers} layers", encoder(layers), options.repeat))
    print("\n| model | symbols | premises | guards | kernel calls |\n|---|---|---|---|---|")
    bert = relay.parse((RELAY / "bert.relay").read_text())
    for version, kind in zip(
        import_versions(bert, None, (), True), ("special", "general"), strict=False
    ):
        print(version_row(f"bert.relay, {kind}", version))


if __name__ == "__main__":
    main()
