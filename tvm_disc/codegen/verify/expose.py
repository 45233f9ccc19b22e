"""``ExposeCalls``: return the results of all kernel calls of ``main``, to compare them one by one.

    before   h = dot_0(x, w); y = row_1(h); return y
    after    h = dot_0(x, w); y = row_1(h); return (y, h, y)

Requires that ``FuseDISC`` ran before. Groups, and therefore kernels, do not change. Calls in
branches, loops and other functions are not exposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_disc.graph.nodes import is_tensor
from tvm_disc.relay_passes.rewrite import returning, with_main
from tvm_disc.support.literals import literal_value
from tvm_disc.typing import Array, Binding, Expr, TVMFunction, TVMModule, Var


@dataclass(frozen=True)
class Operand:
    """An operand of a kernel call: a constant, an input of ``main``, or an exposed value.

    Attributes:
        constant: the value of a constant, else None.
        number: position among the inputs or among the exposed values.
        is_input: whether the operand is an input.
    """

    constant: Array | None = None
    number: int = -1
    is_input: bool = False

    def of(self, inputs: Sequence[Array], values: Sequence[Array]) -> Array:
        """Return the operand's value in a call."""
        if self.constant is not None:
            return self.constant
        return (inputs if self.is_input else values)[self.number]


@dataclass(frozen=True)
class KernelCall:
    """One call of a group function in ``main``.

    Attributes:
        name: the name of the group function and of the kernel.
        operators: names of its operators.
        place: the model's operator that the kernel computes last; empty if unknown.
        function: the group function.
        operands: its tensor operands; None if an operand is not an input, constant or exposed
            value.
        dims: the sizes of the call, as expressions of the symbols of ``main``.
        results: positions of its results among the exposed values; None for unused ones.
    """

    name: str
    operators: tuple[str, ...]
    place: str
    function: TVMFunction
    operands: tuple[Operand, ...] | None
    dims: tuple[Expr, ...]
    results: tuple[int | None, ...]


class ExposeCalls:
    """Pass that adds the values of kernel calls to the results of ``main``.

    Attributes:
        calls: the kernel calls of the last module, in order.
        count: the number of values that were added.
    """

    def __init__(self) -> None:
        self.calls: list[KernelCall] = []
        self.count = 0
        self._inputs: list[Var] = []
        self._values: list[Var] = []

    def symbols(self, inputs: Sequence[Array], values: Sequence[Array]) -> dict[Var, int]:
        """Return the values of those symbols of ``main`` that are a dim of an input or of an
        exposed value.
        """
        found: dict[Var, int] = {}
        variables, arrays = [*self._inputs, *self._values], [*inputs, *values]
        for var, array in zip(variables, arrays, strict=True):
            if is_tensor(var.ty) and var.ty.shape is not None:
                for dim, size in zip(var.ty.shape.values, array.shape, strict=True):
                    if isinstance(dim, tvm.ir.Var):
                        found[dim] = size
        return found

    def __call__(self, mod: TVMModule) -> TVMModule:
        """Return a module whose ``main`` returns ``(result, value 0, value 1, ...)``."""
        main = mod["main"]
        bindings = [b for block in main.body.blocks for b in block.bindings]
        groups = {
            str(gv.name_hint): f
            for gv, f in mod.functions_items()
            if f.attrs is not None and "disc.kind" in f.attrs
        }
        called = [b for b in bindings if _group_of(b, groups) is not None]
        fields: dict[Var, dict[int, Var]] = {b.var: {} for b in called if not is_tensor(b.var.ty)}
        for b in bindings:
            if isinstance(b.value, relax.TupleGetItem):
                whole = b.value.tuple_value
                if isinstance(whole, tvm.ir.Var) and whole in fields:
                    fields[whole][int(b.value.index)] = b.var
        inputs = {p: k for k, p in enumerate(main.params)}
        shown = _Values()
        self.calls = [_read(b, groups, fields, inputs, shown, bindings) for b in called]
        self.count = len(shown.variables)
        self._inputs, self._values = list(main.params), shown.variables
        return with_main(mod, returning(main, shown.variables))


class _Values:
    """The variables that the new ``main`` returns, without repetitions."""

    def __init__(self) -> None:
        self.variables: list[Var] = []
        self.numbers: dict[Var, int] = {}

    def number(self, var: Var) -> int:
        if var not in self.numbers:
            self.numbers[var] = len(self.variables)
            self.variables.append(var)
        return self.numbers[var]


def _group_of(binding: Binding, groups: Mapping[str, TVMFunction]) -> str | None:
    value = binding.value
    if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.GlobalVar):
        return None
    name = str(value.op.name_hint)
    return name if name in groups else None


def _read(
    binding: Binding,
    groups: Mapping[str, TVMFunction],
    fields: Mapping[Var, Mapping[int, Var]],
    inputs: Mapping[Var, int],
    shown: _Values,
    bindings: Sequence[Binding],
) -> KernelCall:
    name = _group_of(binding, groups)
    assert name is not None
    function, var = groups[name], binding.var
    known = {b.var for b in bindings}
    args = binding.value.args
    tensors = [arg for arg in args if not isinstance(arg, relax.ShapeExpr)]
    operands = [_operand(arg, inputs, known, shown) for arg in tensors]
    dims = [d for arg in args if isinstance(arg, relax.ShapeExpr) for d in arg.values]
    if is_tensor(var.ty):
        results: tuple[int | None, ...] = (shown.number(var),)
        last = var
    else:
        parts = fields[var]
        count = len(var.ty.fields)
        results = tuple(shown.number(parts[k]) if k in parts else None for k in range(count))
        last = parts[max(parts)] if parts else var
    body = [b.value for block in function.body.blocks for b in block.bindings]
    operators = [
        str(v.op.name).removeprefix("relax.")
        for v in body
        if isinstance(v, tvm.ir.Call) and isinstance(v.op, tvm.ir.Op)
    ]
    found = None if None in operands else tuple(o for o in operands if o is not None)
    place = _place(last, var)
    return KernelCall(name, tuple(operators), place, function, found, tuple(dims), results)


def _operand(
    arg: Expr, inputs: Mapping[Var, int], known: set[Var], shown: _Values
) -> Operand | None:
    if isinstance(arg, tvm.ir.GenericConst):
        return Operand(literal_value(arg))
    if not isinstance(arg, tvm.ir.Var):
        return None
    if arg in inputs:
        return Operand(number=inputs[arg], is_input=True)
    if arg in known and is_tensor(arg.ty):
        return Operand(number=shown.number(arg))
    return None


def _place(*variables: Var) -> str:
    """Return the name of the model's operator from which the variables were imported."""
    for var in variables:
        if var.span is not None:
            return str(var.span.source_name.name)
    return ""


__all__ = ["ExposeCalls", "KernelCall", "Operand"]
