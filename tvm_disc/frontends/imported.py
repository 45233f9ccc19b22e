"""``from_onnx`` and ``from_pytorch`` with the arguments and results of ``relay.frontend``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tvm_disc.errors import BadInput, TypeMismatch, Unsupported, named_of, shown
from tvm_disc.frontends import onnx as onnx_room
from tvm_disc.frontends.onnx.model import read_file
from tvm_disc.frontends.torch import from_pytorch as read_program
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.types import Any as AnyDim
from tvm_disc.typing import ModelProto


class Imported(IRModule):
    """A module that also unpacks as ``mod, params``, for Relay scripts.

    ``params`` is empty, because weights are constants of the module.
    """

    def __init__(self, module: IRModule) -> None:
        super().__init__(module.functions, module.type_definitions, module.attrs)
        self._pair: tuple[IRModule, dict[str, object]] = (module, {})

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pair)


def from_onnx(
    model: ModelProto | Path | str,
    shape: Mapping[str, object] | None = None,
    dtype: Mapping[str, str] | str = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, object] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> Imported:
    """Return the Relay module of an ONNX model or file; it unpacks as ``mod, params``.

    Args:
        shape: shapes of inputs by name, which replace those of the model. A dim is a number,
            ``Any``, or the name of a symbol.
        dtype: element types of inputs by name, which must be those of the model; a single type is
            ignored.
        opset: replaces the version of the default operator domain.
        freeze_params: must be true, because weights are constants.
        convert_config: accepted as in Relay, without effect.
        export_node_renamed_model_path: must be None, because no renamed model is written.

    Raises:
        BadInput: ``shape`` or ``dtype`` names an input that the model does not have; or a shape
            or the opset is invalid.
        TypeMismatch: an element type differs from that of the model.
        Unsupported: ``freeze_params`` is false, or a renamed model is requested.

    The errors of the ONNX importer are raised unchanged.
    """
    named_of("convert_config", convert_config)
    if not freeze_params:
        raise Unsupported(
            "from_onnx: freeze_params=False is not supported: weights become constants of the "
            "module; leave it out"
        )
    if export_node_renamed_model_path is not None:
        raise Unsupported(
            "from_onnx: export_node_renamed_model_path is not supported: no renamed model is "
            "written; leave it out"
        )
    if shape is None and opset is None and not isinstance(dtype, Mapping):
        return Imported(onnx_room.from_onnx(model))
    read, folder = read_file(model)
    if read is model:  # do not modify the caller's model
        read = type(model)()
        read.CopyFrom(model)
    inputs = {value.name: value for value in read.graph.input}
    for name, dims in named_of("shape", shape).items():
        _give_shape(_input(inputs, "shape", name), dims)
    if isinstance(dtype, Mapping):
        for name, wanted in dtype.items():
            _agree(_input(inputs, "dtype", name), wanted)
    if opset is not None:
        _give_opset(read, opset)
    return Imported(onnx_room.from_onnx(read, folder))


def from_pytorch(program: object, input_infos: object = None, **options: object) -> Imported:
    """Return the Relay module of a ``torch.export.ExportedProgram``; it unpacks as ``mod, params``.

    The program itself defines the names, shapes and element types of its inputs. Relay's
    ``input_infos`` and options, which describe traced modules, are refused.
    """
    module = read_program(program)
    given = [*(["input_infos"] if input_infos is not None else []), *options]
    if given:
        raise Unsupported(
            f"from_pytorch: expected no {', '.join(given)}: an exported program defines the names, "
            "shapes and element types of its inputs; to change them, pass other arguments and "
            "dynamic_shapes to torch.export.export"
        )
    return Imported(module)


def _input(inputs: Mapping[str, object], what: str, name: object) -> object:
    if name not in inputs:
        raise BadInput(
            f"from_onnx: {what}: the model has no input {shown(name)}; "
            f"it has {', '.join(map(repr, inputs)) or 'none'}"
        )
    return inputs[str(name)]


def _give_shape(value: Any, dims: Any) -> None:
    tensor = value.type.tensor_type
    if not isinstance(dims, list | tuple):
        raise BadInput(
            f"from_onnx: shape of {value.name!r}: expected a list or tuple, found {shown(dims)}"
        )
    if tensor.HasField("shape") and len(tensor.shape.dim) != len(dims):
        raise BadInput(
            f"from_onnx: shape of {value.name!r}: expected {len(tensor.shape.dim)} dims, as in "
            f"the model, found {len(dims)}"
        )
    tensor.ClearField("shape")
    tensor.shape.SetInParent()
    for dim in dims:
        made = tensor.shape.dim.add()
        if isinstance(dim, AnyDim):
            dim = dim.name or ""
        if isinstance(dim, str):
            made.dim_param = dim
        elif isinstance(dim, bool) or not hasattr(dim, "__index__") or not 0 <= int(dim) < 2**63:
            raise BadInput(
                f"from_onnx: shape of {value.name!r}: expected a number from 0 to 2**63 - 1, a "
                f"name or relay.Any(), found {shown(dim)}"
            )
        else:
            made.dim_value = int(dim)


def _agree(value: Any, wanted: object) -> None:
    from onnx import helper

    found = str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    if wanted != found:
        raise TypeMismatch(
            f"from_onnx: dtype of {value.name!r}: expected {found}, as in the model, found "
            f"{shown(wanted)}; leave out dtype, or change the model"
        )


def _give_opset(read: ModelProto, opset: object) -> None:
    if isinstance(opset, bool) or not isinstance(opset, int) or not 0 < opset < 2**31:
        raise BadInput(
            f"from_onnx: opset: expected an integer from 1 to {2**31 - 1}, found {shown(opset)}"
        )
    for known in read.opset_import:
        if known.domain in ("", "ai.onnx"):
            known.version = opset
            return
    read.opset_import.add(domain="", version=opset)


__all__ = ["Imported", "from_onnx", "from_pytorch"]
