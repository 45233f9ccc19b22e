"""Nodes: a lightweight Python view of Relax bindings for passes and templates.

Every attribute access of a Relax node crosses the FFI, and a plan reads operators, shapes and users
thousands of times. :func:`read_call` converts each Relax call once to a plain Python node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.core_ops import CORE, CoreOp, OpClass
from tvm_disc.shape.printing import show_shape
from tvm_disc.support.literals import literal_value
from tvm_disc.typing import Binding, Call, Expr, TVMType, Var

Dim: TypeAlias = Any  # an int64 PrimExpr

BYTES = ("int8", "uint8")
CENTRED = "int16"  # type of `byte - zero point`


@dataclass(eq=False)
class Node:
    """One value. ``op`` is a core operator's name, ``param``, ``const``, or another Relax form.

    ``inputs`` are the tensor operands in order; scalar operands (slice bounds, target shapes, clip
    limits) are in ``prims``. ``shape`` is a tuple of int64 expressions. ``after`` are the nodes
    that define symbols which this node uses, by reading them from tensor data.
    """

    op: str
    inputs: tuple[Node, ...]
    shape: tuple[Dim, ...]
    dtype: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    prims: tuple[Any, ...] = ()
    var: Any = None
    expr: Any = None
    value: np.ndarray | None = None  # the literal of a ``const``
    users: list[Node] = field(default_factory=list)
    is_output: bool = False
    index: int = -1
    after: tuple[Node, ...] = ()

    @property
    def row(self) -> CoreOp | None:
        """The operator's table entry; None for parameters, constants and control flow."""
        return CORE.get(self.op)

    @property
    def cls(self) -> OpClass | None:
        """The operator's class; None for parameters, constants and control flow."""
        row = CORE.get(self.op)
        return None if row is None else row.cls

    @property
    def weighted(self) -> bool:
        """Whether the node is a convolution, whose second operand is the weights."""
        row = CORE.get(self.op)
        return row is not None and row.weighted

    @property
    def name(self) -> str:
        """A printable name."""
        return self.op if self.var is None else str(self.var.name)

    @property
    def label(self) -> str:
        """The operator and its source position; if this is unknown, its name and shape."""
        op = self.op.removeprefix("relax.")
        span = None if self.var is None else self.var.span
        name = "" if self.name in (op, op.replace(".", "_"), self.op) else self.name
        if span is None:
            quoted = f" '{name}'" if name else ""
            return f"{op}{quoted} of shape {show_shape(self.shape)}"
        source = span.source_name.name
        if not span.line:
            return f"{op} ({source})"
        return f"{op} ({f'{name} at ' if name else ''}{source}:{span.line}:{span.column})"

    @property
    def is_scalar_const(self) -> bool:
        """Whether the node is a literal of one element, which kernels embed."""
        return self.value is not None and self.value.size == 1

    def __repr__(self) -> str:
        shape = ", ".join(str(d) for d in self.shape)
        return f"{self.name}: {self.op}[({shape}), {self.dtype}]"


def tensor_type(ty: TVMType) -> tuple[tuple[Dim, ...], str]:
    """Return shape and dtype of a Relax tensor type; raises Unsupported if the shape is unknown."""
    if not isinstance(ty, relax.TensorType):
        raise Unsupported(f"expected a tensor, found {ty}")
    if ty.shape is None or not isinstance(ty.shape, relax.ShapeExpr):
        raise Unsupported(f"the shape of a value of type {ty} is unknown after propagation")
    return tuple(ty.shape.values), str(ty.dtype)


def is_tensor(ty: object) -> bool:
    """Return whether a Relax type is a tensor type."""
    return isinstance(ty, relax.TensorType)


def read_call(var: Expr, call: Call, lookup: Mapping[Var, Node]) -> Node:
    """Return the node of a call to a core operator bound to ``var``."""
    row = CORE[str(call.op.name)]
    inputs: list[Node] = []
    prims: list[object] = []
    for arg in call.args:
        _read_operand(arg, lookup, inputs, prims)
    attrs = {name: plain(getattr(call.attrs, name)) for name in row.attrs}
    shape, dtype = tensor_type(var.ty if var is not None else call.ty)
    return Node(row.name, tuple(inputs), shape, dtype, attrs, tuple(prims), var, call)


