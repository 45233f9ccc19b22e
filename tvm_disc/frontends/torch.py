"""PyTorch programs exported with `torch.export`, through TVM's importer."""

from __future__ import annotations

from typing import Any

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.extras import require

RETRY_WITHOUT_DECOMPOSITION = ("expected sympy", "Cannot view a tensor")


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


def _imported(importer: Any, program: Any) -> Any:
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
