"""ONNX models, through TVM's importer with its losses of dynamic shapes repaired.

The repairs replace converters of TVM for the time of one import only.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from keyword import iskeyword
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_disc.errors import BadInput, DiscError, TypeMismatch, Unsupported
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.onnx_lstm import lstm

_IMPORTING = threading.RLock()


def from_onnx(model: Any) -> Any:
    """The Relax module of an ONNX model, or of the file at a path; its weights are constants.

    Raises:
        Unsupported: the package `onnx` is not installed, or TVM's importer lacks an operator.
        BadInput: there is no such file, or it holds no model that could be imported.
    """
    require("onnx", "onnx", "from_onnx")
    import onnx
    from tvm.relax.frontend.onnx import onnx_frontend

    read, folder = model, ""
    if isinstance(model, str | os.PathLike):
        read, folder = _load(onnx, model), str(Path(model).parent)
    if not isinstance(read, onnx.ModelProto):
        raise TypeMismatch(f"expected an ONNX model or a path, found {type(model).__name__}")
    _check(onnx, model)
    try:
        read = plain_dims(read)
        with repaired(onnx_frontend, folder):
            # TVM's own entry serializes the model to check it: a third of GPT-2's compilation.
            importer = onnx_frontend.ONNXGraphImporter(None, "float32")
            return importer.from_onnx(read.graph, _opset(read))
    except DiscError:
        raise
    except tvm.error.OpNotImplemented as error:
        raise Unsupported(f"TVM cannot import this ONNX model: {error}") from error
    except Exception as error:  # of any class: the importer trusts what it reads
        what = f"{type(error).__name__}: {str(error)[:400]}"
        hint = "onnx.checker.check_model may say what is wrong with it"
        raise BadInput(f"TVM cannot import this ONNX model ({what}); {hint}") from error


def _load(onnx: Any, path: str | os.PathLike[str]) -> Any:
    """The model without the weights that lie in files beside it: they are read when they are
    wanted, and not kept."""
    if not Path(path).is_file():
        raise BadInput(f"no such ONNX file: {os.fspath(path)!r}")
    try:
        return onnx.load(os.fspath(path), load_external_data=False)
    except Exception as error:  # protobuf's own class, which moved between its releases
        raise BadInput(f"{os.fspath(path)!r} holds no ONNX model: {error}") from error


def _check(onnx: Any, model: Any) -> None:
    """Warn of what ONNX's checker finds; it refuses much that can be compiled."""
    try:
        onnx.checker.check_model(model if isinstance(model, onnx.ModelProto) else os.fspath(model))
    except Exception as error:  # the checker's own class, or protobuf's
        warnings.warn(f"ONNX's checker: {error}", stacklevel=3)


def _opset(model: Any) -> int:
    """Of ONNX's own operators."""
    own = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    return own[0] if own else 1


def plain_dims(model: Any) -> Any:
    """Input dims without a name, or whose name is no identifier (`2*h`), get one of their own.

    TVM never solves an equation for a symbol, so a symbol must occur alone in some input; and
    sizes are computed from the names.
    """
    if all(_is_plain(dim) for dim in _dims(model.graph.input)):
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    taken = {dim.dim_param for dim in _dims(copy.graph.input)}
    fresh = (name for k in count() if (name := f"dim_{k}") not in taken)
    renames: dict[str, str] = {}
    for dim in _dims(copy.graph.input):
        if not dim.dim_param and not _is_plain(dim):
            dim.dim_param = next(fresh)
        elif not _is_plain(dim):
            renames.setdefault(dim.dim_param, next(fresh))
    for dim in _dims((*copy.graph.input, *copy.graph.output, *copy.graph.value_info)):
        if dim.dim_param in renames:
            dim.dim_param = renames[dim.dim_param]
    return copy


def _dims(values: Any) -> Iterator[Any]:
    """Every dim that is declared."""
    for value in values:
        yield from value.type.tensor_type.shape.dim


def _is_plain(dim: Any) -> bool:
    """Whether a dim is a number or has a name that can stand in a formula."""
    if dim.HasField("dim_value"):
        return bool(dim.dim_value >= 0)
    return bool(dim.dim_param.isidentifier() and not iskeyword(dim.dim_param))


@contextmanager
def repaired(frontend: Any, folder: str = "") -> Iterator[None]:
    """TVM's ONNX importer with the converters below, restored on exit.

    Weights that are not in the model are read from files in ``folder``.
    """
    replaced: list[tuple[Any, str, Any]] = []
    with _IMPORTING:
        try:
            for class_name, method, make in REPAIRS:
                owner = getattr(frontend, class_name)
                original = vars(owner)[method]
                replaced.append((owner, method, original))
                setattr(owner, method, classmethod(make(frontend, original.__func__)))
            converters = frontend._get_convert_map
            replaced.append((frontend, "_get_convert_map", converters))
            added = {name: make(frontend) for name, make in ADDED}
            frontend._get_convert_map = lambda: {**converters(), **added}
            replaced.append((frontend, "get_numpy", frontend.get_numpy))
            frontend.get_numpy = partial(_array, folder)
            yield
        finally:
            for owner, method, original in replaced:
                setattr(owner, method, original)


def _array(folder: str, tensor: Any) -> Any:
    """The elements of a tensor of the model."""
    from onnx.numpy_helper import to_array

    try:
        return to_array(tensor, folder)
    except Exception as error:  # the checker's own class: no file, or a short one
        raise BadInput(f"ONNX tensor {tensor.name!r}: {error}") from error