def _read_operand(
    arg: Expr, lookup: Mapping[Var, Node], inputs: list[Node], prims: list[object]
) -> None:
    if isinstance(arg, relax.ShapeExpr):
        prims.append(tuple(arg.values))
    elif isinstance(arg, tvm.ir.Tuple):
        if all(is_tensor(f.ty) for f in arg.fields):
            inputs.extend(operand(f, lookup) for f in arg.fields)
        else:
            prims.append(tuple(arg.fields))
    elif is_tensor(arg.ty):
        inputs.append(operand(arg, lookup))
    else:
        prims.append(arg)


def operand(arg: Expr, lookup: Mapping[Any, Node]) -> Node:
    """Return the node of an operand; literals become ``const`` nodes."""
    if isinstance(arg, tvm.ir.GenericConst):
        return const_node(arg)
    node = lookup.get(arg)
    if node is None:
        raise Unsupported(f"operand {arg} is not a tensor known at this point")
    return node


def const_node(expr: Expr) -> Node:
    """Return a ``const`` node with the literal's value as a NumPy array."""
    value = literal_value(expr)
    dtype = str(expr.ty.dtype)
    shape = tuple(tirx.IntImm("int64", int(d)) for d in value.shape)
    return Node("const", (), shape, dtype, expr=expr, value=value)


