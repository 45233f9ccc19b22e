"""Kernels of a program: one per distinct group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import Node, link_users, read_call, tensor_type
from tvm_disc.relay_passes.bfloat16 import MOVES, PRODUCTS
from tvm_disc.schedules.elements import is_float
from tvm_disc.schedules.group import solver_of
from tvm_disc.schedules.kernel import Group, Kernel, Machine
from tvm_disc.schedules.select import make_kernel
from tvm_disc.shape import Solver, parse_constraint
from tvm_disc.support.alike import ByStructure
from tvm_disc.support.deadline import at
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr, GlobalVar, TVMFunction


def _operators(group: Group) -> list[str]:
    return [n.op.removeprefix("relax.") for n in group.nodes]


def read_group(name: str, func: TVMFunction) -> tuple[Group, list[Expr]]:
    """Return the group of an outlined function, and its declared symbols in argument order."""
    lookup: dict[Any, Node] = {}
    params: list[Node] = []
    declared: list[Any] = []
    for p in func.params:
        if isinstance(p.ty, relax.ShapeType):
            declared = list(p.ty.values or ())
            continue
        shape, dtype = tensor_type(p.ty)
        lookup[p] = Node("param", (), shape, dtype, var=p)
        params.append(lookup[p])
    nodes: list[Node] = []
    for block in func.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, tvm.ir.Tuple) or value in lookup:
                continue
            node = read_call(binding.var, value, lookup)
            lookup[binding.var] = node
            nodes.append(node)
    _refuse_narrow(nodes)
    _refuse_whole_means(nodes)
    link_users([*params, *nodes])
    outputs = [lookup[v] for v in _output_vars(func)]
    for node in outputs:
        node.is_output = True
    group = Group(name, str(func.attrs["disc.kind"]), nodes, params, outputs, _anchor(func, nodes))
    group.constants = frozenset(params[int(k)] for k in func.attrs["disc.constants"])
    names = {f"d{k}": symbol for k, symbol in enumerate(declared)}
    texts = func.attrs.get("disc.facts", ())
    group.facts = tuple(parse_constraint(str(t), names.get, names) for t in texts)
    return group, declared


def _refuse_narrow(nodes: Sequence[Node]) -> None:
    """Refuse operators that compute in bfloat16, which only a user's pass can produce."""
    for node in nodes:
        dtypes = (
            (node.dtype,) if node.op in PRODUCTS else (node.dtype, *(x.dtype for x in node.inputs))
        )
        if "bfloat16" in dtypes and node.op not in MOVES:
            raise Unsupported(
                f"{node.op.removeprefix('relax.')}: no kernel computes in bfloat16; cast its "
                "operands to float32, and its result back"
            )


def _refuse_whole_means(nodes: Sequence[Node]) -> None:
    """Refuse means of integers. Only a user's pass can produce them, as importers emit a sum and a
    division.
    """
    for node in nodes:
        if node.op == "relax.mean" and not is_float(node.dtype):
            raise Unsupported(
                f"mean: no kernel computes means of {node.dtype}; cast to float32, or divide a sum"
            )


def _output_vars(func: TVMFunction) -> list[Expr]:
    body = func.body.body
    bound = {b.var: b.value for block in func.body.blocks for b in block.bindings}
    value = bound.get(body, body)
    if isinstance(value, tvm.ir.Tuple):
        return list(value.fields)
    return [body]


def _anchor(func: TVMFunction, nodes: Sequence[Node]) -> Node | None:
    index = func.attrs.get("disc.anchor", None)
    return None if index is None else nodes[int(index)]


class KernelLibrary:
    """Generates kernels on demand; equal groups share one.

    Groups are equal if their functions are structurally equal up to names of symbols and variables.

    Args:
        made: function that is called with every new kernel.
    """

    def __init__(
        self,
        solver_factory: Callable[[], Solver],
        machine: Machine,
        constants: Mapping[object, object],
        made: Callable[[Kernel], None] = lambda kernel: None,
    ) -> None:
        self._solver_factory = solver_factory
        self.machine = machine
        self._made = made
        self._constants = constants
        self.expected = 0  # number of groups of the program, for progress messages
        self._by_function = ByStructure[Kernel](map_free_vars=True)
        self._by_var: dict[Expr, Kernel] = {}
        self._declared: dict[str, list[Any]] = {}
        self._kernels: dict[str, Kernel] = {}
        self._nonzero: dict[tuple[int, str], tuple[Kernel, Kernel, list[Any]]] = {}

    def kernels(self) -> list[Kernel]:
        """Return all kernels generated so far."""
        return list(self._kernels.values())

    def declared(self, kernel: Kernel) -> list[Any]:
        """Return the symbols of a kernel in the order of a call's arguments."""
        return self._declared[kernel.name]

    def kernel(self, gv: GlobalVar, func: TVMFunction) -> Kernel:
        """Return the kernel of group function ``func``."""
        if gv in self._by_var:
            return self._by_var[gv]
        kernel = self._by_function.get(func)
        if kernel is None:
            kernel = self._generated(gv, func)
            self._by_function.add(func, kernel)
        self._by_var[gv] = kernel
        return kernel

    def _generated(self, gv: GlobalVar, func: TVMFunction) -> Kernel:
        group, declared = read_group(self._fresh(str(gv.name_hint)), func)
        count = len(self._by_var) + 1
        at(f"kernel {group.name!r} of {', '.join(_operators(group))}", (count, self.expected))
        kernel = make_kernel(group, solver_of(group), self.machine)
        kernel.function = (func, declared)
        self._add(kernel, declared)
        return kernel

    def _fresh(self, name: str) -> str:
        """Return a unique kernel name. The versions of a program use the same names for their
        groups, so a name may already be in use.
        """
        number = 1
        unique = name
        while unique in self._kernels:
            number += 1
            unique = f"{name}_v{number}"
        return unique

    def _add(self, kernel: Kernel, declared: list[Expr]) -> None:
        self._kernels[kernel.name] = kernel
        self._declared[kernel.name] = declared
        self._made(kernel)

    def scratch_bytes(self, kernel: Kernel, values: Mapping[Any, Expr]) -> Expr:
        """Return the scratch bytes of one call in terms of the caller's dims."""
        return substitute(kernel.scratch_bytes, values)

    def forget_constants(self) -> None:
        """Release the constants, which no later kernel reads."""
        self._constants = {}

    def resolve_constant(self, arg: Expr) -> object:
        """Return the constant of an operand that a kernel reads in packed form.

        Raises:
            Unsupported: the operand is not a constant.
        """
        constant = arg if isinstance(arg, tvm.ir.GenericConst) else self._constants.get(arg)
        if constant is None:
            raise Unsupported(f"operand {arg} must be a constant to be packed")
        return constant

    def nonzero(self, shape: Sequence[Expr], dtype: str) -> tuple[Kernel, Kernel, list[Any]]:
        """Return the two kernels of ``nonzero`` for a rank and dtype, which count and write the
        positions, and the dims of a call.
        """
        key = (len(shape), dtype)
        if key not in self._nonzero:
            from tvm_disc.schedules.opaque.nonzero import nonzero_kernels

            made = nonzero_kernels(*key, self._solver_factory(), self.machine)
            count, fill, declared, size = made
            self._add(count, declared)
            self._add(fill, [*declared, size])
            self._nonzero[key] = (count, fill, declared)
        count, fill, _ = self._nonzero[key]
        return count, fill, list(shape)


__all__ = ["KernelLibrary", "read_group"]
