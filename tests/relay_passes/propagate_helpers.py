"""Small Relax modules, and how to look at what the pass makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_disc.graph.nodes import is_tensor
from tvm_disc.shape.symbols import free_symbols

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "relax"
SHAPE_OPERATORS = {"relax.shape_of", "relax.shape_to_tensor", "relax.tensor_to_shape"}


def module(
    shapes: Sequence[Sequence[int | str]],
    body: Callable[..., Any],
    dtypes: Sequence[str] = (),
) -> Any:
    """`main(x0, x1, ...)` over the shapes, names being symbols; `body(builder, symbols, *inputs)`
    gives its result."""
    symbols: dict[str, Any] = {}
    params = []
    for k, shape in enumerate(shapes):
        dims = [
            symbols.setdefault(d, tirx.Var(d, "int64")) if isinstance(d, str) else d for d in shape
        ]
        dtype = dtypes[k] if k < len(dtypes) else "float32"
        params.append(relax.Var(f"x{k}", relax.TensorType(dims, dtype)))
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(body(builder, symbols, *params))
        builder.emit_func_output(out)
    return builder.get()


def bindings(mod: Any) -> Iterator[Any]:
    for block in mod["main"].body.blocks:
        yield from block.bindings


def operators(mod: Any) -> list[str]:
    calls = [b.value for b in bindings(mod) if isinstance(b.value, tvm.ir.Call)]
    named = [c.op.name for c in calls if isinstance(c.op, tvm.ir.Op)]
    return [str(n).removeprefix("relax.") for n in named]


def casts(mod: Any) -> list[str]:
    """The types of `match_cast`s that are no guards."""
    found = [b for b in bindings(mod) if isinstance(b, relax.MatchCast)]
    return [str(b.ty) for b in found if is_tensor(b.ty)]


def result(mod: Any) -> str:
    """The dims of the result, printed."""
    ty = mod["main"].body.body.ty
    return ", ".join(re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(d)) for d in ty.shape.values)


def lost(mod: Any) -> list[str]:
    """Tensors without a shape, but for those that a `match_cast` gives one."""
    cast = {b.value for b in bindings(mod) if isinstance(b, relax.MatchCast)}
    types = [b.var.ty for b in bindings(mod) if is_tensor(b.var.ty) and b.var not in cast]
    return [str(t) for t in types if not isinstance(t.shape, relax.ShapeExpr)]


def symbols_of(mod: Any) -> set[str]:
    types = [p.ty for p in mod["main"].params] + [b.var.ty for b in bindings(mod)]
    dims = [d for t in types if is_tensor(t) and t.shape is not None for d in t.shape.values]
    return {str(v.name) for v in free_symbols(dims)}


def load(name: str) -> Any:
    return tvm.ir.load_json((DATA / f"{name}.json").read_text())


def cases(name: str) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """(inputs, expected output) for several shapes."""
    with np.load(DATA / f"{name}.npz") as arrays:
        k = 0
        while f"{k}.out" in arrays:
            inputs = [arrays[key] for key in sorted(arrays.files) if key.startswith(f"{k}.in")]
            yield inputs, arrays[f"{k}.out"]
            k += 1


def run(mod: Any, *inputs: np.ndarray) -> np.ndarray:
    """With TVM's own pipeline and virtual machine."""
    return machine(mod)(*inputs)


def machine(mod: Any) -> Callable[..., np.ndarray]:
    built = relax.build(mod, tvm.target.Target("llvm"))
    vm = relax.VirtualMachine(built, tvm.cpu())

    def call(*inputs: np.ndarray) -> np.ndarray:
        out = vm["main"](*(tvm.runtime.tensor(x) for x in inputs))
        return np.asarray((out if hasattr(out, "numpy") else out[0]).numpy())

    return call
