"""Inputs of a PyTorch program: variables, names of symbols, and constraints."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import op
from tvm_disc.frontends.torch.conditions import (
    Keys,
    LayoutCondition,
    Place,
    Recorded,
    constraint_of,
    printed,
)
from tvm_disc.frontends.torch.symbols import Symbols, dim_at, scalar
from tvm_disc.frontends.torch.values import Value, dims_of, relay_dtype
from tvm_disc.relay.expr import Expr, Var
from tvm_disc.relay.types import Any as AnyDim
from tvm_disc.relay.types import Dim, DimOp, TensorType
from tvm_disc.typing import SymExpr, TorchTensor

_OPS = {"Add": "Add", "Mul": "Mul", "FloorDiv": "FloorDiv", "Mod": "FloorMod", "Max": "Max",
        "Min": "Min"}  # fmt: skip
_ASSERTED = "assertion of the module, such as torch._check"


class ExportedInputs:
    """Creates the variables of a program's inputs, and collects the conditions on them.

    Attributes:
        names: the text of each symbol in the constraint language.
        given: the symbols that the user has named.
        constraints: conditions on dims, in the constraint language.
        origins: the source of each constraint, for ``explain``.
        computed: conditions on numbers that are known only at run time, as PyTorch prints them.
        dropped: conditions that the program does not check, each with the reason.
        variables: the variable of each input, by name.
    """

    def __init__(self, symbols: Symbols, tensors: Sequence[tuple[str, TorchTensor]]) -> None:
        self.symbols = symbols
        self.names = symbol_names(tensors)
        self.given = set(given_names(tensors))
        self.constraints: list[str] = []
        self.origins: list[str] = []
        self.computed: list[str] = []
        self.dropped: list[str] = []
        self.variables: dict[str, Value] = {}
        self._plain = {d for _, t in tensors for d in _sizes(t) if getattr(d, "is_Symbol", False)}
        # Symbols that are inputs themselves. A dim that is an expression of one becomes a new
        # symbol.
        self._given = {t.node.expr for _, t in tensors if not hasattr(t, "shape")} - self._plain
        self._own: dict[object, str] = {}
        for name, tensor in tensors:
            try:
                self.variables[name] = self._variable(name, tensor)
            except Unsupported as error:
                raise Unsupported(f"input {name!r}: {error}") from None

    def _variable(self, name: str, tensor: TorchTensor) -> Value:
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

    def _dim(self, dim: SymExpr | int, name: str) -> tuple[Dim, object]:
        """Return a Relay dim, and the symbol whose value it determines, or None."""
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
            raise Unsupported(
                f"axis {name.rpartition('_')[2]}: its size {dim} has several symbols, and not all "
                "of them are dims of inputs"
            )
        return AnyDim(name), free[0]

    def _formula(self, dim: Any) -> Dim:
        """Return a dim that is an expression of other dims, as a Relay expression."""
        if dim.is_Symbol:
            return AnyDim(self.names[dim])
        if dim.is_Integer:
            return int(dim)
        op = _OPS.get(type(dim).__name__)
        if op is None:
            raise Unsupported(
                f"the function {type(dim).__name__} in the size {dim} is not supported"
            )
        first, *rest = (self._formula(a) for a in dim.args)
        for other in rest:
            first = DimOp(op, first, other)
        return first

    def _bind(self, symbol: SymExpr, dim: SymExpr, var: Var, axis: int) -> None:
        """Define how a symbol is computed from axis ``axis`` of ``var``.

        ``dim``, the size of the axis, is the symbol or a linear expression of the symbol.
        """
        read = partial(dim_at, var, axis)
        if dim is symbol or dim.is_Symbol:
            self.symbols.bind(symbol, read)
            return
        import sympy

        factors = sympy.Poly(dim, symbol).all_coeffs()
        if len(factors) != 2 or not all(c.is_Integer for c in factors) or factors[0] <= 0:
            raise Unsupported(
                f"axis {axis}: expected a size a * {symbol} + b with integers a > 0 and b, found "
                f"{dim}"
            )
        step, start = (int(c) for c in factors)
        self.symbols.bind(symbol, partial(_solved, read, step, start))
        dim_name = f"{var.name_hint}.{axis}"
        left = f"({dim_name} - {start})" if start else dim_name
        if step != 1:
            self.add(f"{left} % {step} == 0", f"torch.export: the size is {dim}")
            left = f"({left} // {step})"
        self.names[symbol] = left

    def know_ranges(self, ranges: Mapping[object, Any], dropped: Sequence[Recorded] = ()) -> None:
        """Add the lower and upper bounds of symbols as constraints.

        Args:
            ranges: the range of each symbol.
            dropped: guards that are not checked; bounds that follow from one of them are omitted.
        """
        for symbol, found in ranges.items():
            name = self.names.get(symbol)
            if name is None:
                continue
            low, high = (_whole(v) for v in (found.lower, found.upper))
            # A lower bound of 2 is omitted: PyTorch's ranges start at 2 because it specializes
            # sizes 0 and 1. A bound of a symbol that the user has named is kept.
            least = low if low is not None and low > (0 if symbol in self.given else 2) else None
            most = high if high is not None and high < (1 << 62) else None
            if least is not None and _breaks(dropped, symbol, least - 1):
                least = None
            if most is not None and _breaks(dropped, symbol, most + 1):
                most = None
            if least is None and most is None:
                continue
            left = f"{least} <= " if least is not None else ""
            right = f" <= {most}" if most is not None else ""
            given = f" of Dim({name!r})" if symbol in self.given else ""
            self.add(f"{left}{name}{right}", f"range{given} in torch.export")

    def add(self, text: str, origin: str) -> None:
        """Add a constraint with its source unless it is present."""
        if text not in self.constraints:
            self.constraints.append(text)
            self.origins.append(origin)

    def require(self, text: str, place: Place, origin: str) -> None:
        """Add a condition, given as the text that PyTorch prints, with its source.

        Raises:
            Unsupported: neither the compiler nor the program can check the condition.
        """
        try:
            self.add(constraint_of(text, place), origin)
        except LayoutCondition:
            self.drop(text, "it concerns strides; inputs are read as contiguous tensors", place)
        except UnknownNumber:
            if text not in self.computed:
                self.computed.append(text)

    def know(self, facts: Sequence[object], origin: str = _ASSERTED) -> None:
        """Add conditions on symbols, given as sympy expressions, with their source."""
        for fact in facts:
            if getattr(fact, "free_symbols", None):
                self.require(printed(fact), self.symbol_place, origin)

    def know_recorded(self, guards: Sequence[Recorded], stated: Set[str]) -> None:
        """Add the guards of a shape environment whose code is not in ``stated``."""
        for guard in guards:
            foreign = [s for s in guard.expr.free_symbols if not self._reads(s)]
            if guard.code in stated:
                continue
            text = printed(guard.expr)
            if foreign:
                symbols = ", ".join(map(str, foreign))
                reason = f"it reads {symbols} of PyTorch, which no input defines"
                self.drop(text, reason, self.symbol_place)
            elif guard.tests_only_one or guard.tests_only_zero:
                self.drop_layout(text, guard.place, self.symbol_place)
            else:
                self.know([guard.expr], guard.origin)

    def _reads(self, symbol: object) -> bool:
        return symbol in self.names or self.symbols.knows(symbol)

    def drop_layout(self, text: str, source: str, place: Place) -> None:
        """Record a condition that PyTorch needs only for the strides of its own tensors."""
        function = source.rpartition(" ")[2]
        reason = f"{function} of PyTorch tests it for strides" if source else "it concerns strides"
        self.drop(text, f"{reason}; results here do not depend on strides", place)

    def drop(self, text: str, reason: str, place: Place) -> None:
        """Record a condition that is not checked, for ``explain``, in the names of the inputs."""

        def named(keys: Keys, axis: int | None) -> str:
            try:
                return place(keys, axis)
            except UnknownNumber:
                return str(keys[0])

        try:
            text = constraint_of(text, named).replace("+ -1 * ", "- ")
        except (LayoutCondition, Unsupported):
            text = " ".join(text.split())
        note = f"{text}    [{reason}]"
        if note not in self.dropped:
            self.dropped.append(note)

    def symbol_place(self, keys: Keys, axis: int | None) -> str:
        """Return the text of the symbol whose name is ``keys[0]``, in the constraint language."""
        for symbol, name in self.names.items():
            if str(symbol) == keys[0]:
                return name
        raise UnknownNumber(keys[0])


class UnknownNumber(Exception):
    """Raised for a number that is not a dim but an input or read from data (internal)."""


def _sizes(tensor: object) -> tuple[SymExpr | int, ...]:
    return dims_of(tensor) if hasattr(tensor, "shape") else ()


def _whole(value: Any) -> int | None:
    return int(value) if getattr(value, "is_Integer", False) else None


def _breaks(guards: Sequence[Recorded], symbol: SymExpr, value: int) -> bool:
    """Return whether a guard on only this symbol fails for ``value``."""
    alone = [g.expr for g in guards if g.expr.free_symbols == {symbol}]
    return any(expr.subs({symbol: value}) == False for expr in alone)  # noqa: E712


def _solved(read: Any, step: int, start: int) -> Expr:
    found: Expr = read()
    if start:
        found = op("subtract", found, scalar(start, "int64"))
    return found if step == 1 else op("floor_divide", found, scalar(step, "int64"))


def given_names(tensors: Sequence[tuple[str, object]]) -> dict[object, str]:
    """Return the names that the user has given to symbols, as in ``Dim("b")``."""
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
                name = _given_name(sources.get(symbol, ()), given)
                if symbol not in found and name is not None and name not in found.values():
                    found[symbol] = name
    return found


def symbol_names(tensors: Sequence[tuple[str, object]]) -> dict[object, str]:
    """Return the name of each input symbol: the user's, or one of an input and axis, as ``x_0``."""
    found = given_names(tensors)
    taken = set(found.values())
    for name, tensor in tensors:
        for axis, dim in enumerate(_sizes(tensor)):
            for symbol in getattr(dim, "free_symbols", ()):
                if symbol not in found:
                    text = f"{name}_{axis}"
                    while text in taken:
                        text = f"{text}_"
                    found[symbol] = text
                    taken.add(text)
    return found


def _given_name(sources: Sequence[Any], given: Mapping[str, str]) -> str | None:
    for source in sources:
        text = source.name() if callable(source.name) else source.name
        name = given.get(text)
        if name is not None and name.isidentifier() and not keyword.iskeyword(name):
            return str(name)
    return None


def _environment(tensor: object) -> object:
    if hasattr(tensor, "node"):
        return getattr(tensor.node, "shape_env", None)
    mode = getattr(tensor, "fake_mode", None)
    return getattr(mode, "shape_env", None)
