"""Kernels: the functions of a group's variants, and the driver that picks and runs one.

A template emits the body for a range ``[lo, hi)`` of its independent tasks. This module emits what
all templates have in common: parameters, symbolic dims, scratch memory, the choice of a variant and
the number of threads.

    name_body(inputs..., outputs..., scratch, dims..., algorithm, lo, hi)
    name(inputs..., outputs..., scratch, dims..., threads)

Variants that differ only in their algorithm share a body. A body with one algorithm has no
parameter ``algorithm``. ``threads`` bounds the number of concurrent parts, and so the scratch
memory in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import GlobalVar

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.relay.kernel_ops import APPEND
from tvm_disc.schedules.branches import emit_choice, pointers, some_element, uses_scratch
from tvm_disc.schedules.dispatch.tree import Leaf, Split, Tree
from tvm_disc.schedules.dispatch.variant import SERIAL, Choice, Plan, Stage, Variant
from tvm_disc.schedules.gemm.micro_kernel import may_alias
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import (
    INDEX,
    Block,
    byte_offset,
    call,
    i64,
    index_var,
    prim_func,
    storage_dtype,
)
from tvm_disc.tir.hoisted import Sizes
from tvm_disc.tir.index import IndexSpace, add, mul, product
from tvm_disc.tir.llvm_ops import tuned_for
from tvm_disc.typing import UNSET, Buffer, Expr, PrimFunc, Size, Var

if TYPE_CHECKING:
    from tvm_disc.schedules.cuda.kernel import Ahead
    from tvm_disc.schedules.packing import Packing

# below 2**31, because masked lanes of a vector may have offsets after the last element
SMALL_INDEX = (1 << 31) - (1 << 16)
# Gap between the scratch memory of two threads. A thread prefetches up to 32 steps of 64 floats
# ahead (8192 bytes); without the gap it would fetch cache lines that the other thread writes.
GAP_BYTES = 8192

__all__ = ["Body", "Group", "Kernel", "Machine", "Plan", "build_kernel", "single"]


@dataclass(eq=False)
class Kernel:
    """A compiled group before code generation.

    Attributes:
        entry: the driver, called with pointers, scratch and symbols.
        emit: returns all TIR functions of the kernel.
        symbols: the group's symbolic dims, in argument order.
        scratch_bytes: bytes of scratch for one call, an expression over ``symbols``.
        nodes: the nodes that the kernel computes.
        packed: the packing of each parameter that is passed in a different layout.
        notes: the kernel's lines in ``explain``.
        choice: the kernel's variants and the tree that picks one.
        library: on a device, the choice between the kernel and a library; None if no library can
            replace the kernel.
        group: the group from which it was built.
        function: the Relax function of the group, and its symbols as that function declares them.
        symbol: the kernel's entry point in an existing object file; None if it must be compiled.
    """

    name: str
    kind: str
    nodes: list[Node]
    entry: Any
    emit: Callable[[], dict[GlobalVar, PrimFunc]]
    params: list[Node]
    outputs: list[Node]
    symbols: list[Any]
    scratch_bytes: Expr
    packed: dict[Node, Packing] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    choice: Choice | None = None
    library: Choice | None = None
    group: Group | None = None
    function: tuple[Any, list[Any]] | None = None
    symbol: str | None = None

    @property
    def extension(self) -> Node | None:
        """The node of a kernel that writes into an existing buffer in place, else None.

        The node's inputs are ``(buffer, new rows, length or indices)``.
        """
        last = self.nodes[-1] if self.nodes else None
        return last if last is not None and last.row is not None and last.row.extends else None

    @property
    def touched(self) -> list[Node]:
        """The inputs of :attr:`extension` that are read or written in full, for counting bytes.

        An input occurs once per access: the new rows twice (they are read, then written into the
        buffer), indices once. The buffer and a scalar length are not counted.
        """
        node = self.extension
        assert node is not None
        return [node.inputs[1], *node.inputs[1 : 2 if node.op == APPEND else 3]]

    def packed_bytes(self, param: Node) -> int | None:
        """Return the bytes of a packed constant, not counting padding.

        None if the parameter is passed in its original layout.
        """
        if param not in self.packed:
            return None
        given = (tuple(map(int, param.shape)), param.dtype)
        forms = (given, self.packed[param].form(*given))
        return min(math.prod(shape) * _bytes(dtype) for shape, dtype in forms)

    @cached_property
    def funcs(self) -> dict[GlobalVar, PrimFunc]:
        """All TIR functions of the kernel."""
        return self.emit()

    @property
    def names(self) -> list[str]:
        """The names of the variants, by their number in events; library variants come last."""
        own = self.choice.variants if self.choice is not None else []
        other = [v for v in self.library.variants if v.of_library] if self.library else []
        return [str(v) for v in (*own, *other)]

    def choice_json(self) -> dict[str, object]:
        """Return the kernel's decision trees as JSON-compatible values."""
        found = self.choice.to_json() if self.choice is not None else {}
        return {**found, "library": self.library.to_json()} if self.library else found

    @property
    def parallel(self) -> bool:
        """Whether a call may run on several threads."""
        return self.choice is not None and any(v.run.parts > 1 for v in self.choice.variants)


