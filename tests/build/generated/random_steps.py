"""What random graphs are made of: inputs, and the steps that add an operator.

Every dim of every input is an anonymous ``?``. A dim is known here by its value in each of
``WORLDS``; dims equal in all of them are taken to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tvm_disc import relay
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.ops.table import OPS

Dim: TypeAlias = tuple[int, ...]

# The values of the basic dims in each world; the last world has an empty dim.
WORLDS = ((3, 5, 7), (1, 4, 2), (2, 1, 1), (8, 16, 33), (0, 3, 2))
BASIC: list[Dim] = [tuple(world[k] for world in WORLDS) for k in range(3)]
ONE: Dim = (1,) * len(WORLDS)


def fixed(value: int) -> Dim:
    """A dim that is the same everywhere."""
    return (value,) * len(WORLDS)


@dataclass
class Value:
    """A value of the graph; ``exact`` if float arithmetic made no rounding error on the way."""

    expr: Any
    dims: tuple[Dim, ...]
    dtype: str = "float32"
    exact: bool = True


@dataclass
class Graph:
    """A random function and its inputs' dims."""

    seed: int
    params: list[Any] = field(default_factory=list)
    shapes: list[tuple[Dim, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def function(self, outputs: Sequence[Value] | None = None) -> relay.Function:
        """The function of all, or of some, outputs."""
        chosen = [v.expr for v in (outputs or self.outputs)]
        body = chosen[0] if len(chosen) == 1 else relay.Tuple(chosen)
        used = relay.free_vars(body)
        return relay.Function([p for p in self.params if p in used], body)

    def inputs(self, world: int) -> dict[str, np.ndarray]:
        """Contents for every input: few bits, so that sums are exact."""
        rng = np.random.default_rng(self.seed + world)
        found = {}
        for p, dims, dtype in zip(self.params, self.shapes, self.dtypes, strict=True):
            shape = [d[world] for d in dims]
            numbers = rng.integers(-8, 9, shape)
            found[p.name_hint] = (numbers / 4 if dtype == "float32" else numbers).astype(dtype)
        return found


class Maker:
    """Grows a graph step by step."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(seed)

    def make(self) -> Graph:
        for _ in range(int(self.rng.integers(1, 4))):
            self.input()
        for _ in range(int(self.rng.integers(2, 14))):
            step = contract if self.flip(CONTRACTIONS) else self.choice(STEPS)
            made = step(self)
            if made is not None:
                self.graph.values.append(made)
        late = self.graph.values[-4:]
        count = int(self.rng.integers(1, min(3, len(late)) + 1))
        picks = self.rng.choice(len(late), size=count, replace=False)
        self.graph.outputs = [late[int(k)] for k in picks]
        return self.graph

    def choice(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def flip(self, chance: float = 0.5) -> bool:
        return bool(self.rng.random() < chance)

    def input(self, dims: Sequence[Dim] | None = None, dtype: str = "float32") -> Value:
        if dims is None:
            rank = int(self.rng.integers(1, 5))
            dims = [self.choice([*BASIC, *BASIC, fixed(4), ONE]) for _ in range(rank)]
        graph = self.graph
        var = relay.var(
            f"x{len(graph.params)}",
            shape=tuple(d[0] if len(set(d)) == 1 and self.flip() else relay.Any() for d in dims),
            dtype=dtype,
        )
        graph.params.append(var)
        graph.shapes.append(tuple(dims))
        graph.dtypes.append(dtype)
        value = Value(var, tuple(dims), dtype)
        graph.values.append(value)
        return value

    def some(self, dtype: str | None = "float32", rank: int = 0) -> Value | None:
        """A value so far, later ones more often."""
        fitting = [
            v
            for v in self.graph.values
            if (dtype is None or v.dtype == dtype) and len(v.dims) >= rank
        ]
        if not fitting:
            return None
        return self.choice(fitting[-3:] if self.flip(0.7) else fitting)

    def call(
        self,
        name: str,
        args: Sequence[Any],
        dims: Sequence[Dim],
        kind: str = "float32",
        exact: bool = False,
        **attrs: Any,
    ) -> Value:
        call = relay.Call(relay.op.get(name), args, complete_attrs(OPS[name], attrs))
        return Value(call, tuple(dims), kind, exact)


Step: TypeAlias = Callable[[Maker], "Value | None"]


def unary(m: Maker) -> Value | None:
    x = m.some()
    if x is None:
        return None
    name = m.choice(["tanh", "sigmoid", "negative", "abs", "nn.relu", "erf", "cos"])
    exact = x.exact and name in ("negative", "abs", "nn.relu")
    return m.call(name, [x.expr], x.dims, exact=exact)


def partner(m: Maker, x: Value) -> Value:
    """Something that broadcasts against ``x``: smaller, with ones, or one only sometimes."""
    for v in m.graph.values[::-1]:
        if v.dims == x.dims and v.dtype == x.dtype and v is not x and m.flip(0.4):
            return v
    keep = int(m.rng.integers(0, len(x.dims) + 1))
    dims = []
    for d in x.dims[len(x.dims) - keep :]:
        kind = m.rng.integers(4)
        sometimes = tuple(v if m.flip() else 1 for v in d)
        dims.append(ONE if kind == 0 else sometimes if kind == 1 else d)
    return m.input(dims, x.dtype)


def binary(m: Maker) -> Value | None:
    x = m.some(m.choice(["float32", "float32", "int32"]))
    if x is None:
        return None
    y = partner(m, x)
    name = m.choice(["add", "subtract", "multiply", "maximum", "minimum"])
    exact = x.exact and y.exact and (name != "multiply" or x.dtype == "int32")
    pair = [x, y] if m.flip() else [y, x]
    return m.call(name, [v.expr for v in pair], x.dims, x.dtype, exact)


def divide(m: Maker) -> Value | None:
    x = m.some()
    if x is None:
        return None
    y = partner(m, x)
    size = m.call("abs", [y.expr], y.dims)
    safe = m.call("add", [size.expr, relay.const(1.0, "float32")], y.dims)
    return m.call("divide", [x.expr, safe.expr], x.dims)


def select(m: Maker) -> Value | None:
    x = m.some()
    if x is None or not x.exact:
        return None
    y = partner(m, x)
    if not y.exact:
        return None
    name = m.choice(["less", "greater_equal", "equal"])
    cond = m.call(name, [x.expr, y.expr], x.dims, "bool")
    return m.call("where", [cond.expr, x.expr, y.expr], x.dims, exact=True)


def convert(m: Maker) -> Value | None:
    x = m.some(None)
    if x is None:
        return None
    if x.dtype == "float32" and x.exact:
        return m.call("cast", [x.expr], x.dims, "int32", True, dtype="int32")
    if x.dtype == "int32":
        small = m.call("clip", [x.expr], x.dims, "int32", True, a_min=-64.0, a_max=64.0)
        return m.call("cast", [small.expr], x.dims, exact=True, dtype="float32")
    return None


def reduce(m: Maker) -> Value | None:
    x = m.some()
    if x is None or not x.dims:
        return None
    axes = sorted(a for a in range(len(x.dims)) if m.flip(0.4)) or [len(x.dims) - 1]
    name, keep = m.choice(["sum", "mean", "max", "min"]), m.flip()
    given = tuple(a - len(x.dims) if m.flip(0.3) else a for a in axes)
    dims = [ONE if a in axes else d for a, d in enumerate(x.dims) if keep or a not in axes]
    exact = x.exact and name in ("max", "min")
    return m.call(name, [x.expr], dims, exact=exact, axis=given, keepdims=keep)


def arg(m: Maker) -> Value | None:
    x = m.some(None, 1)
    if x is None or not x.exact:
        return None
    axis, name = int(m.rng.integers(len(x.dims))), m.choice(["argmax", "argmin"])
    dims = [d for a, d in enumerate(x.dims) if a != axis]
    last = m.flip(0.3)
    return m.call(name, [x.expr], dims, "int32", True, axis=(axis,), select_last_index=last)


def normalise(m: Maker) -> Value | None:
    x = m.some("float32", 1)
    if x is None:
        return None
    axis = int(m.rng.integers(len(x.dims))) if m.flip(0.3) else -1
    return m.call(m.choice(["nn.softmax", "nn.log_softmax"]), [x.expr], x.dims, axis=axis)


def transpose(m: Maker) -> Value | None:
    x = m.some(None)
    if x is None:
        return None
    order = [int(a) for a in m.rng.permutation(len(x.dims))]
    dims = [x.dims[a] for a in order]
    return m.call("transpose", [x.expr], dims, x.dtype, x.exact, axes=tuple(order))


def times(a: Dim, b: Dim) -> Dim:
    return tuple(x * y for x, y in zip(a, b, strict=True))


def plus(a: Dim, b: Dim) -> Dim:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def reshape(m: Maker) -> Value | None:
    x = m.some(None, 1)
    if x is None:
        return None
    rank = len(x.dims)
    if m.flip(0.4):
        axis = int(m.rng.integers(rank + 1))
        dims = [*x.dims[:axis], ONE, *x.dims[axis:]]
        return m.call("expand_dims", [x.expr], dims, x.dtype, x.exact, axis=axis)
    if rank > 1:
        at = int(m.rng.integers(rank - 1))
        dims = [*x.dims[:at], times(x.dims[at], x.dims[at + 1]), *x.dims[at + 2 :]]
        code = (*([0] * at), -3, -2) if at + 2 < rank else (*([0] * at), -3)
        return m.call("reshape", [x.expr], dims, x.dtype, x.exact, newshape=code)
    if x.dims[0] == fixed(4):
        return m.call("reshape", [x.expr], [fixed(2)] * 2, x.dtype, x.exact, newshape=(2, -1))
    return None


def concatenate(m: Maker) -> Value | None:
    x = m.some(None, 1)
    if x is None:
        return None
    axis = int(m.rng.integers(len(x.dims)))
    other = [m.choice(BASIC) if a == axis else d for a, d in enumerate(x.dims)]
    y = x if m.flip(0.2) else m.input(other, x.dtype)
    dims = [plus(d, y.dims[a]) if a == axis else d for a, d in enumerate(x.dims)]
    parts = relay.Tuple([x.expr, y.expr] if m.flip() else [y.expr, x.expr])
    return m.call("concatenate", [parts], dims, x.dtype, x.exact and y.exact, axis=axis)


def cut(m: Maker) -> Value | None:
    x = m.some(None, 1)
    if x is None:
        return None
    axis = int(m.rng.integers(len(x.dims)))
    begin, end, step = m.choice(
        [(1, 100, 1), (0, 2, 1), (-2, 100, 1), (0, 100, 2), (-1, -100, -1), (1, -1, 1), (2, 1, 1)]
    )
    size = tuple(len(range(*slice(begin, end, step).indices(n))) for n in x.dims[axis])
    dims = [size if a == axis else d for a, d in enumerate(x.dims)]
    attrs = {"begin": (begin,), "end": (end,), "strides": (step,), "axes": (axis,)}
    return m.call("strided_slice", [x.expr], dims, x.dtype, x.exact, **attrs)


def spread(m: Maker) -> Value | None:
    x = m.some(None, 1)
    if x is None or sum(len(v.dims) for v in m.graph.values) > 60:
        return None
    axis = int(m.rng.integers(len(x.dims)))
    kind = m.choice(["repeat", "reverse", "cumsum", "nn.pad", "take"])
    dims = list(x.dims)
    if kind == "repeat":
        dims[axis] = times(dims[axis], fixed(2))
        return m.call(kind, [x.expr], dims, x.dtype, x.exact, repeats=2, axis=axis)
    if kind == "nn.pad":
        dims[axis] = plus(dims[axis], fixed(3))
        width = tuple((1, 2) if a == axis else (0, 0) for a in range(len(dims)))
        fill = relay.const(np.array(1, x.dtype), x.dtype)
        return m.call(kind, [x.expr, fill], dims, x.dtype, x.exact, pad_width=width)
    if kind == "take":
        dims[axis] = fixed(3)
        picks = relay.const(np.array([0, 5, -1]), "int64")
        return m.call(kind, [x.expr, picks], dims, x.dtype, x.exact, axis=axis, mode="wrap")
    if kind == "cumsum" and x.dtype == "float32":
        return m.call(kind, [x.expr], dims, axis=axis)
    return m.call("reverse", [x.expr], dims, x.dtype, x.exact, axis=axis)


def repeated(m: Maker) -> Value | None:
    """tile, one-hot, a gather along one axis, or the parts of a split put together again."""
    x = m.some(None, 1)
    if x is None or sum(len(v.dims) for v in m.graph.values) > 60:
        return None
    kind, axis = m.choice(["tile", "one_hot", "gather", "split"]), int(m.rng.integers(len(x.dims)))
    dims = list(x.dims)
    if kind == "tile":
        reps = [2 if a == axis else 1 for a in range(len(dims))]
        dims[axis] = times(dims[axis], fixed(2))
        return m.call(kind, [x.expr], dims, x.dtype, x.exact, reps=tuple(reps))
    if kind == "one_hot":
        if x.dtype != "int32" or len(dims) > 3:
            return None
        on, off = (relay.const(v, "float32") for v in (2.0, -1.0))
        args = [x.expr, on, off]
        return m.call(kind, args, [*dims, fixed(5)], exact=True, depth=5, axis=-1, dtype="float32")
    if kind == "gather":
        if len(set(x.dims[axis])) > 1 or x.dims[axis][0] < 1:
            return None  # an empty axis has nothing to gather
        indices = m.input([fixed(2) if a == axis else d for a, d in enumerate(dims)], "int32")
        last = relay.const(x.dims[axis][0] - 1, "int32")
        zero = relay.const(0, "int32")
        inside = m.call("maximum", [indices.expr, zero], indices.dims, "int32")
        inside = m.call("minimum", [inside.expr, last], indices.dims, "int32")
        return m.call("gather", [x.expr, inside.expr], indices.dims, x.dtype, x.exact, axis=axis)
    if len(set(dims[axis])) > 1 or dims[axis][0] % 2 or not dims[axis][0]:
        return None
    half = fixed(dims[axis][0] // 2)
    halves = relay.split(x.expr, 2, axis=axis)
    dims[axis] = half
    parts = [Value(halves[k], tuple(dims), x.dtype, x.exact) for k in (0, 1)]
    m.graph.values.append(parts[1])
    pair = [p.expr for p in (parts if m.flip() else parts[::-1])]
    return m.call("subtract", pair, dims, x.dtype, x.exact)


def contract(m: Maker) -> Value | None:
    x = m.some("float32", 2)
    if x is None:
        return None
    if len(x.dims) == 3 and m.flip():
        y = m.input([x.dims[0], x.dims[2], m.choice(BASIC)])
        dims = [x.dims[0], x.dims[1], y.dims[2]]
        return m.call("nn.batch_matmul", [x.expr, y.expr], dims)
    y = m.input([m.choice([*BASIC, fixed(6)]), x.dims[-1]])
    return m.call("nn.dense", [x.expr, y.expr], [*x.dims[:-1], y.dims[0]], units=None)


STEPS: list[Step] = [
    *[unary, binary, binary, binary, divide, select, convert, reduce, reduce, arg, normalise],
    *[transpose, transpose, reshape, reshape, concatenate, cut, spread, repeated, repeated],
]
# Contractions take seconds to compile, so they are rare.
CONTRACTIONS = 0.02
