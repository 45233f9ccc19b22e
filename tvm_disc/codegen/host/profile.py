"""Timing of kernels in the host program: time, bytes and operations of each kernel call.

A call is timed if its last argument is an integer, which is the address of a record. In other calls
a timer costs one branch that is not taken. Bytes and operations are computed from the dims of the
actual kernel call, so that loops and computed sizes are counted exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, reduce
from typing import TYPE_CHECKING

from tvm import tirx
from tvm.ir import GlobalVar, PointerType, PrimType
from tvm.tirx import op as O

from tvm_disc.abi.record import COUNT, EVENTS, FIELDS, ROOM
from tvm_disc.codegen.host.abi import element_bytes, i32
from tvm_disc.codegen.plan.program import Launch
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.dispatch.tree import Leaf
from tvm_disc.schedules.kernel import Kernel
from tvm_disc.tir.builder import Block, call, i64, index_var, prim_func
from tvm_disc.tir.hoisted import Sizes
from tvm_disc.tir.index import product, substitute
from tvm_disc.typing import Expr, PrimFunc, Var

if TYPE_CHECKING:
    from tvm_disc.schedules.dispatch.tree import Split


MONOTONIC_CLOCK = 1

NOW, RECORD = GlobalVar("tvm_disc_now"), GlobalVar("tvm_disc_record")


def profile_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the private functions for timed calls."""
    return {NOW: _now(), RECORD: _record()}


def _words(name: str) -> Var:
    return tirx.Var(name, PointerType(PrimType("int64"), "global"))


def _now() -> PrimFunc:
    """Return ``now(out)``: nanoseconds of a monotonic clock."""
    out_ptr = _words("out")
    block = Block()
    out = block.declare("o", out_ptr, "int64")
    time = block.alloc("time", 2, "int64")
    block.eval(O.call_extern("int32", "clock_gettime", i32(MONOTONIC_CLOCK), time.data))
    block.store(out, 0, time[i64(0)] * 1_000_000_000 + time[i64(1)])
    return prim_func([out_ptr], block.stmt())


def _record() -> PrimFunc:
    """Return ``record(address, kernel, variant, start, end, bytes, flops)``, which appends an
    event to the record at ``address``. If the record is full, the event is only counted.
    """
    names = ("address", "kernel", "variant", "start", "end", "bytes", "flops")
    address, *values = params = [tirx.Var(n, "int64") for n in names]
    block = Block()
    pointer = tirx.reinterpret(PointerType(PrimType("int64"), "global"), address)
    record = block.declare("r", block.bind("record", pointer), "int64")
    count = block.bind("count", record[i64(COUNT)])
    block.store(record, COUNT, count + 1)
    with block.when(count < record[i64(ROOM)]):
        for k, value in enumerate(values):
            block.store(record, count * len(FIELDS) + (EVENTS + k), value)
    return prim_func(params, block.stmt())


@cache
def account_name(kernel: str) -> GlobalVar:
    """Return the function that records a launch of the kernel with this name."""
    return GlobalVar(f"tvm_disc_account_{kernel}")


def account_functions(kernels: Iterable[Kernel]) -> dict[GlobalVar, PrimFunc]:
    """Return functions that record launches on a CPU, by name. They are separate functions so that
    the entry point, which every call executes, stays short.
    """
    return {account_name(kernel.name): _account(kernel) for kernel in kernels}


def _account(kernel: Kernel) -> PrimFunc:
    """Return ``account(profile, number, start, symbols ...)``: append the event of a launch that
    ends now.
    """
    profile, number, start = (index_var(n) for n in ("profile", "number", "start"))
    symbols = [index_var(str(s.name)) for s in kernel.symbols]
    block = Block()
    end = block.alloc("end", 1, "int64")
    block.eval(call(NOW, end.data))
    variant, size, flops = launch_work(block, Launch(kernel, [], [], [*symbols], None))
    block.eval(call(RECORD, profile, number, variant, start, end[i64(0)], size, flops))
    return prim_func([profile, number, start, *symbols], block.stmt())