def single(plan: Plan) -> Choice:
    """Return the choice of a kernel with one serial variant."""
    return Choice([Variant(plan, SERIAL)], Leaf(0))


def build_kernel(
    group: Group,
    choice: Choice,
    solver: Solver,
    machine: Machine,
    ahead: Ahead | None = None,
) -> Kernel:
    """Build a kernel from the variants that were kept.

    Args:
        ahead: on a device, emits code that is tried before the variants, such as a library call.
    """
    symbols = group.symbols()
    if machine.device is not None:
        from tvm_disc.schedules.cuda.kernel import device_functions, with_runs

        choice = with_runs(choice)
        funcs = device_functions(group, choice, solver, machine, index_space(solver), ahead)
        entry, emit = next(iter(funcs)), lambda: funcs
    else:
        entry = GlobalVar(group.name)
        emit = partial(_functions, entry, group, choice, solver, machine)
    plan = choice.variants[0].plan
    return Kernel(
        group.name,
        group.kind,
        group.nodes,
        entry,
        emit,
        group.params,
        group.outputs,
        symbols,
        _scratch_bytes(group, choice, solver),
        plan.packed,
        plan.notes,
        choice,
        group=group,
    )


def _functions(
    entry: GlobalVar, group: Group, choice: Choice, solver: Solver, machine: Machine
) -> dict[GlobalVar, PrimFunc]:
    """Return all functions of a CPU kernel; ``entry`` is its driver."""
    symbols = group.symbols()
    bodies: dict[str, _Body] = {}
    for variant in choice.variants:
        for part in _parts(group, variant.plan):
            key, name = _body_key(variant.plan, part), f"{group.name}_body{len(bodies) or ''}"
            body = bodies.setdefault(key, _Body(GlobalVar(name), part.group, part.plan, []))
            body.plans.extend(part.plans)
    with tuned_for(machine.isa):
        funcs = {body.var: body.function(solver, symbols) for body in bodies.values()}
    some = some_element(group.outputs, solver)
    funcs[entry] = _Driver(group, choice, symbols, bodies).function(some)
    return funcs


def _parts(group: Group, plan: Plan) -> tuple[Stage, ...]:
    """Return the stages of a plan; a plan without stages is one stage."""
    whole = Stage(group, plan, tuple(group.params), tuple(group.outputs))
    return plan.stages or (whole,)


def _body_key(plan: Plan, part: Stage) -> str:
    """Return the key of a body; bodies with equal keys contain the same code."""
    return plan.code if part.plan is plan else f"{plan.code} {part.group.name}"


def _kept_bytes(group: Group, plan: Plan) -> dict[Node, Expr]:
    """Return the nodes that a plan's stages pass through scratch memory, and their bytes."""
    done = {*group.params, *group.outputs}
    return {
        node: tirx.floordiv(mul(product(node.shape), _bytes(storage_dtype(node.dtype))) + 63, 64)
        * 64
        for stage in plan.stages
        for node in stage.targets
        if node not in done
    }


