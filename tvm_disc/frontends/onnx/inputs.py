"""Inputs of an ONNX graph as Relay variables with the names and dims of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.dims import OPERATORS, dim_formula, identifier, is_name
from tvm_disc.frontends.onnx.tensors import dtype_of
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.typing import GraphProto, Proto


def variables(graph: GraphProto, given: set[str]) -> list[ast.Var]:
    """Return a variable for each input whose name is not in ``given``, the initializers.

    Dims of the same name are equal. A dim whose name is an expression of other named dims (`2*h`)
    becomes this expression. Any other name that is not an identifier becomes a new symbol, and each
    dim without a name becomes another one.

    Raises:
        Unsupported: an input is not a tensor, or programs do not have its element type.
    """
    wanted = [v for v in graph.input if v.name not in given]
    dims = InputDims([d for v in wanted for d in _shape(v)])
    return [ast.Var(v.name, _type(v, dims)) for v in wanted]


def _shape(value: Any) -> Sequence[object]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        found = f"a value of kind {kind.removesuffix('_type')!r}" if kind else "no type"
        raise Unsupported(f"input {value.name!r}: expected a tensor, found {found}")
    if not value.type.tensor_type.HasField("shape"):
        raise Unsupported(f"input {value.name!r}: its rank is unknown; declare its shape")
    dims: Sequence[Any] = value.type.tensor_type.shape.dim
    return dims


def _type(value: Any, dims: InputDims) -> rt.TensorType:
    try:
        dtype = dtype_of(value.type.tensor_type.elem_type)
    except Unsupported as error:
        raise Unsupported(f"input {value.name!r}: {error}") from None
    return rt.TensorType(tuple(dims.of(d) for d in _shape(value)), dtype)


class InputDims:
    """Converts dims of an ONNX model to Relay dims; dims of the same name become equal dims."""

    def __init__(self, protos: Sequence[Any]) -> None:
        named = [d.dim_param for d in protos if not _is_number(d) and d.dim_param]
        self._plain = {n for n in named if is_name(n)}
        self._taken = set(self._plain)
        self._made: dict[str, rt.Dim] = {}

    def of(self, proto: Proto) -> rt.Dim:
        """Return the Relay dim for an ONNX dim; each dim without a name becomes a new symbol."""
        if _is_number(proto):
            return int(proto.dim_value)
        name = proto.dim_param
        if not name:
            return rt.Any()
        if name not in self._made:
            self._made[name] = self._named(name)
        return self._made[name]

    def _named(self, name: str) -> rt.Dim:
        if name in self._plain:
            return rt.Any(name)
        made = dim_formula(name, self._plain, OPERATORS, {})
        return made if isinstance(made, rt.DimOp) else rt.Any(self._fresh(name))

    def _fresh(self, text: str) -> str:
        """Return an unused identifier that is similar to the text."""
        base = identifier(text)
        base = base if is_name(base) else f"dim_{base}".rstrip("_")
        name = next(n for n in _candidates(base) if n not in self._taken)
        self._taken.add(name)
        return name


def _candidates(base: str) -> Iterator[str]:
    yield base
    yield from (f"{base}_{k}" for k in count(1))


def _is_number(dim: Any) -> bool:
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


__all__ = ["InputDims", "variables"]
