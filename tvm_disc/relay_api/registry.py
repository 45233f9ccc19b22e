"""``relay.op.op``: the operator registry, including operators that users register.

The type of a user's operator comes from one of Relay's relations or from a function of types; its
fusion class determines how passes group it. A user's operator has no kernel. A build refuses it,
with its name, unless a function set by ``register_legalize`` replaces its calls by other operators.
Attributes that defined kernels in Relay cannot be registered; all other attributes are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_disc.errors import BadNode, UnknownName, Unsupported, refusing, shown
from tvm_disc.relay.expr import ENTRIES, Call, Op, Var, get_op
from tvm_disc.relay.inference.operators import OperatorTypes
from tvm_disc.relay.ops.row import USER_ROWS, FusionClass, OpRow
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay.types import TensorType, Type
from tvm_disc.relay_api.levels import LEVEL_OF

_KERNELS = "the compiler generates the kernels; pass your own in Options(templates=...)"
_REWRITES = "rewrite the module with relay.dataflow_pattern or a function_pass before it is built"
# Attributes that defined how Relay compiles or changes an operator, with the reason of the refusal.
REFUSED_ATTRIBUTES: Mapping[str, str] = {
    "FGradient": "gradients are not supported",
    "FPrimalGradient": "gradients are not supported",
    "FShapeFunc": "the compiler infers shapes; there are no shape functions",
    "FTVMCompute": _KERNELS,
    "FTVMConvertOpLayout": _REWRITES,
    "FTVMFakeQuantizationToInteger": _REWRITES,
    "FTVMSchedule": _KERNELS,
    "FTVMStrategy": _KERNELS,
    "FInferCorrectLayout": _REWRITES,
    "FTVMMixedPrecisionConversionType": (
        "relay.transform.ToMixedPrecision has fixed lists of operators; insert casts instead"
    ),
}


class OpPattern:
    """Fusion classes, numbered as in Relay."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


@dataclass(frozen=True)
class Argument:
    """Description of one operand."""

    name: str
    type_info: str
    description: str


@dataclass
class OpEntry:
    """Registry entry of one operator."""

    name: str
    description: str = ""
    support_level: int = 10
    attrs_type_key: str = ""
    num_inputs: int = 0
    arguments: list[Argument] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)

    def get_attr(self, attr_name: str) -> Any:
        """Return a registered attribute; None if there is none."""
        return self.attributes.get(attr_name)

    def has_attr(self, attr_name: str) -> bool:
        """Return whether an attribute is registered."""
        return attr_name in self.attributes

    def set_attr(self, attr_name: str, value: object, plevel: int = 10) -> None:
        """Register an attribute."""
        register_op_attr(self.name, attr_name, value, plevel)

    def reset_attr(self, attr_name: str) -> None:
        """Remove an attribute."""
        self.attributes.pop(attr_name, None)

    def add_argument(self, name: str, type: str, description: str) -> None:
        """Add the description of an operand."""
        self.arguments.append(Argument(name, type, description))
        self._renew()

    def set_num_inputs(self, n: int) -> None:
        """Set the number of operands."""
        if not isinstance(n, int) or not 0 <= n < 1000:
            raise BadNode(
                f"{self.name}: num_inputs: expected an integer from 0 to 999, found {shown(n)}"
            )
        self.num_inputs = n
        self._renew()

    def set_support_level(self, level: int) -> None:
        """Set Relay's support level."""
        self.support_level = level

    def set_attrs_type_key(self, key: str) -> None:
        """Set the name of the attribute class; it has no effect, since attributes are mappings."""
        self.attrs_type_key = key

    def add_type_rel(
        self, rel_name: str, type_rel_func: Callable[..., object] | None = None
    ) -> None:
        """Set the type of the result: one of Relay's relations, or a function of operand types."""
        if type_rel_func is None and rel_name not in RELATIONS:
            known = ", ".join(RELATIONS)
            raise BadNode(
                f"{self.name}: expected a type relation ({known}) or a type_rel_func, "
                f"found {shown(rel_name)}"
            )
        rule = RELATIONS[rel_name] if type_rel_func is None else type_rel_func
        USER_ROWS[self._own().name] = replace(self._own(), relation=rule)

    def _own(self) -> OpRow:
        """Return the table entry of this operator, which a user registered.

        Raises:
            BadNode: the operator is one of Relay's, which are read-only.
        """
        if self.name not in USER_ROWS:
            raise BadNode(f"{self.name} is an operator of Relay and cannot be changed")
        return USER_ROWS[self.name]

    def _renew(self) -> None:
        names = [a.name for a in self.arguments][: self.num_inputs]
        names += [f"data_{k}" for k in range(len(names), self.num_inputs)]
        USER_ROWS[self.name] = replace(self._own(), args=tuple(names))


def _as(name: str) -> Callable[..., Type]:
    """Return the type relation of one of Relay's operators."""

    def relation(types: Sequence[Type], attrs: object) -> Type:
        operands = [Var("operand", t) for t in types]
        return OperatorTypes().result(OPS[name], types, Call(get_op(name), operands))

    return relation


def _identity(types: Sequence[Type], attrs: object) -> Type:
    return types[0]


def _truth(types: Sequence[Type], attrs: object) -> Type:
    data = types[0]
    if not isinstance(data, TensorType):
        raise BadNode(f"expected a tensor, found {data}")
    return TensorType(data.shape, "bool")


RELATIONS: Mapping[str, Callable[..., object]] = {
    "Broadcast": _as("add"),
    "BroadcastComp": _as("less"),
    "Identity": _identity,
    "IdentityComp": _truth,
}