def _plan_bytes(group: Group, plan: Plan, parts: int) -> list[Expr]:
    """Return candidates for the scratch bytes of a plan on ``parts`` threads, one per stage plan.

    The plan needs the maximum of the candidates.
    """
    kept: Expr = i64(0)
    for size in _kept_bytes(group, plan).values():
        kept = add(kept, size)
    return [add(kept, _part_bytes(p, parts)) for s in _parts(group, plan) for p in s.plans]


def _part_bytes(plan: Plan, parts: int) -> Expr:
    """Return the scratch bytes of all parts that have at least one task."""
    each = mul(i64(plan.scratch_elems), _bytes(plan.scratch_dtype))
    if parts == 1 or static_dim(each) == 0:
        return each
    others = tirx.max(tirx.min(i64(plan.tasks), i64(parts)) - 1, i64(0))
    return add(each, mul(add(each, GAP_BYTES), others))


def _scratch_bytes(group: Group, choice: Choice, solver: Solver) -> Expr:
    """Return the scratch bytes of the variant that the tree picks."""

    def under(tree: Tree) -> Expr:
        if isinstance(tree, Split):
            below, rest = under(tree.below), under(tree.rest)
            if tvm_ffi.structural_equal(below, rest):
                return below
            return tirx.Select(i64(choice.features[tree.feature][0]) < tree.at, below, rest)
        variant = choice.variants[tree.variant]
        if variant.safe:
            return _most(group, [variant], solver)
        instead = choice.instead(variant)
        either = _most(group, [variant, instead], solver)
        conds = [need.cond for need in variant.plan.needs if need.assumed is None]
        if not conds:
            return either
        met = tirx.all(*conds) if len(conds) > 1 else conds[0]
        return tirx.Select(met, either, _most(group, [instead], solver))

    return under(choice.tree)


def _most(group: Group, variants: Sequence[Variant], solver: Solver) -> Expr:
    """Return the maximum of the variants' scratch bytes, as an expression over the symbols."""
    sizes: list[Expr] = []
    # The sizes of stages are sums of many rounded terms; a proof about them takes seconds.
    proofs = None if any(v.plan.stages for v in variants) else solver
    for v in variants:
        for size in _plan_bytes(group, v.plan, v.run.parts):
            if static_dim(size) == 0 or any(_covers(s, size, proofs) for s in sizes):
                continue
            sizes = [s for s in sizes if not _covers(size, s, proofs)] + [size]
    return reduce(tirx.max, sizes) if sizes else i64(0)


def _covers(large: Expr, small: Expr, solver: Solver | None) -> bool:
    """Return whether ``large >= small`` is proved; without a solver, whether both are equal."""
    if solver is None:
        return bool(tvm_ffi.structural_equal(large, small))
    return bool(solver.known_le(small, large))


