"""Inputs of a PyTorch program: names, dims that are one symbol, and what is known of them."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import op
from tvm_disc.frontends.torch.symbols import Symbols, as_constraint, dim_at, scalar
from tvm_disc.frontends.torch.values import Value, dim_of, dims_of, relay_dtype
from tvm_disc.relay import Any as AnyDim
from tvm_disc.relay import DimOp, Expr, TensorType, Var
from tvm_disc.relay.types import Dim

_OPS = {"Add": "Add", "Mul": "Mul", "FloorDiv": "FloorDiv", "Mod": "FloorMod", "Max": "Max",
        "Min": "Min"}  # fmt: skip


class Inputs:
    """Makes the variables of a program's inputs.

    Attributes:
        names: of the symbols, as the user wrote them where he did.
        constraints: what must hold of them, in the constraint language.
    """

    def __init__(self, symbols: Symbols, tensors: Sequence[tuple[str, Any]]) -> None:
        self.symbols = symbols
        self.names = symbol_names(tensors)
        self.constraints: list[str] = []
        self.variables: dict[str, Value] = {}
        plain = [d for _, t in tensors for d in _sizes(t) if getattr(d, "is_Symbol", False)]
        self._plain = set(plain)
        # Symbols that are inputs themselves: dims made of them are read as dims of their own.
        self._given = {t.node.expr for _, t in tensors if not hasattr(t, "shape")} - self._plain
        self._own: dict[Any, str] = {}
        for name, tensor in tensors:
            self.variables[name] = self._variable(name, tensor)

    def _variable(self, name: str, tensor: Any) -> Value:
        if not hasattr(tensor, "shape"):  # a symbolic number
            kinds = {"SymFloat": "float64", "SymBool": "bool"}
            dtype = kinds.get(type(tensor).__name__, "int64")
            var = Var(name, TensorType((), dtype))
            self.symbols.bind(tensor.node.expr, lambda: var)
            return Value(var, dtype, ())
        dims, dtype = dims_of(tensor), relay_dtype(tensor.dtype)
        shape: list[Dim] = []
        bound: list[tuple[Any, int]] = []
        for axis, dim in enumerate(dims):
            made, symbol = self._dim(dim, f"{name}_{axis}")
            shape.append(made)
            if symbol is not None:
                bound.append((symbol, axis))
        var = Var(name, TensorType(tuple(shape), dtype))
        for symbol, axis in bound:
            self._bind(symbol, dims[axis], var, axis)
        return Value(var, dtype, dims)

    def _dim(self, dim: Any, name: str) -> tuple[Dim, Any]:
        """A dim of the input's type, and the symbol that it binds, if any."""
        if isinstance(dim, int):
            return dim, None
        if dim.is_Symbol:
            return AnyDim(self.names[dim]), dim
        if dim.free_symbols & self._given:
            return AnyDim(self._own.setdefault(dim, name)), None
        free = [s for s in dim.free_symbols if s not in self._plain]
        if not free:
            return self._formula(dim), None
        if len(free) > 1 or len(dim.free_symbols) > 1:
            raise Unsupported(f"input dim {name}: {dim}, of which no symbol is an input's dim")
        return AnyDim(name), free[0]

    def _formula(self, dim: Any) -> Dim:
        """An expression of dims that are there by themselves."""
        if dim.is_Symbol:
            return AnyDim(self.names[dim])
        if dim.is_Integer:
            return int(dim)
        op = _OPS.get(type(dim).__name__)
        if op is None:
            raise Unsupported(f"an input dim of {dim}")
        first, *rest = (self._formula(a) for a in dim.args)
        for other in rest:
            first = DimOp(op, first, other)
        return first

    def _bind(self, symbol: Any, dim: Any, var: Var, axis: int) -> None:
        """Say how a symbol is read of a dim, which may be a linear expression of it."""
        read = partial(dim_at, var, axis)
        if dim is symbol or dim.is_Symbol:
            self.symbols.bind(symbol, read)
            return
        import sympy

        factors = sympy.Poly(dim, symbol).all_coeffs()
        if len(factors) != 2 or not all(c.is_Integer for c in factors) or factors[0] <= 0:
            raise Unsupported(f"an input dim of {dim}")
        step, start = (int(c) for c in factors)
        self.symbols.bind(symbol, partial(_solved, read, step, start))
        if step != 1:
            dim_name = f"{var.name_hint}.{axis}"
            left = f"{dim_name} - {start}" if start else dim_name
            self.constraints.append(f"({left}) % {step} == 0")
        self.names.pop(symbol, None)

    def know_ranges(self, ranges: Mapping[Any, Any]) -> None:
        """The least and greatest values of symbols, as the user gave them."""
        for symbol, found in ranges.items():
            name = self.names.get(symbol)
            if name is None or symbol not in self._plain:
                continue
            low, high = (_whole(v) for v in (found.lower, found.upper))
            # PyTorch takes 0 and 1 for constants of their own, which programs here do not.
            least = low if low is not None and low > (0 if self._named(symbol) else 2) else None
            most = high if high is not None and high < (1 << 62) else None
            if least is None and most is None:
                continue
            left = f"{least} <= " if least is not None else ""
            right = f" <= {most}" if most is not None else ""
            self.constraints.append(f"{left}{name}{right}")

    def _named(self, symbol: Any) -> bool:
        return self.names[symbol] != str(symbol)

    def know(self, facts: Sequence[Any]) -> None:
        """Conditions on sizes of inputs, which the program checks on entry."""
        for fact in facts:
            if getattr(fact, "free_symbols", None) and fact.free_symbols <= set(self.names):
                text = as_constraint(fact, self.names)
                if text is not None and text not in self.constraints:
                    self.constraints.append(text)


def _sizes(tensor: Any) -> tuple[Any, ...]:
    return dims_of(tensor) if hasattr(tensor, "shape") else (dim_of(tensor),)[:0]


def _whole(value: Any) -> int | None:
    return int(value) if getattr(value, "is_Integer", False) else None


def _solved(read: Any, step: int, start: int) -> Expr:
    found: Expr = read()
    if start:
        found = op("subtract", found, scalar(start, "int64"))
    return found if step == 1 else op("floor_divide", found, scalar(step, "int64"))


def symbol_names(tensors: Sequence[tuple[str, Any]]) -> dict[Any, str]:
    """Names of the symbols of inputs: the user's own, or PyTorch's."""
    found: dict[Any, str] = {}
    given: dict[str, str] = {}
    sources: Mapping[Any, Any] = {}
    for _, tensor in tensors:
        environment = _environment(tensor)
        if environment is not None:
            given = dict(getattr(environment, "source_name_to_debug_name", None) or {})
            sources = getattr(environment, "var_to_sources", {})
            break
    for _, tensor in tensors:
        for dim in _sizes(tensor):
            for symbol in getattr(dim, "free_symbols", ()):
                if symbol not in found:
                    name = _given_name(sources.get(symbol, ()), given)
                    taken = name is None or name in found.values()
                    found[symbol] = str(symbol) if taken or name is None else name
    return found


def _given_name(sources: Sequence[Any], given: Mapping[str, str]) -> str | None:
    for source in sources:
        text = source.name() if callable(source.name) else source.name
        name = given.get(text)
        if name is not None and name.isidentifier() and not keyword.iskeyword(name):
            return str(name)
    return None


def _environment(tensor: Any) -> Any:
    if hasattr(tensor, "node"):
        return getattr(tensor.node, "shape_env", None)
    mode = getattr(tensor, "fake_mode", None)
    return getattr(mode, "shape_env", None)
