"""The cases: a model of one node, or of the body that defines it, with inputs and results."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

NODES = "onnx.backend.test.case.node"
# Element types that this compiler has no tensors of; strings are left out of all counts.
OTHER_TYPES = frozenset(
    v for k, v in TensorProto.DataType.items() if k.startswith(("FLOAT8", "FLOAT4", "COMPLEX"))
) | {TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.UINT2}

RANDOM = ("Bernoulli", "Random", "Multinomial")


def collected(module: str = "") -> dict[str, Any]:
    """The cases by name, or those of one file; the files make them when they are read."""
    found = importlib.import_module(NODES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if module:
            importlib.import_module(f"{NODES}.{module}")
        else:
            found.collect_testcases(None)
    return {c.name.removeprefix("test_"): c for c in found._NodeTestCases}


def left_out(case: Any) -> str:
    """Why a case is not counted, if it is not: it trains, or its tensors hold text."""
    training = any("training" in o.domain for o in case.model.opset_import)
    if training or "training" in case.name:
        return "training"
    return "strings" if TensorProto.STRING in _element_types(case.model) else ""


def kind(case: Any) -> str:
    """What a case needs of a compiler before anything else."""
    if _element_types(case.model) & OTHER_TYPES:
        return "types of less than 8 bits, and 8-bit floats"
    if is_random(case):
        return "random numbers, of which shape and type are compared"
    values = (*case.model.graph.input, *case.model.graph.output)
    if any(v.type.WhichOneof("value") != "tensor_type" for v in values):
        return "sequences and optionals as inputs or results"
    return "tensors"


def is_random(case: Any) -> bool:
    """Whether its results are random, as those that the case gives."""
    return any(n.op_type.startswith(RANDOM) for n in case.model.graph.node)


def _element_types(model: Any) -> set[int]:
    values = (*model.graph.input, *model.graph.output)
    return {t.elem_type for v in values for t in _tensor_types(v.type)}


def _tensor_types(ty: Any) -> Iterator[Any]:
    which = ty.WhichOneof("value")
    if which == "tensor_type":
        yield ty.tensor_type
    elif which in ("sequence_type", "optional_type"):
        yield from _tensor_types(getattr(ty, which).elem_type)


def dynamic(model: Any, ranks: bool = False) -> Any:
    """The model with a dim of its own for every dim of its inputs, and nothing known of others, or
    with ``ranks`` those of its results alone."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    given = {t.name for t in made.graph.initializer}
    for value in made.graph.input:
        if value.name in given:
            continue
        name = "".join(c if c.isalnum() else "_" for c in value.name)
        for tensor in _tensor_types(value.type):
            for k, dim in enumerate(tensor.shape.dim):
                dim.Clear()
                dim.dim_param = f"{name}_{k}"
    for value in made.graph.output:
        for tensor in _tensor_types(value.type):
            for dim in tensor.shape.dim:
                dim.Clear()
            if not ranks:
                tensor.ClearField("shape")
    del made.graph.value_info[:]
    return made


# How a model is compiled.
MODES: dict[str, Callable[[Any], Any]] = {
    "given": lambda model: model,
    "dynamic": dynamic,
    "declared": lambda model: dynamic(model, ranks=True),
}


def plain(value: Any) -> Any:
    """Inputs and results of a case as arrays, None, or lists of them."""
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return None if value is None else np.asarray(value)


__all__ = ["MODES", "collected", "dynamic", "is_random", "kind", "left_out", "plain"]