_ENTRIES: dict[str, OpEntry] = {}


def _entry(name: str) -> OpEntry:
    if name not in _ENTRIES:
        row = OPS[name]
        told = {"TOpPattern": int(row.pattern), "TOpIsStateful": False}
        arguments = [Argument(a.lstrip("*"), "Tensor", "") for a in row.args]
        level = LEVEL_OF.get(name, 10)
        _ENTRIES[name] = OpEntry(name, "", level, "", len(row.args), arguments, told)
    return _ENTRIES[name]


ENTRIES[:] = [_entry]


def get(op_name: str) -> Op:
    """Return the operator of that name; raise UnknownName, a KeyError, if there is none."""
    if not isinstance(op_name, str) or op_name not in OPS:
        raise UnknownName(f"unknown operator {shown(op_name)}")
    return get_op(op_name)


@refusing
def register(op_name: str, describe: str = "") -> None:
    """Register a user's operator; methods of ``relay.op.get(op_name)`` set its properties."""
    if not isinstance(op_name, str) or not op_name:
        raise BadNode(f"register: expected the name of an operator, found {shown(op_name)}")
    if op_name in OPS:
        raise BadNode(f"register: operator {op_name} is registered already")
    USER_ROWS[op_name] = OpRow(op_name, (), {}, FusionClass.OPAQUE)
    _entry(op_name).description = describe


def unregister(op_name: str) -> None:
    """Remove a user's operator."""
    USER_ROWS.pop(op_name, None)
    _ENTRIES.pop(op_name, None)


@refusing
def register_op_attr(op_name: str, attr_key: str, value: object = None, level: int = 10) -> Any:
    """Set an attribute of an operator; without a value, return a decorator that sets it.

    Raises:
        Unsupported: the attribute defined how Relay compiles the operator.
    """
    if attr_key in REFUSED_ATTRIBUTES:
        raise Unsupported(f"{op_name}: {attr_key}: {REFUSED_ATTRIBUTES[attr_key]}")
    entry = ENTRIES[0](get(op_name).name)

    def keep(given: object) -> object:
        entry.attributes[attr_key] = given
        return given

    return keep if value is None else keep(value)


@refusing
def register_pattern(op_name: str, pattern: int, level: int = 10) -> object:
    """Set the fusion class of a user's operator."""
    entry = _entry(get(op_name).name)
    if pattern == OpPattern.TUPLE or pattern not in {int(p) for p in FusionClass}:
        raise BadNode(
            f"{op_name}: expected a value of OpPattern other than TUPLE, found {shown(pattern)}"
        )
    USER_ROWS[op_name] = replace(entry._own(), pattern=FusionClass(pattern))
    return register_op_attr(op_name, "TOpPattern", pattern, level)


@refusing
def register_stateful(op_name: str, stateful: bool, level: int = 10) -> object:
    """Register that a user's operator has no side effects; ``stateful=True`` is refused."""
    if stateful:
        raise Unsupported(
            f"{op_name}: operators with side effects are not supported: equal calls are merged"
        )
    return register_op_attr(op_name, "TOpIsStateful", stateful, level)


def has_attribute(*keys: str) -> bool:
    """Return whether any operator has one of these attributes with a true value."""
    return any(entry.get_attr(key) for entry in _ENTRIES.values() for key in keys)


@refusing
def register_legalize(
    op_name: str, legal_op: Callable[..., object] | None = None, level: int = 10
) -> object:
    """Set the function that ``relay.transform.Legalize`` applies to calls of an operator."""
    return register_op_attr(op_name, "FTVMLegalize", legal_op, level)


@refusing
def register_alter_op_layout(
    op_name: str, alter_layout: Callable[..., object] | None = None, level: int = 10
) -> object:
    """Set the function that ``relay.transform.AlterOpLayout`` applies to calls of an operator."""
    return register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)


def _refused(attr_key: str) -> Callable[..., object]:
    def use(op_name: str, *given: object, **options: object) -> object:
        raise Unsupported(f"{op_name}: {attr_key}: {REFUSED_ATTRIBUTES[attr_key]}")

    return use


OpStrategy = _refused("FTVMStrategy")
register_broadcast_schedule = _refused("FTVMSchedule")
register_compute = _refused("FTVMCompute")
register_convert_op_layout = _refused("FTVMConvertOpLayout")
register_fake_quantization_to_integer = _refused("FTVMFakeQuantizationToInteger")
register_gradient = _refused("FPrimalGradient")
register_injective_schedule = _refused("FTVMSchedule")
register_infer_correct_layout = _refused("FInferCorrectLayout")
register_mixed_precision_conversion = _refused("FTVMMixedPrecisionConversionType")
register_optional_fake_quantization_to_integer = _refused("FTVMFakeQuantizationToInteger")
register_reduce_schedule = _refused("FTVMSchedule")
register_schedule = _refused("FTVMSchedule")
register_shape_func = _refused("FShapeFunc")
register_strategy = _refused("FTVMStrategy")

__all__ = [
    "OpPattern",
    "OpStrategy",
    "get",
    "register",
    "register_alter_op_layout",
    "register_broadcast_schedule",
    "register_compute",
    "register_convert_op_layout",
    "register_fake_quantization_to_integer",
    "register_gradient",
    "register_infer_correct_layout",
    "register_injective_schedule",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_op_attr",
    "register_optional_fake_quantization_to_integer",
    "register_pattern",
    "register_reduce_schedule",
    "register_schedule",
    "register_shape_func",
    "register_stateful",
    "register_strategy",
    "unregister",
]
