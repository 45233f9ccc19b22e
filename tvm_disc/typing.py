"""Names of types that several packages use: those of TVM, PyTorch and ONNX, and our own unions.

For mypy, TVM's classes are those of ``stubs/tvm``. At run time every name is ``Any``, so that this
module imports nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol, TypeAlias

    import numpy as np
    from google.protobuf.message import Message as Proto
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        TensorProto,
    )
    from sympy import Expr as SymExpr
    from torch import SymInt
    from torch import Tensor as TorchTensor
    from torch.export import ExportedProgram
    from torch.fx import Graph as FxGraph
    from torch.fx import GraphModule
    from torch.fx import Node as FxNode
    from transformers import PreTrainedModel
    from transformers.cache_utils import CacheLayerMixin as CacheLayer
    from tvm.ir import Call, Expr, GlobalVar, Var
    from tvm.ir import IRModule as TVMModule
    from tvm.ir import Type as TVMType
    from tvm.relax import Binding, SeqExpr
    from tvm.relax import Function as TVMFunction
    from tvm.runtime import Device
    from tvm.runtime import Module as RuntimeModule
    from tvm.runtime import Tensor as RuntimeTensor
    from tvm.target import Target
    from tvm.tirx import Buffer, PrimFunc, Stmt
    from tvm.transform import PassContext

    #: A size of a dim, or an index: an int if it is known.
    Size: TypeAlias = Expr | int
    #: One number for all axes, or one number per axis.
    Ints: TypeAlias = int | Sequence[int]
    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    #: A target, or a description of one as text or dict; None is this machine.
    TargetLike: TypeAlias = (
        Target | str | Mapping[str, object] | Sequence[Target | str | Mapping[str, object]] | None
    )
    #: A pass that a user adds; and the user's passes of a build by position.
    UserPass: TypeAlias = Callable[[TVMModule], TVMModule]
    UserPasses: TypeAlias = Mapping[str, UserPass | Sequence[UserPass]]
    #: Inputs of a ``torch.nn.Module`` by position or by name, and its dynamic dims.
    ExampleInputs: TypeAlias = tuple[object, ...] | Mapping[str, object]
    DynamicShapes: TypeAlias = Mapping[str, object] | Sequence[object]

    class SupportsDLPack(Protocol):
        """A tensor of any framework."""

        def __dlpack__(self) -> object: ...
        def __dlpack_device__(self) -> tuple[int, int]: ...

    #: An argument of a program: a tensor, a number, or a tuple, list or record of arguments.
    Argument: TypeAlias = (
        Array | SupportsDLPack | complex | Sequence["Argument"] | Mapping[str, "Argument"] | None
    )
    Arguments: TypeAlias = tuple[Argument, ...]
else:

    def __getattr__(name: str) -> Any:
        return Any


#: Initial value of a field that is assigned before it is read.
UNSET: Any = None

__all__ = [
    "UNSET",
    "Argument",
    "Arguments",
    "Array",
    "AttributeProto",
    "Binding",
    "Buffer",
    "CacheLayer",
    "Call",
    "Device",
    "DynamicShapes",
    "ExampleInputs",
    "ExportedProgram",
    "Expr",
    "FunctionProto",
    "FxGraph",
    "FxNode",
    "GlobalVar",
    "GraphModule",
    "GraphProto",
    "Ints",
    "ModelProto",
    "NodeProto",
    "PassContext",
    "PreTrainedModel",
    "PrimFunc",
    "Proto",
    "RuntimeModule",
    "RuntimeTensor",
    "SeqExpr",
    "Size",
    "Stmt",
    "SupportsDLPack",
    "SymExpr",
    "SymInt",
    "TVMFunction",
    "TVMModule",
    "TVMType",
    "Target",
    "TargetLike",
    "TensorProto",
    "TorchTensor",
    "UserPass",
    "UserPasses",
    "Var",
]