# -- work -----------------------------------------------------------------------------------------


def launch_work(block: Block, launch: Launch) -> list[Expr]:
    """Return a launch's variant as a number, its bytes and its operations."""
    sizes = Sizes(block)
    work = (launch_variant(launch), launch_bytes(launch), launch_flops(launch))
    return [sizes.plain(number) for number in work]


def launch_bytes(launch: Launch) -> Expr:
    """Return the bytes that a launch must at least move: each operand and each result once. If rows
    are copied into a buffer, these rows count twice, and the buffer does not count.
    """
    kernel = launch.kernel
    nodes = [*kernel.params, *kernel.outputs]
    if kernel.extension is not None:
        nodes = kernel.touched
    packed = {n: kernel.packed_bytes(n) for n in kernel.params}
    sizes = [i64(packed.get(n) or product(n.shape) * element_bytes(n.dtype)) for n in nodes]
    return _in_call_dims(launch, reduce(lambda a, b: a + b, sizes, i64(0)))


def launch_flops(launch: Launch) -> Expr:
    """Return the number of operations of a launch; a multiply-add counts as two, and other
    operators count by their cost per element.
    """
    work = [node_flops(node) for node in launch.kernel.nodes]
    return _in_call_dims(launch, reduce(lambda a, b: a + b, work, i64(0)))


def node_flops(node: Node) -> Expr:
    """Return the number of operations of one operator as an expression of its dims."""
    row, elements = node.row, product([i64(d) for d in node.shape])
    if row is None or row.cls in (OpClass.VIEW, OpClass.INJECTIVE):
        return i64(0)
    if row.extends:  # counts the new elements only
        return product([i64(d) for d in node.inputs[1].shape]) * row.cost
    if row.cls is OpClass.DOT:
        return elements * 2 * i64(node.inputs[0].shape[-1])
    if row.cls is OpClass.CONV and "kernel_layout" in node.attrs:
        weight = node.inputs[1].shape
        outputs = str(node.attrs["kernel_layout"]).index("O")
        window = [i64(d) for axis, d in enumerate(weight) if axis != outputs]
        return elements * 2 * product(window)
    if row.cls in (OpClass.REDUCE, OpClass.CONV):
        return product([i64(d) for d in node.inputs[0].shape]) * row.cost
    return elements * row.cost


def variant_number(kernel: Kernel) -> Expr:
    """Return the index of the variant that the kernel's dispatch tree selects.

    The expression consists of selections, which :class:`~tvm_disc.tir.hoisted.Sizes` can hoist.
    """
    choice = kernel.choice
    if choice is None:
        return i64(0)

    def number(tree: Leaf | Split) -> Expr:
        if not isinstance(tree, Leaf):
            asked = i64(choice.features[tree.feature][0]) < tree.at
            return tirx.Select(asked, number(tree.below), number(tree.rest))
        variant = choice.variants[tree.variant]
        if variant.safe:
            return i64(tree.variant)
        needs = reduce(tirx.And, [need.cond for need in variant.plan.needs])
        instead = choice.variants.index(choice.instead(variant))
        return tirx.Select(needs, i64(tree.variant), i64(instead))

    return number(choice.tree)


def launch_variant(launch: Launch) -> Expr:
    """Return the index of the variant that a launch runs."""
    return _in_call_dims(launch, variant_number(launch.kernel))


def _in_call_dims(launch: Launch, expr: Expr) -> Expr:
    values = dict(zip(launch.kernel.symbols, launch.symbols, strict=True))
    return substitute(i64(expr), {k: i64(v) for k, v in values.items()})


def kernel_numbers(kernels: Sequence[Kernel]) -> dict[str, int]:
    """Return the number by which events refer to each kernel, by kernel name."""
    return {kernel.name: k for k, kernel in enumerate(kernels)}