def _bytes(dtype: str) -> int:
    return max(1, int(tvm.DataType(dtype).bits) // 8)


def _fresh(symbols: Sequence[Any]) -> list[object]:
    return [index_var(str(s.name)) for s in symbols]


def index_space(solver: Solver) -> IndexSpace:
    """Return an index space that uses the solver's facts about dims."""

    def small(dims: Sequence[Expr]) -> bool:
        high = solver.range_of(product(dims))[1]
        return high is not None and high <= SMALL_INDEX

    return IndexSpace(lambda a, b: bool(solver.known_eq(a, b)), small)


@dataclass(frozen=True)
class _Body:
    """The function of a group, or of a stage, for plans that differ only in their algorithm."""

    var: Any
    group: Group
    plan: Plan
    plans: list[Plan]

    @property
    def algorithms(self) -> tuple[int, ...]:
        """The numbers of the algorithms in the function."""
        return tuple(sorted({p.algorithm for p in self.plans}))

    def function(self, solver: Solver, symbols: Sequence[Any]) -> PrimFunc:
        """Return the function; it has a parameter for the algorithm if there are several."""
        group, plan = self.group, self.plan
        ins, outs, scratch = pointers(group, plan)
        lo, hi = index_var("lo"), index_var("hi")
        block = Block()
        low = Lowering(block, index_space(solver), solver)
        buffers: dict[Node, Buffer] = {}
        for i, (param, ptr) in enumerate(zip(group.params, ins, strict=True)):
            dtype = plan.packed_dtypes.get(param, param.dtype)
            buffers[param] = block.declare(f"x{i}", ptr, dtype)
            low.bind_buffer(param, buffers[param])
        outputs = [
            block.declare(f"y{i}", ptr, node.dtype)
            for i, (node, ptr) in enumerate(zip(group.outputs, outs, strict=True))
        ]
        temp: Buffer = UNSET
        if any(map(uses_scratch, self.plans)):
            temp = block.declare("tmp", scratch, plan.scratch_dtype)
        several = [index_var("algorithm")] if len(self.algorithms) > 1 else []
        number = several[0] if several else self.algorithms[0]
        plan.emit(Body(block, low, buffers, outputs, temp, lo, hi, number, self.algorithms))
        # The symbols of the module are parameters of the body, as the same variables.
        func = prim_func([*ins, *outs, scratch, *symbols, *several, lo, hi], block.stmt())
        return may_alias(func) if plan.may_alias else func


@dataclass(frozen=True)
class _OneOf:
    """Plans that share a body; at run time, ``number`` is the index of one."""

    plans: Sequence[Plan]
    number: Expr

    def value(self, of: Callable[[Plan], Size]) -> Expr:
        """Return ``of(plan)`` for the plan that is selected at run time."""
        *others, result = [i64(of(p)) for p in self.plans]
        for k, value in reversed(list(enumerate(others))):
            if not tvm_ffi.structural_equal(value, result):
                result = tirx.Select(self.number == k, value, result)
        return result


class _Driver:
    """Emits the function that evaluates the tree and runs the chosen variant."""

    def __init__(
        self,
        group: Group,
        choice: Choice,
        symbols: Sequence[object],
        bodies: dict[str, _Body],
    ) -> None:
        self.group, self.choice, self.symbols, self.bodies = group, choice, symbols, bodies
        self.ins, self.outs, self.scratch = pointers(group, choice.variants[0].plan)
        self.threads = index_var("threads")
        self.block = Block()

    def function(self, some: Expr | None) -> PrimFunc:
        """Return the kernel's entry, which returns at once unless ``some`` holds.

        The tree computes the number of a variant. Variants that share code have consecutive numbers
        and one call site.
        """
        runs: dict[tuple[str, int], list[Variant]] = {}
        for variant in self.choice.variants:
            runs.setdefault((variant.plan.code, variant.run.parts), []).append(variant)
        block, together = self.block, list(runs.values())
        with nullcontext() if some is None else block.when(Sizes(block).plain(some)):
            if len(together) == 1 and len(together[0]) == 1:
                self._run(together[0], i64(0))
            else:
                self._by_number(together)
        params = [*self.ins, *self.outs, self.scratch, *self.symbols, self.threads]
        return prim_func(params, self.block.stmt())

    def _by_number(self, together: list[list[Variant]]) -> None:
        block = self.block
        pick = block.alloc("pick", 1, INDEX)
        numbers = {id(v): n for n, v in enumerate(v for same in together for v in same)}
        emit_choice(block, self.choice, None, lambda v: block.store(pick, 0, i64(numbers[id(v)])))
        number = block.bind("number", pick[i64(0)])
        with ExitStack() as others:
            for same in together[:-1]:
                with block.when(number <= numbers[id(same[-1])]):
                    self._run(same, number - numbers[id(same[0])])
                others.enter_context(block.otherwise())
            self._run(together[-1], number - numbers[id(together[-1][0])])

    def _run(self, same: Sequence[Variant], number: Expr) -> None:
        """Emit the call of variants that share code; ``number`` is the index within ``same``."""
        plan = same[0].plan
        places, room = self._places(plan)
        for part in _parts(self.group, plan):
            plans = [v.plan for v in same]
            if part.plan is not plan:
                plans, number = part.plans, self._among(part.plan)
            self._part(same[0], part, _OneOf(plans, number), places, room)

    def _among(self, plan: Plan) -> Expr:
        """Return the index of the selected plan among the plans of a stage."""
        choice = plan.among
        if choice is None:
            return i64(0)

        def index(variant: Variant) -> Expr:
            here = i64(next(k for k, v in enumerate(choice.variants) if v is variant))
            if variant.safe:
                return here
            needs = [need.cond for need in variant.plan.needs]
            met = tirx.all(*needs) if len(needs) > 1 else needs[0]
            return tirx.Select(met, here, index(choice.instead(variant)))

        def under(tree: Tree) -> Expr:
            if isinstance(tree, Leaf):
                return index(choice.variants[tree.variant])
            below, rest = under(tree.below), under(tree.rest)
            return tirx.Select(i64(choice.features[tree.feature][0]) < tree.at, below, rest)

        return self.block.bind("number", Sizes(self.block).plain(under(choice.tree)))

    def _places(self, plan: Plan) -> tuple[dict[Node, Expr | Var], Expr]:
        """Return the address of every operand, result and kept intermediate.

        The second value is the byte offset at which the remaining scratch memory begins.
        """
        nodes = (*self.group.params, *self.group.outputs)
        places = dict(zip(nodes, (*self.ins, *self.outs), strict=True))
        for node, skipped in plan.skipped.items():
            if skipped:
                dtype = plan.packed_dtypes[node]
                places[node] = byte_offset(places[node], skipped * _bytes(dtype), dtype)
        at: Expr = i64(0)
        for node, size in _kept_bytes(self.group, plan).items():
            places[node] = byte_offset(self.scratch, at, storage_dtype(node.dtype))
            at = add(at, size)
        return places, at

    def _part(
        self,
        variant: Variant,
        part: Stage,
        plans: _OneOf,
        places: dict[Node, Expr | Var],
        room: Expr,
    ) -> None:
        plan, block = part.plan, self.block
        parts: Size = variant.run.parts
        body = self.bodies[_body_key(variant.plan, part)]
        nodes = [places[n] for n in (*part.sources, *part.targets)]

        def run(number: Expr | None, lo: Expr, hi: Expr) -> None:
            skip = room
            if any(map(uses_scratch, plans.plans)) and number is not None:
                share = add(each * _bytes(plan.scratch_dtype), GAP_BYTES)
                skip = add(room, number * share)
            temp = byte_offset(self.scratch, skip, plan.scratch_dtype)
            if static_dim(skip) == 0 and plan is self.choice.variants[0].plan:
                temp = self.scratch
            args = [*nodes, temp, *self.symbols, *algorithm, lo, hi]
            block.eval(call(body.var, *args))

        sizes = Sizes(block)  # a dim may be a choice among dims, which TVM's analyzer would expand
        algorithm: list[Expr] = []
        if len(body.algorithms) > 1:
            algorithm.append(block.bind("algorithm", plans.value(lambda p: p.algorithm)))
        tasks = block.bind("tasks", sizes.plain(plans.value(lambda p: p.tasks)))
        if parts == 1:
            run(None, i64(0), tasks)
            return
        each = sizes.plain(plans.value(lambda p: p.scratch_elems))
        parts = block.bind("parts", tirx.min(i64(parts), self.threads))
        with block.when(tirx.And(tasks > 1, parts > 1)):
            chunk = block.bind("chunk", tirx.truncdiv(tasks + (parts - 1), parts))
            with block.loop("part", parts, kind="parallel") as number:
                lo, hi = number * chunk, tirx.min((number + 1) * chunk, tasks)
                with block.when(lo < hi):  # no scratch memory is allocated for parts without tasks
                    run(number, lo, hi)
        with block.otherwise():
            run(None, i64(0), tasks)
