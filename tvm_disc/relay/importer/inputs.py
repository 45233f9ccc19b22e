"""Convert the inputs of a Relay function.

Every ``?`` becomes a new symbol, dims of one name share a symbol, and the user's facts are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, tirx

from tvm_disc.errors import BadInput, TypeMismatch, Unsupported
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.tensor import DTYPES, Tensor
from tvm_disc.relay.module import IRModule
from tvm_disc.shape import Solver, declare_facts
from tvm_disc.support.late import Late
from tvm_disc.typing import Array, Var

if TYPE_CHECKING:
    from tvm_disc.relay.expr import Expr, HostArray

_annotate_inputs = Late("tvm_disc.relay.inference.infer:annotate_inputs")

DIM_OPS: Mapping[str, Any] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": tirx.floordiv,
    "FloorMod": tirx.floormod,
    "Div": tirx.floordiv,
    "Mod": tirx.floormod,
    "Max": tirx.max,
    "Min": tirx.min,
}


def check_params(params: object) -> dict[str, HostArray | Array]:
    """Return the input values by name.

    Raises:
        BadInput: ``params`` does not map names to arrays of numbers.
    """
    if not isinstance(params, Mapping):
        found = type(params).__name__
        raise BadInput(f"params: expected a mapping of input names to arrays, found {found}")
    for name, value in params.items():
        if not isinstance(name, str):
            raise BadInput(f"params: expected names of inputs, found {name!r}")
        numbers = hasattr(value, "dtype") and hasattr(value, "shape")
        if not numbers or getattr(value.dtype, "kind", "f") not in "biufV":
            what = getattr(value, "dtype", type(value).__name__)
            raise BadInput(f"params: '{name}': expected an array of numbers, found {what}")
        if isinstance(value, np.ma.MaskedArray):
            raise BadInput(f"params: '{name}': expected an array, found a masked array")
    return dict(params)


class Inputs:
    """Creates the tensors of a function's inputs.

    Invariant: ``symbols`` is shared by both walks over the program, so that the second walk uses
    the same symbols and the facts known about them.
    """

    def __init__(self, ctx: Emitter, symbols: dict[Any, Any]) -> None:
        self.ctx, self.solver, self.symbols = ctx, ctx.solver, symbols

    def bound(self, param: ast.Var, array: np.ndarray) -> Tensor:
        """Return an input whose value is given at compile time."""
        ty = param.type_annotation
        if isinstance(ty, rt.TensorType) and (
            ty.dtype != str(array.dtype)
            or len(ty.shape) != len(array.shape)
            or any(
                isinstance(d, int) and d != n for d, n in zip(ty.shape, array.shape, strict=True)
            )
        ):
            found = rt.TensorType(array.shape, str(array.dtype))
            raise TypeMismatch(f"params: '{param.name_hint}': expected {ty}, found {found}")
        return self.ctx.constant(np.asarray(array))

    def input(self, param: ast.Var) -> Tensor:
        """Return the tensor of an input, with symbols for its ``?`` dims."""
        ty = param.type_annotation
        if not isinstance(ty, rt.TensorType):
            raise Unsupported(
                f"input '{param.name_hint}': expected a tensor type, found {ty}; "
                "an input is a tensor, a tuple or a data type"
            )
        if ty.dtype not in DTYPES:
            raise Unsupported(
                f"input '{param.name_hint}': expected bools or numbers of 8 to 64 bits, "
                f"found {ty.dtype}"
            )
        dims = [
            self._dim(
                d,
                (param, axis),
                f"{identifier(param.name_hint)}_{axis}",
                f"input '{param.name_hint}' axis {axis}",
            )
            for axis, d in enumerate(ty.shape)
        ]
        var = relax.Var(param.name_hint, relax.TensorType(dims, ty.dtype))
        return Tensor(tuple(dims), ty.dtype, var)

    def _dim(self, dim: object, key: tuple[Expr, int], name: str, source: str) -> object:
        """Return a Relay dim as an expression; each anonymous ``?`` has its own symbol, by
        ``key``.
        """
        if isinstance(dim, int | np.integer):
            return i64(int(dim))
        if isinstance(dim, rt.Any):
            return self._symbol(key if dim.name is None else dim.name, dim.name or name, source)
        if isinstance(dim, rt.DimVar):
            return self._symbol(dim.name, dim.name, source)
        if isinstance(dim, rt.DimOp):
            a, b = (self._dim(x, key, name, source) for x in (dim.a, dim.b))
            return self.solver.simplify(DIM_OPS[dim.op](a, b))
        raise Unsupported(
            f"{source}: expected an int, a symbol or arithmetic of them as a dim, found {dim}"
        )

    def _symbol(self, key: tuple[Expr, int] | str, name: str, source: str) -> object:
        if key not in self.symbols:
            self.symbols[key] = self.solver.symbol(name, source)
        self.solver.declare(self.symbols[key], source)
        return self.symbols[key]


def declare(
    main: ast.Function,
    params: Mapping[str, np.ndarray],
    constraints: Sequence[str],
    premises: Sequence[str],
    solver: Solver,
    symbols: dict[str, Var],
) -> dict[Any, Any]:
    """Create the input symbols and add the user's facts about them to the solver.

    Returns:
        ``symbols``; symbols that the premises make equal are merged, so that the inputs' types show
        the equality. A symbol that equals an expression which is not a symbol is kept, since the
        type of an input must contain the symbol.
    """
    inputs = Inputs(Emitter(solver), symbols)
    dims: dict[str, Any] = {}
    for p in main.params:
        boxed = isinstance(p.type_annotation, rt.TupleType | rt.TypeCall | rt.GlobalTypeVar)
        if p.name_hint not in params and not boxed:
            for axis, d in enumerate(inputs.input(p).dims):
                dims[f"{p.name_hint}.{axis}"] = d
                if isinstance(d, tirx.Var):
                    dims.setdefault(str(d.name), d)
    declare_facts(solver, dims, constraints, premises)
    if not premises:
        return symbols
    merged = {key: solver.simplify(var) for key, var in symbols.items()}
    return {k: e if isinstance(e, tirx.Var) else symbols[k] for k, e in merged.items()}


def identifier(name: str) -> str:
    """Return a source name as an identifier."""
    text = "".join(c if c.isalnum() else "_" for c in name).strip("_")
    return text if text and not text[0].isdigit() else f"v{text}"


def with_input_types(mod: IRModule, values: Mapping[str, object] | None = None) -> IRModule:
    """Return ``mod`` with types for the untyped inputs of ``main``; see ``annotate_inputs``.

    Type inference is imported only if an input is not a tensor of known type.
    """
    if "main" not in mod or not isinstance(main := mod["main"], ast.Function):
        return mod
    if all(isinstance(p.type_annotation, rt.TensorType) for p in main.params):
        return mod
    annotated: IRModule = _annotate_inputs(mod, values)
    return annotated
