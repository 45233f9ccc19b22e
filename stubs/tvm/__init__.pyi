"""Types of the parts of TVM that tvm_disc uses; every other name is Any.

TVM ships no type information. A single class, `ir.Expr`, covers the expressions of TIR and Relax.
"""

from typing import Any

from . import ir as ir
from . import relax as relax
from . import runtime as runtime
from . import target as target
from . import tirx as tirx
from . import transform as transform
from .ir import IRModule as IRModule
from .runtime import DataType as DataType
from .runtime import Device as Device
from .runtime import Object as Object

__version__: str

def cpu(index: int = ...) -> Device: ...
def cuda(index: int = ...) -> Device: ...
def device(kind: str, index: int = ...) -> Device: ...
def get_global_func(name: str, allow_missing: bool = ...) -> Any: ...
def __getattr__(name: str) -> Any: ...