def _range(frontend: Any, original: Any) -> Any:
    """`Range` over symbolic integers is an `arange` of known length, not of a fresh symbol."""

    def convert(cls: Any, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        bounds = [_integer(frontend.get_constant(x, params)) for x in inputs]
        if any(b is None for b in bounds) or all(isinstance(b, tirx.IntImm) for b in bounds):
            return original(cls, bb, inputs, attr, params)
        return relax.op.arange(*bounds, "int64")

    return convert


def _integer(x: Any) -> Any:
    """An int64 expression, or None."""
    if isinstance(x, tvm.ir.GenericConst):
        value = x.value.numpy()
        whole = value.size == 1 and value.dtype.kind == "i"
        return tirx.IntImm("int64", int(value.item())) if whole else None
    if tvm.ir.is_prim_expr(x) and str(x.ty.dtype) == "int64":
        return x
    return None


def _reshape(frontend: Any, original: Any) -> Any:
    """`Reshape` of a symbolic integer to [-1] or [1] is a shape of one dim."""

    def convert(cls: Any, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if tvm.ir.is_prim_expr(inputs[0]):
            return relax.ShapeExpr([inputs[0]])
        return original(cls, bb, inputs, attr, params)

    return convert


def _expand(frontend: Any, original: Any) -> Any:
    """`Expand` broadcasts both ways: where 1 is asked for, a dim stays as it is."""

    def convert(cls: Any, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, dims = inputs[0], getattr(inputs[0].ty, "shape", None)
        target = _wanted(bb, frontend.get_constant(inputs[1], params))
        if not isinstance(dims, relax.ShapeExpr) or target is None:
            return original(cls, bb, inputs, attr, params)
        have, rank = list(dims.values), max(len(dims.values), len(target))
        one = tirx.IntImm("int64", 1)
        have = [one] * (rank - len(have)) + have
        target = [one] * (rank - len(target)) + target
        wide = [_both_ways(d, t) for d, t in zip(have, target, strict=True)]
        return relax.op.broadcast_to(x, relax.ShapeExpr(wide))

    return convert


def _both_ways(dim: Any, wanted: Any) -> Any:
    one = tirx.IntImm("int64", 1)
    if isinstance(wanted, tirx.IntImm):
        return dim if int(wanted) in (1, -1) else wanted
    if isinstance(dim, tirx.IntImm) and int(dim) == 1:
        return wanted
    return tirx.Select(tirx.EQ(wanted, one), dim, wanted)


def _wanted(bb: Any, shape: Any) -> list[Any] | None:
    """The dims that a shape operand asks for; those that only the data knows are read then."""
    if isinstance(shape, tvm.ir.GenericConst):
        return [tirx.IntImm("int64", int(v)) for v in shape.value.numpy().reshape(-1)]
    if isinstance(shape, relax.ShapeExpr):
        return list(shape.values)
    if tvm.ir.is_prim_expr(shape):
        return [shape]
    length = shape.ty.shape.values if isinstance(shape.ty.shape, relax.ShapeExpr) else []
    if len(length) != 1 or not isinstance(length[0], tirx.IntImm):
        return None
    dims = [tirx.Var(f"wanted_{k}", "int64") for k in range(int(length[0]))]
    read = bb.emit(relax.op.tensor_to_shape(shape))
    bb.match_cast(read, relax.ShapeType(dims))
    return dims


def _where(frontend: Any, original: Any) -> Any:
    """`Where` of a dim and of a tensor: the dim is a tensor, too."""

    def convert(cls: Any, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if any(isinstance(x.ty, relax.TensorType) for x in inputs):
            inputs = [_as_tensor(bb, x) for x in inputs]
        return original(cls, bb, inputs, attr, params)

    return convert


def _as_tensor(bb: Any, x: Any) -> Any:
    if not tvm.ir.is_prim_expr(x):
        return x
    line = bb.normalize(relax.op.shape_to_tensor(relax.ShapeExpr([x])))
    return bb.normalize(relax.op.reshape(line, relax.ShapeExpr([])))


def _resize(frontend: Any, original: Any) -> Any:
    """`Resize` of an image to a size computed from dims, which TVM takes for integers."""

    def convert(cls: Any, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        sizes = frontend.get_constant(inputs[3], params) if len(inputs) > 3 else None
        if not isinstance(sizes, relax.ShapeExpr) or len(sizes.values) != 4:
            return original(cls, bb, inputs, attr, params)
        mode = _words(attr, "coordinate_transformation_mode") or "half_pixel"
        if mode == "tf_crop_and_resize":
            raise Unsupported("Resize: tf_crop_and_resize to a size computed from dims")
        method = _words(attr, "mode") or "nearest"
        return relax.op.image.resize2d(
            inputs[0],
            relax.ShapeExpr(list(sizes.values)[2:]),
            layout="NCHW",
            method="nearest_neighbor" if method == "nearest" else method,
            coordinate_transformation_mode=mode,
            rounding_method=_words(attr, "nearest_mode") or "round_prefer_floor",
            cubic_alpha=attr.get("cubic_coeff_a", -0.75),
            cubic_exclude=attr.get("exclude_outside", 0),
        )

    return convert


def _words(attr: Any, name: str) -> str:
    return bytes(attr.get(name, b"")).decode("ascii")


# Class of TVM's importer, its method, and what makes the replacement from the original.
REPAIRS = (
    ("Range", "_impl_v12", _range),
    ("Reshape", "_impl_v13", _reshape),
    ("Expand", "_impl_v13", _expand),
    ("Where", "_impl_v16", _where),
    ("Resize", "_impl_v18", _resize),
)

# Operators that TVM's importer lacks, and what makes their converter.
ADDED = (("LSTM", lstm),)
