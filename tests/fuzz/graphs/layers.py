"""Steps of random graphs that are layers: products, convolutions, pooling, normalizations."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.draws import Unusable
from tests.fuzz.graphs.maker import Maker
from tests.fuzz.graphs.steps import dims_of
from tests.fuzz.graphs.world import Value


def matmul(m: Maker) -> None:
    v = m.value("f", least=1)
    k = v.dims[-1]
    draw = m.rng.random()
    if draw < 0.3:
        other = m.input([*v.dims[:-2][: int(m.rng.integers(0, 3))], k, m.dim()], v.dtype)
    elif draw < 0.45:
        other = m.input([k], v.dtype)
    elif draw < 0.7 and v.fixed(v.rank - 1):
        shape = (v.fixed(v.rank - 1), m.pick([1, 3, 16, 17]))
        other = m.const(m.rng.integers(-4, 5, shape) / 4, v.dtype)
    else:
        last = list(range(v.rank))
        if v.rank < 2:
            raise Unusable
        last[-1], last[-2] = last[-2], last[-1]
        other = m.emit("Transpose", v, perm=last)[0]
    m.emit("MatMul", v, other)


def gemm(m: Maker) -> None:
    v = m.value("f", least=2, most=2)
    ta, tb = int(m.chance(0.5)), int(m.chance(0.5))
    k, n = v.dims[0 if ta else 1], m.dim()
    b = m.input([n, k] if tb else [k, n], v.dtype)
    rows = v.dims[1 if ta else 0]
    one = (1,) * len(n)
    c = m.input(m.pick([[n], [rows, one], [one, one], [rows, n], []]), v.dtype)
    bias = c if m.chance(0.7) else None
    m.emit(
        "Gemm", v, b, bias, transA=ta, transB=tb, alpha=m.pick([1.0, 0.5]), beta=m.pick([1.0, 2.0])
    )


def einsum(m: Maker) -> None:
    v = m.value("f", least=2, most=2)
    rule, dims = m.pick([
        ("ij,jk->ik", [v.dims[1], m.dim()]),
        ("ij,ij->i", list(v.dims)),
        ("ij,kj->ki", [m.dim(), v.dims[1]]),
        ("ij,j->i", [v.dims[1]]),
        ("ij,k->jki", [m.dim()]),
    ])  # fmt: skip
    m.emit("Einsum", v, m.input(dims, v.dtype), equation=rule)


def image(m: Maker, dims: int) -> Value:
    """A value with a batch, static channels and some spatial axes."""
    found = [v for v in m.values if v.rank == dims + 2 and v.kind == "f" and v.fixed(1)]
    if found and m.chance(0.6):
        return m.pick(found)
    channels = (m.pick([1, 2, 4]),) * len(m.basics[0])
    sizes = [m.dim() for _ in range(dims)]
    return m.input([m.pick(m.basics), channels, *sizes], m.pick(["float32"] * 4 + ["float64"]))


def windows(m: Maker, dims: int) -> dict[str, list[int] | str | int]:
    found: dict[str, list[int] | str | int] = {}
    if m.chance(0.4):
        found["strides"] = [m.pick([1, 2, 3]) for _ in range(dims)]
    if m.chance(0.3):
        found["dilations"] = [m.pick([1, 2]) for _ in range(dims)]
    if m.chance(0.25) and "dilations" not in found:
        found["auto_pad"] = m.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif m.chance(0.6):
        found["pads"] = [int(x) for x in m.rng.integers(0, 2, 2 * dims)]
    return found


def conv(m: Maker) -> None:
    dims = m.pick([1, 2, 2])
    v = image(m, dims)
    channels = v.fixed(1) or 0
    groups = m.pick([g for g in (1, 2, channels) if channels % g == 0])
    kernel = [m.pick([1, 2, 3]) for _ in range(dims)]
    more = windows(m, dims)
    op = m.pick(["Conv", "Conv", "ConvTranspose"])
    outs = groups * m.pick([1, 2, 3])
    shape = [outs, channels // groups, *kernel]
    if op == "ConvTranspose":
        shape = [channels, outs // groups, *kernel]
        if "auto_pad" in more:
            raise Unusable
        if m.chance(0.3) and "strides" in more:
            more["output_padding"] = [s - 1 for s in more["strides"]]  # type: ignore[operator]
    w = m.const(m.rng.integers(-4, 5, shape) / 4, v.dtype)
    bias = m.const(m.rng.integers(-4, 5, outs) / 4, v.dtype) if m.chance(0.5) else None
    m.emit(op, v, w, bias, group=groups, **more)


def pool(m: Maker) -> None:
    dims = m.pick([1, 2, 2])
    v = image(m, dims)
    op = m.pick(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"])
    if op.startswith("Global"):
        if dims == 1:
            raise Unusable  # ONNX's evaluator drops an axis
        m.emit(op, v)
        return
    more = windows(m, dims)
    more["kernel_shape"] = [m.pick([1, 2, 3]) for _ in range(dims)]
    if "auto_pad" not in more and m.chance(0.3):
        more["ceil_mode"] = 1
    if op == "AveragePool" and m.chance(0.4):
        more["count_include_pad"] = 1
    m.emit(op, v, **more)


def norm(m: Maker) -> None:
    op = m.pick(
        "BatchNormalization InstanceNormalization GroupNormalization LayerNormalization "
        "LpNormalization MeanVarianceNormalization LRN Softmax LogSoftmax Hardmax".split()
    )
    if op in ("Softmax", "LogSoftmax", "LpNormalization"):
        v = m.value("f", least=1)
        m.emit(op, v, axis=int(m.rng.integers(-v.rank, v.rank)))
    elif op == "Hardmax":
        v = m.value("f", least=1, exact=True)
        m.emit(op, v, axis=int(m.rng.integers(-v.rank, v.rank)))
    elif op == "LayerNormalization":
        v = m.value("f", least=1)
        axis = int(m.rng.integers(v.rank))
        scale = m.input(list(v.dims[axis:]), v.dtype)
        bias = m.input(list(v.dims[axis:]), v.dtype) if m.chance(0.5) else None
        m.emit(op, v, scale, bias, axis=axis)
    else:
        v = image(m, m.pick([1, 2]))
        channels = v.fixed(1) or 1
        scale, bias, mean = (m.const(m.rng.integers(-4, 5, channels) / 4, v.dtype) for _ in "abc")
        if op == "BatchNormalization":
            m.emit(op, v, scale, bias, mean, m.const(np.ones(channels), v.dtype))
        elif op == "InstanceNormalization":
            m.emit(op, v, scale, bias)
        elif op == "GroupNormalization":
            m.emit(op, v, scale, bias, num_groups=m.pick([1, channels]))
        elif op == "LRN":
            m.emit(op, v, size=m.pick([1, 3]))
        elif v.rank == 4:
            m.emit(op, v)
        else:
            raise Unusable


def resize(m: Maker) -> None:
    v = image(m, m.pick([1, 2]))
    if v.dtype != "float32":
        raise Unusable
    mode = m.pick(["nearest", "linear", "cubic"])
    way = m.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    more = {"mode": mode, "coordinate_transformation_mode": way}
    if mode == "nearest":
        more["nearest_mode"] = m.pick(["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"])
    spatial = v.rank - 2
    if m.chance(0.5):
        scales = [1.0, 1.0, *(m.pick([0.5, 2.0, 3.0, 1.5]) for _ in range(spatial))]
        m.emit("Resize", v, None, m.const(scales, "float32"), **more)
    else:
        sizes = m.ints(*(m.pick([1, 2, 5, 8]) for _ in range(spatial)))
        parts = m.emit("Concat", dims_of(m, v, 0, 1), sizes, axis=0)[0]
        m.emit("Resize", v, None, None, parts, **more)


def blocks(m: Maker) -> None:
    v = image(m, 2)
    op = m.pick(["DepthToSpace", "SpaceToDepth", "CenterCropPad", "ReverseSequence"])
    if op == "CenterCropPad":
        axes = [2, 3] if m.chance(0.5) else [3]
        m.emit(op, v, m.ints(*(m.pick([1, 3, 4]) for _ in axes)), axes=axes)
    elif op == "ReverseSequence":
        v = m.value("fi", least=2)
        if -1 in v.dims[0] or -1 in v.dims[1]:
            raise Unusable
        lens = [
            m.rng.integers(0, s + 1, b).astype("int64") for b, s in zip(*v.dims[:2], strict=True)
        ]
        m.emit(op, v, m.given([v.dims[0]], lens), batch_axis=0, time_axis=1)
    elif op == "DepthToSpace":
        m.emit(op, v, blocksize=2, mode=m.pick(["DCR", "CRD"]))
    else:
        m.emit(op, v, blocksize=2)


def quantized(m: Maker) -> None:
    dtype = m.pick(["uint8", "int8"])
    draw = m.rng.random()
    zero = m.const(m.pick([0, 3]), dtype)
    if draw < 0.4:
        v = m.value("f", exact=True, dtypes=["float32"])
        q = m.emit("QuantizeLinear", v, m.const(m.pick([0.25, 0.5]), "float32"), zero)[0]
        m.emit("DequantizeLinear", q, m.const(0.25, "float32"), zero)
    elif draw < 0.7:
        v = m.value("iu", dtypes=["uint8", "int8"], least=1)
        m.emit("DequantizeLinear", v, m.const(0.25, "float32"), m.const(1, v.dtype))
    else:
        v = m.value("iu", dtypes=["uint8", "int8"], least=2)
        other = m.input([v.dims[-1], m.dim()], m.pick(["uint8", "int8"]))
        m.emit("MatMulInteger", v, other, m.const(1, v.dtype), m.const(2, other.dtype))


STEPS = [
    *[matmul] * 2, gemm, einsum, *[conv] * 2, *[pool] * 2, *[norm] * 3, resize, blocks, quantized,
]  # fmt: skip
