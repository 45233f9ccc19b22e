"""PyTorch programs exported with `torch.export`, through TVM's importer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tvm
from tvm import relax

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.torch_index import CONVERTERS
from tvm_disc.relay.call_attrs import with_dtypes

RETRY_WITHOUT_DECOMPOSITION = ("expected sympy", "Cannot view a tensor")
# Of these operators TVM's importer says that they give float32, and then adds a narrow bias.
NARROW_PRODUCTS = {
    "addmm.default": "_addmm",
    "linear.default": "_linear",
    "convolution.default": "_convolution",
    "conv1d.default": "_conv1d",
    "conv2d.default": "_conv2d",
    "conv3d.default": "_conv3d",
    "conv_transpose1d.default": "_conv_transpose1d",
    "conv_transpose2d.input": "_conv_transpose2d",
}


def from_torch(program: Any) -> Any:
    """The Relax module of a `torch.export.ExportedProgram`; its weights are constants.

    Ranges of dims (`torch.export.Dim("s", max=512)`) become attributes of `main`, which
    `PropagateShapeConstraints` reads.

    Raises:
        Unsupported: PyTorch is not installed, or TVM's importer lacks an operator.
    """
    require("torch", "torch", "from_torch")
    from torch.export import ExportedProgram
    from tvm.relax.frontend.torch import from_exported_program

    if not isinstance(program, ExportedProgram):
        raise TypeMismatch(
            f"expected a torch.export.ExportedProgram, found {type(program).__name__}; "
            "export a module with torch.export.export(module, inputs, dynamic_shapes=...)"
        )
    if not any(n.op == "output" for n in program.graph.nodes):
        raise TypeMismatch("the exported program has no output")
    return _imported(from_exported_program, program)


class _NarrowBuilder:
    """A block builder that gives products of narrow operands the type of their operands."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def emit(self, expr: Any, *args: Any) -> Any:
        return self._builder.emit(self._as_operands(expr), *args)

    def _as_operands(self, expr: Any) -> Any:
        if not isinstance(expr, tvm.ir.Call) or not isinstance(expr.op, tvm.ir.Op):
            return expr
        operands = [self._as_operands(a) for a in expr.args]
        attrs = expr.attrs
        if str(getattr(attrs, "out_dtype", "")) == "float32":
            narrow = str(self._builder.normalize(operands[0]).ty.dtype)
            attrs = with_dtypes(attrs, ["out_dtype"], narrow)
        return tvm.ir.Call(expr.op, operands, attrs, list(expr.ty_args))


def _narrow_product(method: str) -> Callable[[Any, Any], Any]:
    def convert(node: Any, importer: Any) -> Any:
        builder = importer.block_builder
        importer.block_builder = _NarrowBuilder(builder)
        try:
            return getattr(importer, method)(node)
        finally:
            importer.block_builder = builder

    return convert


def _batch_product(node: Any, importer: Any) -> Any:
    left, right = (importer.env[a] for a in node.args)
    return importer.block_builder.emit(relax.op.matmul(left, right))


def _is_narrow(program: Any) -> bool:
    """Whether a program computes with weights of 16 bits."""
    import torch

    tensors = [*program.state_dict.values(), *program.constants.values()]
    return any(getattr(t, "dtype", None) in (torch.float16, torch.bfloat16) for t in tensors)


def _imported(importer: Any, program: Any) -> Any:
    converters = dict(CONVERTERS)
    if _is_narrow(program):
        for name, method in NARROW_PRODUCTS.items():
            converters[name] = _narrow_product(method)
        converters["bmm.default"] = _batch_product
    importer = partial(importer, custom_convert_map=converters)
    try:
        return importer(program, unwrap_unit_return_tuple=True)
    except (AssertionError, RuntimeError, ValueError, AttributeError) as error:
        if not any(text in str(error) for text in RETRY_WITHOUT_DECOMPOSITION):
            raise Unsupported(f"TVM cannot import this PyTorch program: {error}") from error
    try:
        # PyTorch's own decomposition fails on some dynamic shapes that the importer can read.
        return importer(program, unwrap_unit_return_tuple=True, run_ep_decomposition=False)
    except (AssertionError, RuntimeError, ValueError, AttributeError) as error:
        raise Unsupported(f"TVM cannot import this PyTorch program: {error}") from error
