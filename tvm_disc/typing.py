"""Names of types that several packages use: those of TVM, PyTorch and ONNX, and our own unions.

For mypy, TVM's classes are those of ``stubs/tvm``. At run time every name is ``Any``, so that this
module imports nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import numpy as np
    from google.protobuf.message import Message as Proto
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
    from sympy import Expr as SymExpr
    from torch import SymInt
    from torch import Tensor as TorchTensor
    from torch.export import ExportedProgram
    from torch.fx import Graph as FxGraph
    from torch.fx import GraphModule
    from torch.fx import Node as FxNode
    from tvm.ir import Call, Expr, GlobalVar, Var
    from tvm.ir import IRModule as TVMModule
    from tvm.ir import Type as TVMType
    from tvm.relax import Binding, SeqExpr
    from tvm.relax import Function as TVMFunction
    from tvm.runtime import Device
    from tvm.runtime import Module as RuntimeModule
    from tvm.runtime import Tensor as RuntimeTensor
    from tvm.target import Target
    from tvm.tirx import Buffer, Stmt
    from tvm.transform import PassContext

    #: A size of a dim, or an index: an int if it is known.
    Size: TypeAlias = Expr | int
    #: One number for all axes, or one for each.
    Ints: TypeAlias = int | Sequence[int]
    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:

    def __getattr__(name: str) -> Any:
        return Any


#: The first value of a field that is assigned before it is read.
UNSET: Any = None

__all__ = [
    "UNSET",
    "Array",
    "AttributeProto",
    "Binding",
    "Buffer",
    "Call",
    "Device",
    "ExportedProgram",
    "Expr",
    "FxGraph",
    "FxNode",
    "GlobalVar",
    "GraphModule",
    "GraphProto",
    "Ints",
    "ModelProto",
    "NodeProto",
    "PassContext",
    "Proto",
    "RuntimeModule",
    "RuntimeTensor",
    "SeqExpr",
    "Size",
    "Stmt",
    "SymExpr",
    "SymInt",
    "TVMFunction",
    "TVMModule",
    "TVMType",
    "Target",
    "TensorProto",
    "TorchTensor",
    "Var",
]
