"""Steps of random graphs: each draws operands from a maker and appends one or a few nodes."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.fuzz.graphs.draws import Unusable
from tests.fuzz.graphs.maker import DTYPES, Maker, proto
from tests.fuzz.graphs.world import Value

SMOOTH = (
    "Abs Neg Sigmoid Tanh Relu LeakyRelu Elu Celu Selu Softplus Softsign HardSigmoid HardSwish "
    "Mish Gelu Erf Sin Cos Atan Identity Exp Sinh Cosh Asinh"
).split()
ROUNDING = "Ceil Floor Round Sign IsNaN IsInf ThresholdedRelu Shrink".split()


def unary(m: Maker) -> None:
    if m.chance(0.3):
        op = m.pick(ROUNDING)
        m.emit(op, m.value(exact=True))
    else:
        m.emit(m.pick(SMOOTH), m.value())


def unary_integer(m: Maker) -> None:
    v = m.value("iub", exact=True)
    if v.kind == "b":
        m.emit("Not", v)
    else:
        ops = ["BitwiseNot", "Identity"] + (["Abs", "Neg", "Sign", "Relu"] if v.kind == "i" else [])
        m.emit(m.pick(ops), v)


def partner(m: Maker, v: Value) -> Value:
    """A value of the same type that may broadcast with another."""
    draw = m.rng.random()
    if draw < 0.4:
        return m.value(v.kind, dtypes=[v.dtype])
    if draw < 0.55:
        shape = [] if m.chance(0.5) else [1] * int(m.rng.integers(1, 3))
        return m.const(m.rng.integers(1, 4, shape), v.dtype)
    dims = [d if m.chance(0.7) else (1,) * len(d) for d in v.dims]
    return m.input(dims[int(m.rng.integers(0, len(dims) + 1)) :], v.dtype)


def shuffled(m: Maker, a: Value, b: Value) -> list[Value]:
    return [a, b] if m.chance(0.5) else [b, a]


def binary(m: Maker) -> None:
    op = m.pick("Add Sub Mul Add Sub Mul Div Max Min Sum Mean Pow PRelu".split())
    v = m.value("f" if op in ("Mean", "PRelu", "Pow") else "fi")
    other = partner(m, v)
    if op == "Div":
        m.emit("Div", v, m.emit("Add", m.emit("Abs", other)[0], m.const(1, v.dtype))[0])
    elif op == "Pow":
        m.emit("Pow", v, m.const(m.pick([2, 3, 0, 1]), v.dtype))
    elif op in ("Max", "Min", "Sum", "Mean") and m.chance(0.3):
        m.emit(op, v, other, partner(m, v))
    elif op == "PRelu":
        m.emit(op, v, other)
    else:
        m.emit(op, *shuffled(m, v, other))


def integers(m: Maker) -> None:
    v = m.value("iu", exact=True)
    other = partner(m, v)
    op = m.pick("Mod BitwiseAnd BitwiseOr BitwiseXor BitShift Add Mul Sub Min Max".split())
    if op == "Mod":
        divisor = m.const(m.pick([2, 3, 5]), v.dtype)
        m.emit("Mod", v, divisor, fmod=int(m.chance(0.3)))
    elif op == "BitShift":
        if v.kind != "u":
            raise Unusable
        m.emit(op, v, m.const(m.pick([0, 1, 3]), v.dtype), direction=m.pick(["LEFT", "RIGHT"]))
    else:
        m.emit(op, *shuffled(m, v, other))


def compare(m: Maker) -> None:
    op = m.pick("Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor".split())
    v = m.value("b" if op in ("And", "Or", "Xor") else "fiu", exact=True)
    other = partner(m, v)
    if not other.exact:
        raise Unusable
    m.emit(op, *shuffled(m, v, other))


def where(m: Maker) -> None:
    v = m.value("fiub")
    cond = m.value("b") if m.chance(0.5) else m.input(list(v.dims), "bool")
    m.emit("Where", cond, *shuffled(m, v, partner(m, v)))


def clip(m: Maker) -> None:
    v = m.value("fi")
    low, high = (m.const(x, v.dtype) if m.chance(0.8) else None for x in (-1, 1))
    m.emit("Clip", v, low, high)


def cast(m: Maker) -> None:
    dtype = m.pick(DTYPES[8:])
    v = m.value("fiub", exact=True)
    if np.dtype(dtype).kind == "u" and not v.within(0, 255):
        raise Unusable
    if np.dtype(dtype).kind == "i" and not v.within(-128, 127):
        raise Unusable
    if v.kind == "f" and dtype == v.dtype:
        raise Unusable
    if m.chance(0.2):
        like = m.value(np.dtype(dtype).kind, dtypes=[dtype])
        m.emit("CastLike", v, like)
    else:
        m.emit("Cast", v, to=proto(dtype))


def some_axes(m: Maker, rank: int) -> list[int]:
    count = int(m.rng.integers(1, rank + 1))
    axes = [int(a) for a in m.rng.permutation(rank)[:count]]
    return [a - rank if m.chance(0.3) else a for a in axes]


def reduction(m: Maker) -> None:
    v = m.value("fi", least=1)
    ops = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare"
    op = m.pick([*ops.split(), "ReduceLogSumExp"] if v.kind == "f" else ops.split()[::2])
    if v.kind == "i" and op not in ("ReduceMax", "ReduceMin") and v.dtype not in ("int32", "int64"):
        raise Unusable
    keep = int(m.chance(0.5))
    draw = m.rng.random()
    if draw < 0.15:
        m.emit(op, v, keepdims=keep, noop_with_empty_axes=int(m.chance(0.3)))
    elif keep:
        m.emit(op, v, m.ints(*some_axes(m, v.rank)), keepdims=1)
    else:
        m.emit(op, v, m.const(some_axes(m, v.rank), "int64"), keepdims=0)


def position(m: Maker) -> None:
    v = m.value("fi", least=1, exact=True)
    axis = int(m.rng.integers(-v.rank, v.rank))
    last = int(m.chance(0.4))
    m.emit(m.pick(["ArgMax", "ArgMin"]), v, axis=axis, keepdims=int(m.chance(0.5)),
           select_last_index=last)  # fmt: skip


def dims_of(m: Maker, v: Value, *axes: int) -> Value:
    """A vector of some dims, by Shape and Gather or Slice."""
    shape = m.emit("Shape", v)[0]
    if len(axes) == 1 and m.chance(0.3):
        at = axes[0]
        more = {} if at + 1 == v.rank else {"end": at + 1}
        return m.emit("Shape", v, start=at, **more)[0]
    return m.emit("Gather", shape, m.const(list(axes), "int64"), axis=0)[0]


def reshape(m: Maker) -> None:
    v = m.value("fiub")
    draw = m.rng.random()
    if draw < 0.15 or v.rank < 2:
        m.emit("Reshape", v, m.ints(-1))
    elif draw < 0.4:
        at = int(m.rng.integers(v.rank - 1))
        dims = [0] * at + [-1] + [v.fixed(k) or None for k in range(at + 2, v.rank)]
        if None in dims:
            parts = [m.const([d], "int64") for d in dims[: at + 1]]
            parts += [dims_of(m, v, k) for k in range(at + 2, v.rank)]
            m.emit("Reshape", v, m.emit("Concat", *parts, axis=0)[0])
        else:
            m.emit("Reshape", v, m.ints(*(d or 0 for d in dims)))
    elif draw < 0.6:
        axis = int(m.rng.integers(v.rank))
        k = m.pick([2, 3, 4])
        parts = [m.const([0], "int64") for _ in range(axis)]
        parts += [m.const(m.pick([[k, -1], [-1, k], [1, -1]]), "int64")]
        parts += [dims_of(m, v, j) for j in range(axis + 1, v.rank)]
        m.emit("Reshape", v, m.emit("Concat", *parts, axis=0)[0])
    elif draw < 0.75:
        order = [int(a) for a in m.rng.permutation(v.rank)]
        m.emit("Reshape", v, dims_of(m, v, *order), allowzero=int(m.chance(0.3)))
    elif draw < 0.9:
        m.emit("Flatten", v, axis=int(m.rng.integers(-v.rank, v.rank + 1)))
    else:
        other = m.value("fiub")
        m.emit("Reshape", v, m.emit("Shape", other)[0])


def transpose(m: Maker) -> None:
    v = m.value("fiub", least=1)
    if m.chance(0.2):
        m.emit("Transpose", v)
    else:
        m.emit("Transpose", v, perm=[int(a) for a in m.rng.permutation(v.rank)])


def unsqueeze(m: Maker) -> None:
    v = m.value("fiub", most=4)
    axes = sorted({int(m.rng.integers(-v.rank - 1, v.rank + 1)) for _ in range(1)})
    made = m.emit("Unsqueeze", v, m.const(axes, "int64"))[0]
    if m.chance(0.3):
        m.emit("Squeeze", made, m.const(axes, "int64"))


def squeeze(m: Maker) -> None:
    v = m.value("fiub", least=1)
    ones = [k for k in range(v.rank) if v.fixed(k) == 1]
    if not ones:
        raise Unusable
    m.emit("Squeeze", v, m.const([m.pick(ones)], "int64"))


def slices(m: Maker) -> None:
    v = m.value("fiub", least=1)
    axes = some_axes(m, v.rank)[:2]
    starts, ends, steps = [], [], []
    for _ in axes:
        step = m.pick([1, 1, 1, 2, 3, -1, -2])
        low, high = m.pick([0, 1, 2, -3, -1000]), m.pick([1, 3, 7, -1, 2**31, 2**63 - 1])
        if step < 0:
            low, high = m.pick([-1, 2, 1000, 2**31 - 1]), m.pick([0, -3, -1000, -(2**63)])
        starts.append(low), ends.append(high), steps.append(step)
    if m.chance(0.2) and len(axes) == 1 and steps[0] > 0:
        other = m.value("fiub", least=1)
        at = int(m.rng.integers(other.rank))
        m.emit("Slice", v, m.ints(*starts), dims_of(m, other, at), m.ints(*axes), m.ints(*steps))
    else:
        m.emit("Slice", v, m.ints(*starts), m.ints(*ends), m.ints(*axes), m.ints(*steps))


def indices(m: Maker, v: Value, axis: int, shape_rank: int | None = None) -> Value:
    """Indices of an axis: constants, or an input."""
    sizes = [s for s in v.dims[axis] if s >= 0]
    least = min(sizes)
    rank = int(m.rng.integers(0, 3)) if shape_rank is None else shape_rank
    dtype = m.pick(["int64", "int32"])
    if least < 1 or m.chance(0.5):
        dims = [m.dim() for _ in range(rank)]
        if any(-1 in d for d in dims):
            raise Unusable
        arrays = []
        for w, size in enumerate(v.dims[axis]):
            shape = [d[w] for d in dims]
            if size < 1 and np.prod(shape) > 0:
                size = 1  # out of range: the result is undefined
            arrays.append(m.rng.integers(-max(size, 1), max(size, 1), shape).astype(dtype))
        return m.given(dims, arrays)
    shape = [int(m.rng.integers(1, 4)) for _ in range(rank)]
    return m.const(m.rng.integers(-least, least, shape), dtype)


def gather(m: Maker) -> None:
    v = m.value("fiub", least=1)
    axis = int(m.rng.integers(v.rank))
    m.emit("Gather", v, indices(m, v, axis), axis=axis - v.rank if m.chance(0.2) else axis)


def near(m: Maker, v: Value, axis: int) -> Value:
    """Indices of the shape of a value beside one axis, for operators by elements."""
    dims = list(v.dims)
    if any(-1 in d for d in dims):
        raise Unusable
    dims[axis] = m.pick([dims[axis], (2,) * len(dims[axis]), m.basics[0]])
    arrays = []
    for w, size in enumerate(v.dims[axis]):
        shape = [d[w] for d in dims]
        arrays.append(m.rng.integers(-max(size, 1), max(size, 1), shape).astype("int64"))
    return m.given(dims, arrays)


def gather_elements(m: Maker) -> None:
    v = m.value("fiub", least=1)
    axis = int(m.rng.integers(v.rank))
    m.emit("GatherElements", v, near(m, v, axis), axis=axis)


def scatter_elements(m: Maker) -> None:
    v = m.value("fi", least=1)
    axis = int(m.rng.integers(v.rank))
    at = near(m, v, axis)
    red = m.pick(["none", "add", "mul", "max", "min"])
    if red == "none":  # distinct positions: constants of one column
        dims = list(v.dims)
        dims[axis] = (1,) * len(dims[axis])
        arrays = [
            m.rng.integers(-max(v.dims[axis][w], 1), max(v.dims[axis][w], 1), [d[w] for d in dims])
            for w in range(len(dims[axis]))
        ]
        at = m.given(dims, [np.asarray(a, "int64") for a in arrays])
    updates = m.input(list(at.dims), v.dtype)
    m.emit("ScatterElements", v, at, updates, axis=axis, reduction=red)


def gather_nd(m: Maker) -> None:
    v = m.value("fiub", least=1)
    depth = int(m.rng.integers(1, v.rank + 1))
    count = m.dim()
    if -1 in count or any(-1 in v.dims[k] for k in range(depth)):
        raise Unusable
    arrays = []
    for w in range(len(count)):
        columns = [m.rng.integers(0, max(v.dims[k][w], 1), count[w]) for k in range(depth)]
        arrays.append(
            np.stack(columns, -1).astype("int64") if columns else np.zeros((0, 0), "int64")
        )
    m.emit("GatherND", v, m.given([count, (depth,) * len(count)], arrays, known=True))


def scatter_nd(m: Maker) -> None:
    v = m.value("fi", least=1)
    count = m.dim()
    if -1 in count or -1 in v.dims[0]:
        raise Unusable
    arrays = [
        m.rng.integers(0, max(v.dims[0][w], 1), (count[w], 1)).astype("int64")
        for w in range(len(count))
    ]
    at = m.given([count, (1,) * len(count)], arrays, known=True)
    updates = m.input([count, *v.dims[1:]], v.dtype)
    m.emit("ScatterND", v, at, updates, reduction=m.pick(["add", "mul", "max", "min"]))


def concat(m: Maker) -> None:
    v = m.value("fiub", least=1)
    axis = int(m.rng.integers(v.rank))
    parts = [v]
    for _ in range(int(m.rng.integers(1, 3))):
        dims = list(v.dims)
        dims[axis] = m.dim()
        fits = [
            o
            for o in m.values
            if o.dtype == v.dtype
            and o.rank == v.rank
            and all(
                a == b for k, (a, b) in enumerate(zip(o.dims, v.dims, strict=True)) if k != axis
            )
        ]
        parts.append(m.pick(fits) if m.chance(0.5) else m.input(dims, v.dtype))
    m.emit("Concat", *parts, axis=axis - v.rank if m.chance(0.2) else axis)


def split(m: Maker) -> None:
    v = m.value("fiub", least=1)
    axis = int(m.rng.integers(v.rank))
    size = v.fixed(axis)
    if size is not None and size >= 2 and m.chance(0.6):
        cut = int(m.rng.integers(0, size + 1))
        m.emit("Split", v, m.ints(cut, size - cut), axis=axis, outs=2)
    else:
        parts = m.pick([2, 3])
        m.emit("Split", v, axis=axis, num_outputs=parts, outs=parts)


def pad(m: Maker) -> None:
    v = m.value("fi", least=1)
    mode = m.pick(["constant", "constant", "reflect", "edge", "wrap"])
    axes = some_axes(m, v.rank)[:2]
    low = -2 if mode == "constant" else 0
    widths = [int(x) for x in m.rng.integers(low, 4, 2 * len(axes))]
    value = m.const(m.pick([0, 1, -2]), v.dtype) if mode == "constant" and m.chance(0.5) else None
    m.emit("Pad", v, m.ints(*widths), value, m.const(axes, "int64"), mode=mode)


def expand(m: Maker) -> None:
    v = m.value("fiub")
    if m.chance(0.5):
        other = m.value("fiub", least=1)
        m.emit("Expand", v, m.emit("Shape", other)[0])
    else:
        dims = [1 if m.chance(0.6) else m.pick([2, 3]) for _ in range(int(m.rng.integers(1, 4)))]
        m.emit("Expand", v, m.ints(*dims))


def tile(m: Maker) -> None:
    v = m.value("fiub", least=1, most=4)
    if m.chance(0.3):
        other = m.value("fiub", least=1)
        rest = [m.const([1], "int64")] * (v.rank - 1)
        parts = [dims_of(m, other, int(m.rng.integers(other.rank))), *rest]
        reps = m.emit("Concat", *parts, axis=0)[0]
    else:
        reps = m.ints(
            *(m.pick([1, 1, 2, 3, 0] if m.chance(0.2) else [1, 2]) for _ in range(v.rank))
        )
    m.emit("Tile", v, reps)


def sizes(m: Maker) -> None:
    v = m.value("fiub", least=1)
    op = m.pick(["Shape", "Size", "ConstantOfShape", "Range", "EyeLike", "Trilu", "OneHot"])
    if op == "Shape":
        m.emit(op, v, start=int(m.rng.integers(-v.rank, v.rank)))
    elif op == "Size":
        m.emit(op, v)
    elif op == "ConstantOfShape":
        fill = helper.make_tensor("f", proto("float32"), [1], [1.5])
        m.emit(op, m.emit("Shape", v)[0], value=fill)
    elif op == "Range":
        at = int(m.rng.integers(v.rank))
        end = m.emit("Squeeze", dims_of(m, v, at), m.const([0], "int64"))[0]
        start, step = m.pick([0, 1, -2]), m.pick([1, 2, 3])
        made = m.emit("Range", m.const(start, "int64"), end, m.const(step, "int64"))[0]
        m.emit("Cast", made, to=proto("float32"))
    elif op == "EyeLike":
        v = m.value("fi", least=2, most=2)
        m.emit(op, v, k=m.pick([0, 1, -1]), dtype=proto("float32"))
    elif op == "Trilu":
        v = m.value("fi", least=2)
        m.emit(op, v, m.const(m.pick([0, 1, -1, 5]), "int64"), upper=int(m.chance(0.5)))
    else:
        at = m.value("i", exact=True, most=3, dtypes=["int64", "int32"])
        m.emit(op, at, m.const(4, "int64"), m.const([0, 1], "float32"),
               axis=m.pick([-1, 0]))  # fmt: skip


def from_data(m: Maker) -> None:
    """Operators whose results have sizes of the data."""
    op = m.pick(["NonZero", "Compress", "TopK", "TopK", "Unique"])
    v = m.value("fi", least=1, exact=True)
    axis = int(m.rng.integers(v.rank))
    if op == "NonZero":
        m.emit(op, v)
    elif op == "Compress":
        cond = m.input([v.dims[axis]], "bool") if m.chance(0.7) else m.const([True, False, True])
        m.emit(op, v, cond, axis=axis)
    elif op == "TopK":
        k = m.ints(m.pick([1, 2, 3]))
        if m.chance(0.3):
            k = dims_of(m, v, axis)
        m.emit(op, v, k, axis=axis, largest=int(m.chance(0.5)), outs=2)
    else:
        m.emit(op, v, outs=1, sorted=1)


def cumulative(m: Maker) -> None:
    v = m.value("fi", least=1)
    axis = m.const(int(m.rng.integers(-v.rank, v.rank)), "int64")
    m.emit("CumSum", v, axis, exclusive=int(m.chance(0.3)), reverse=int(m.chance(0.4)))


STEPS = [
    *[unary, binary, binary] * 2, unary_integer, integers, compare, where, clip, cast,
    *[reduction] * 3, position, *[reshape] * 3, *[transpose] * 2, unsqueeze, squeeze,
    *[slices] * 2, *[gather] * 2, gather_elements, scatter_elements, gather_nd, scatter_nd,
    *[concat] * 2, split, *[pad] * 2, *[expand] * 2, tile, *[sizes] * 2, *[from_data] * 2,
    cumulative,
]  # fmt: skip
