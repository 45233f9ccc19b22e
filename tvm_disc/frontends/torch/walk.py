"""Conversion of a PyTorch graph to Relay expressions, node by node.

Nodes that only compute sizes need no converter, because PyTorch has their results as expressions of
symbols. All nodes that cannot be converted are collected and reported in one error.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tvm_disc.errors import DiscError, Unsupported
from tvm_disc.frontends.calls import op, placed
from tvm_disc.frontends.torch.control import CONTROL
from tvm_disc.frontends.torch.maker import Maker
from tvm_disc.frontends.torch.places import place_and_code, place_of
from tvm_disc.frontends.torch.symbols import Symbols, dim_at, scalar
from tvm_disc.frontends.torch.table import ROWS
from tvm_disc.frontends.torch.values import (
    SYMBOLIC,
    Value,
    array_of,
    dims_of,
    is_number,
    relay_dtype,
)
from tvm_disc.frontends.torch.whole import functional_name
from tvm_disc.relay.expr import Constant, Expr, Var
from tvm_disc.relay.ops.algebra import building
from tvm_disc.relay.types import Any as AnyDim
from tvm_disc.relay.types import TensorType
from tvm_disc.typing import FxNode, GraphModule, SymExpr, TorchTensor


class GraphConversion:
    """Converts the graphs of one program.

    Attributes:
        symbols: converts symbolic numbers.
        facts: conditions on sizes that every call must satisfy, as sympy expressions.
        problems: messages about nodes that could not be converted.
        refused: the nodes of the outermost graph that could not be converted.
    """

    def __init__(self) -> None:
        self.symbols = Symbols()
        self.maker = Maker(self.symbols)
        self.maker.translate = self.inner
        self.facts = self.maker.facts
        self.problems: list[str] = []
        self.refused: list[FxNode] = []
        # stack of nodes that are being converted, the outermost first
        self._open: list[FxNode] = []
        self._constants: dict[tuple[object, ...], Value] = {}

    def constant(self, tensor: TorchTensor) -> Value:
        """Return a tensor with data as a constant; tensors that are the same view share one."""
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
        if key not in self._constants or tensor.numel() == 0:
            array = array_of(tensor)
            self._constants[key] = Value(
                Constant(array), relay_dtype(tensor.dtype), tuple(array.shape)
            )
        return self._constants[key]

    def graph(self, module: GraphModule, given: Mapping[str, object]) -> list[Value]:
        """Return the results of a graph; ``given`` has the values of its placeholders by name."""
        env: dict[FxNode, Any] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = given[node.name]
            elif node.op == "output":
                made = _mapped(node.args[0], env.__getitem__)
                return made if isinstance(made, list) else [made]
            elif node.op == "get_attr":
                env[node] = self._attribute(module, node.target)
            else:
                env[node] = self._guarded(node, env)
        return []

    def inner(self, module: GraphModule, args: Sequence[object]) -> list[Value]:
        """Return the results of an inner graph; its symbols are dims of its operands ``args``."""
        holes = [n for n in module.graph.nodes if n.op == "placeholder"]
        given = dict(zip((n.name for n in holes), args, strict=True))
        for node in holes:
            self._bind_operand(node, given)
        kept = self.maker.node
        try:
            return self.graph(module, given)
        finally:
            self.maker.node = kept

    def _bind_operand(self, node: FxNode, given: dict[str, object]) -> None:
        value, known = given[node.name], node.meta.get("val")
        if isinstance(value, Value) and hasattr(known, "shape"):
            dims = dims_of(known)
            for axis, dim in enumerate(dims):
                if getattr(dim, "is_Symbol", False):
                    self.symbols.bind(dim, partial(dim_at, value.expr, axis))
            given[node.name] = Value(value.expr, value.dtype, dims)
        elif isinstance(value, Value) and hasattr(known, "node"):
            symbol = known.node.expr
            self.symbols.bind(symbol, lambda: value.expr)
            given[node.name] = symbol

    def _attribute(self, module: object, name: str) -> object:
        found = operator.attrgetter(str(name))(module)
        return self.constant(found) if hasattr(found, "data_ptr") else found

    # -- nodes ---------------------------------------------------------------------------------

    def _guarded(self, node: FxNode, env: Mapping[FxNode, Value | SymExpr]) -> object:
        """Return a node's value, or a placeholder if the conversion fails.

        The conversion goes on with the placeholder, so that it finds all problems.
        """
        self.maker.node = node
        self._open.append(node)
        try:
            with placed(place_of(node)), building(self.maker):
                return self._node(node, env)
        except DiscError as error:
            self._refuse(node, str(error))
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError,
                ValueError) as error:  # fmt: skip
            # The converter failed: it does not support these arguments or ranks.
            text = f"{type(error).__name__}: {error}"
            self._refuse(node, f"its converter does not support these operands ({text})")
        finally:
            self._open.pop()
        return _stand_in(node.meta.get("val"))

    def _refuse(self, node: FxNode, why: str) -> None:
        self.problems.append(f"{_described(node)}: {why}")
        self.refused.append(self._open[0])

    def _node(self, node: FxNode, env: Mapping[FxNode, Value | SymExpr]) -> Value | SymExpr:
        val = node.meta.get("val")
        args = _mapped(node.args, env.__getitem__)
        if node.target is operator.getitem and not is_number(val):
            return args[0][args[1]]
        if is_number(val):
            if node.meta.get("unbacked_bindings"):
                self._bind_results(node, args[0])
            return val.node.expr if hasattr(val, "node") else val
        kwargs = _mapped(node.kwargs, env.__getitem__)
        made = self._settled(node, self._made(node, args, kwargs))
        self._bind_results(node, made)
        return made

    def _made(self, node: FxNode, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        name = functional_name(node)
        if name == "_assert_scalar.default":
            self.facts.append(args[0])
        row = ROWS.get(name) or CONTROL.get(str(getattr(node.target, "_name", "")))
        if row is None:
            _check_types(node.meta.get("val"))  # a more specific error, if it is raised
            raise Unsupported("the operator has no converter")
        return row(self.maker, *args, **{k: v for k, v in kwargs.items() if k not in _PLACES})

    def _settled(self, node: FxNode, made: Value) -> Value:
        """Check the types of a converter's results and return them with PyTorch's dims."""
        val = node.meta.get("val")
        if isinstance(made, list | tuple):
            vals = val if isinstance(val, list | tuple) else [None] * len(made)
            return [self._typed(v, x) for v, x in zip(vals, made, strict=False)]
        return self._typed(val, made)

    def _typed(self, val: TorchTensor, made: Value) -> Value:
        if not isinstance(made, Value) or not hasattr(val, "shape"):
            return made
        dims, dtype = dims_of(val), relay_dtype(val.dtype)
        if made.dtype != dtype or made.rank != len(dims):
            raise Unsupported(
                f"the converter returned {made.dtype} of rank {made.rank}, expected {dtype} of "
                f"rank {len(dims)}, as PyTorch infers"
            )
        return Value(made.expr, dtype, dims)

    def _bind_results(self, node: FxNode, made: object) -> None:
        """Define the symbols whose values are data-dependent sizes or numbers in ``made``."""
        for symbol, path in (node.meta.get("unbacked_bindings") or {}).items():
            keys = [
                (type(k).__name__, getattr(k, "idx", getattr(k, "divisor", None))) for k in path
            ]
            self.symbols.bind(symbol, partial(_read, made, keys, symbol))


def _read(made: Any, keys: Sequence[tuple[str, Any]], symbol: SymExpr) -> Expr:
    found: Any = made
    for at, (kind, value) in enumerate(keys):
        if kind == "SequenceKey" and isinstance(found, list | tuple):
            found = found[value]
        elif kind == "SequenceKey" and at and keys[at - 1][0] == "CallMethodKey":
            found = dim_at(found.expr, value)
        elif kind == "DivideByKey":
            found = op("floor_divide", found, scalar(int(value), "int64"))
        elif kind not in ("CallMethodKey", "ConvertIntKey"):
            raise Unsupported(f"the size {symbol} is not supported: PyTorch reads it by {kind}")
    if isinstance(found, Value):
        dtype = "int64" if symbol.is_integer else "float64"
        line = op("reshape", found.expr, newshape=(), allowzero=True)
        found = line if found.dtype == dtype else op("cast", line, dtype=dtype)
    expr: Expr = found
    return expr


# Arguments that only select the device or memory layout of a tensor; converters do not get them.
_PLACES = frozenset(["layout", "device", "pin_memory", "memory_format", "non_blocking", "implicit"])


def _mapped(args: Any, of: Any) -> Any:
    """Return nested arguments with each node replaced by ``of(node)``, and each symbolic number by
    its sympy expression.
    """
    if type(args).__name__ == "Node":
        return of(args)
    if isinstance(args, list | tuple):
        return [_mapped(a, of) for a in args]
    if isinstance(args, Mapping):
        return {k: _mapped(v, of) for k, v in args.items()}
    if isinstance(args, slice):
        return slice(*(_mapped(a, of) for a in (args.start, args.stop, args.step)))
    return args.node.expr if type(args).__name__ in SYMBOLIC else args


def _check_types(val: list[TorchTensor] | tuple[TorchTensor, ...] | TorchTensor) -> None:
    """Raise Unsupported if Relay does not have the dtype of a result."""
    for result in val if isinstance(val, list | tuple) else [val]:
        if hasattr(result, "shape"):
            relay_dtype(result.dtype)


def _stand_in(val: Any) -> Any:
    """Return a placeholder for the result of a node that could not be converted."""
    if isinstance(val, list | tuple):
        return [_stand_in(v) for v in val]
    if not hasattr(val, "shape"):
        return val.node.expr if hasattr(val, "node") else val
    try:
        dtype = relay_dtype(val.dtype)
    except Unsupported:
        dtype = "float32"
    dims = dims_of(val)
    ty = TensorType(tuple(d if isinstance(d, int) else AnyDim() for d in dims), dtype)
    return Value(Var("missing", ty), dtype, dims)


def _described(node: FxNode) -> str:
    place, code = place_and_code(node)
    return f"{node.target} at {place}{f', `{code}`' if code else ''}"


# Advice to the user for a module that `build` refuses.
FALLBACK = (
    'the whole module must be one program here; torch.compile(model, backend="tvm_disc", '
    "dynamic=True) runs such parts in PyTorch and compiles the rest"
)


def described(problems: Sequence[str]) -> str:
    """Return a message that lists ``problems``: one for each node that could not be converted."""
    kinds = "node" if len(problems) == 1 else "nodes"
    lines = "\n  ".join(dict.fromkeys(problems))
    return f"{len(problems)} {kinds} of the PyTorch program cannot be converted:\n  {lines}"