def plain(value: Any) -> Any:
    """Return an attribute as a plain Python value; symbolic expressions remain expressions."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    if isinstance(value, tirx.FloatImm):
        return float(value.value)
    if isinstance(value, Sequence) or type(value).__name__ == "Array":
        return tuple(plain(v) for v in value)
    if isinstance(value, tvm.ir.PrimType) or type(value).__name__ in ("dtype", "DataType"):
        return str(value)
    if hasattr(value, "value") and isinstance(value, tvm.ir.StringImm):
        return str(value.value)
    return value


def link_users(nodes: Iterable[Node]) -> None:
    """Fill ``users`` and ``index`` from ``inputs``, in order."""
    listed = list(nodes)
    for i, node in enumerate(listed):
        node.index = i
        node.users = []
    for node in listed:
        for source in dict.fromkeys(node.inputs):
            source.users.append(node)


def like_blocks(blocks: Sequence[object], bindings: Sequence[Binding]) -> list[Any]:
    """Return ``bindings`` as one block of the same kind as ``blocks``.

    Dataflow variables may be bound only in dataflow blocks.
    """
    dataflow = bool(blocks) and all(isinstance(b, relax.DataflowBlock) for b in blocks)
    return [(relax.DataflowBlock if dataflow else relax.BindingBlock)(list(bindings))]


def static_dim(dim: object) -> int | None:
    """Return the value of a literal dim; None for others."""
    if isinstance(dim, int):
        return dim
    return int(dim.value) if isinstance(dim, tirx.IntImm) else None


def is_one(dim: object) -> bool:
    """Return whether a dim is the literal 1, the only dim that broadcasts."""
    return static_dim(dim) == 1


def zero_point(node: Node) -> tuple[Node, int] | None:
    """Return (bytes, zero point) if a value is ``cast(bytes) - zero point`` and the zero point is
    in the range of the byte type; else None.
    """
    if node.row is None or node.row.shifts >= 0 or node.dtype != CENTRED:
        return None
    wide, zero = node.inputs
    if wide.op != "relax.astype" or not zero.is_scalar_const:
        return None
    numbers, origin = wide.inputs[0], int(scalar_of(zero))
    if numbers.dtype not in BYTES or len(numbers.shape) != len(node.shape):
        return None
    kind = np.iinfo(numbers.dtype)
    return (numbers, origin) if kind.min <= origin <= kind.max else None


def widened_from(node: Node) -> Node | None:
    """Return the int8 or uint8 value from which a node is computed by casts and by addition,
    subtraction or multiplication of literals; None if there is none.
    """
    while node.row is not None and node.dtype not in BYTES:
        if node.op == "relax.astype":
            source = node.inputs[0]
        elif node.row.shifts or node.row.scales:
            others = [x for x in node.inputs if not x.is_scalar_const]
            if len(others) != 1:
                return None
            source = others[0]
        else:
            return None
        if len(source.shape) != len(node.shape):
            return None
        if source.dtype in BYTES:
            return source
        node = source
    return None


@dataclass(frozen=True)
class Rounded:
    """``clip(round(clip(x, low, high) / divisor) + shift, least, most)``, integers in float32."""

    x: Node
    low: float
    high: float
    divisor: float
    shift: int
    least: int
    most: int


def rounded_quotient(node: Node) -> Rounded | None:
    """Return the parts of a quantization before its conversion to an integer type, or None if the
    node is something else. The limits ``least`` and ``most`` must be finite integers.
    """
    source, least, most = clamped(node)
    if not (math.isfinite(least) and math.isfinite(most) and least <= most):
        return None
    shift = 0.0
    if source.op == "relax.add" and source.inputs[1].is_scalar_const:
        source, shift = source.inputs[0], scalar_of(source.inputs[1])
    if source.op != "relax.round" or not all(v.is_integer() for v in (least, most, shift)):
        return None
    quotient = source.inputs[0]
    if quotient.op != "relax.divide" or not quotient.inputs[1].is_scalar_const:
        return None
    x, low, high = clamped(quotient.inputs[0])
    if {node.dtype, x.dtype} != {"float32"} or len(x.shape) != len(node.shape) or low > high:
        return None
    divisor = scalar_of(quotient.inputs[1])
    return Rounded(x, low, high, divisor, int(shift), int(least), int(most))


def clamped(node: Node) -> tuple[Node, float, float]:
    """Return (x, low, high) of a value that is x clamped to literals, by any sequence of clips; a
    missing limit is infinite.
    """
    low, high = -math.inf, math.inf
    while (ends := _ends_of(node)) is not None:
        # The inner limits apply first: clamp(clamp(x, a, b), low, high).
        low, high = (min(max(end, low), high) for end in ends)
        node = node.inputs[0]
    return node, low, high


def _ends_of(node: Node) -> tuple[float, float] | None:
    if node.op == "relax.nn.relu":
        return 0.0, math.inf
    if node.op == "relax.clip":
        least, most = (float(getattr(p, "value", p)) for p in node.prims)
        return (least, most) if least <= most else None
    if node.op in ("relax.maximum", "relax.minimum") and node.inputs[1].is_scalar_const:
        end = scalar_of(node.inputs[1])
        if not math.isnan(end):
            return (end, math.inf) if node.op == "relax.maximum" else (-math.inf, end)
    return None


def before_bytes(node: Node) -> tuple[Node, int] | None:
    """Return (x, zero point) if a node converts float32 integers x to bytes and back, and then
    subtracts the zero point; else None.
    """
    x, zero = node.inputs[0], 0
    if x.op == "relax.subtract" and x.inputs[1].is_scalar_const:
        x, zero = x.inputs[0], int(scalar_of(x.inputs[1]))
    chain = [x]
    while chain[-1].op == "relax.astype" and len(chain) < 4:
        chain.append(chain[-1].inputs[0])
    if len(chain) < 4 or [n.dtype for n in chain[::2]] != ["int32", "int32"]:
        return None
    narrow, number = chain[1].dtype, chain[3]
    if narrow not in BYTES or number.dtype != "float32":
        return None
    kind = np.iinfo(narrow)
    return (number, zero) if _is_whole(number, (kind.min, kind.max)) else None


def _is_whole(node: Node, limits: tuple[float, float]) -> bool:
    """Return whether a float node is a rounded number that literals clamp to the range
    ``limits``.
    """
    if node.op in ("relax.maximum", "relax.minimum") and node.inputs[1].is_scalar_const:
        end = scalar_of(node.inputs[1])
        if node.op == "relax.minimum":
            return end <= limits[1] and _is_whole(node.inputs[0], (limits[0], math.inf))
        return end >= limits[0] and _is_whole(node.inputs[0], (-math.inf, limits[1]))
    if node.op == "relax.clip":
        least, most = (float(getattr(p, "value", p)) for p in node.prims)
        inside = least >= limits[0] and most <= limits[1]
        return inside and _is_whole(node.inputs[0], (-math.inf, math.inf))
    if limits != (-math.inf, math.inf):
        return False
    if node.op == "relax.add" and node.inputs[1].is_scalar_const:
        return scalar_of(node.inputs[1]).is_integer() and _is_whole(node.inputs[0], limits)
    return node.op == "relax.round"


def scalar_of(node: Node) -> float:
    """Return the number of a literal of one element."""
    assert node.value is not None
    return float(node.value.item())
