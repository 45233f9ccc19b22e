"""Lowering of a fused Relax module to a host program of storages and instructions.

Views share the storage of their operand. Tail-recursive functions become loops. Results are written
directly into tensors allocated for the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_disc.codegen.host.abi import element_bytes
from tvm_disc.codegen.plan.constants import ProgramConstant
from tvm_disc.codegen.plan.kernels import KernelLibrary
from tvm_disc.codegen.plan.lower_objects import Dead, ObjectLowerer
from tvm_disc.codegen.plan.ownership import place_counts
from tvm_disc.codegen.plan.picks import pick_guards, range_guard, result_shapes
from tvm_disc.codegen.plan.position import Position
from tvm_disc.codegen.plan.program import (
    AllocOutput,
    Box,
    Carried,
    Cell,
    Conditional,
    Copy,
    Define,
    GuardExit,
    Home,
    Launch,
    Loop,
    Outcome,
    Program,
    ReadDims,
    Region,
    Signature,
    Storage,
    StoredTensor,
)
from tvm_disc.codegen.plan.tail_recursion import (
    calls,
    first_write,
    leaves,
    loop_form,
    rebuild,
    written_in,
)
from tvm_disc.errors import Unsupported
from tvm_disc.graph.core_ops import CORE, OpClass
from tvm_disc.graph.nodes import is_tensor, static_dim
from tvm_disc.relay.kernel_ops import APPEND, CHECKED
from tvm_disc.relay.object_ops import is_general, is_object, object_op
from tvm_disc.relay_passes.module_facts import DONATED
from tvm_disc.schedules.kernel import Kernel
from tvm_disc.shape import Solver
from tvm_disc.support.late import Late
from tvm_disc.support.literals import literal_value
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import mul, product, substitute
from tvm_disc.typing import Call, Expr, GlobalVar, SeqExpr, TVMFunction, TVMType, Var

_assign_donors = Late("tvm_disc.codegen.plan.donation:assign_donors")
_updated = Late("tvm_disc.codegen.plan.donation:updated")


def lower_program(mod: object, solver: Solver, library: KernelLibrary) -> Program:
    """Return the host program of ``mod["main"]``; calls of group functions become kernel
    launches.
    """
    return _Lowerer(mod, solver, library).main()


class _Lowerer:
    def __init__(self, mod: Any, solver: Solver, library: KernelLibrary) -> None:
        self.mod, self.solver, self.library = mod, solver, library
        self.here = Position(solver)
        self.objects = ObjectLowerer(dict(mod.functions_items()), self.here, self)
        self.constants: list[ProgramConstant] = []
        self.constant_of: dict[object, StoredTensor] = {}
        # names of donated inputs
        self.donated = [str(n) for n in (mod["main"].attrs or {}).get(DONATED, ())]
        # Values that the result of an If or Loop may alias, by its storage.
        self.lies: dict[Storage, list[StoredTensor]] = {}

    # -- entry ---------------------------------------------------------------------------------

    def main(self) -> Program:
        func = self.mod["main"]
        inputs: list[StoredTensor] = []
        for p in func.params:
            if is_object(p.ty):
                inputs += self.objects.input_box(p, len(inputs))[0]
            else:
                inputs.append(self._input(len(inputs), p))
        for value in inputs:
            self.here.defined.update(d for d in value.shape if isinstance(d, tirx.Var))
        self.here.settle_guards()
        self.here.at_entry = set(self.here.defined)
        result = self.sequence(func.body)
        outputs: list[StoredTensor] = []
        tree = self._outputs(result, outputs)
        names = [(v.storage.name, v.shape, v.dtype) for v in inputs]
        body = self.here.region
        functions = self.objects.lower_waiting()
        self.here.require_placed()
        self.here.region = body
        if self.objects.boxed:
            place_counts(body, [])
            for function in functions:
                place_counts(function.region, function.params)
        program = Program(
            Signature(names, [(v.shape, v.dtype) for v in outputs]),
            self.here.region,
            inputs,
            outputs,
            tree,
            self.constants,
            self.library.kernels(),
            definitions=[s for s in body.leading() if isinstance(s, Define)],
            attrs=dict(func.attrs or {}),
            functions=functions,
            boxed=self.objects.boxed,
        )
        if self.donated:
            _assign_donors(program, self.donated, self.solver)
        return program

    def _input(self, position: int, param: Any) -> StoredTensor:
        if not is_tensor(param.ty):
            raise Unsupported(f"input '{param.name}': expected a tensor, found {param.ty}")
        shape, dtype = tuple(param.ty.shape.values), str(param.ty.dtype)
        storage = Storage(Home.INPUT, i64(0), str(param.name), position=position)
        value = StoredTensor(shape, dtype, storage)
        self.here.env[param] = value
        return value

    def _outputs(self, result: Any, outputs: list[StoredTensor]) -> Any:
        if isinstance(result, tuple):
            return tuple(self._outputs(r, outputs) for r in result)
        if isinstance(result, Box):
            outputs += self.objects.output_box(result, len(outputs))
            return (len(outputs) - 2, len(outputs) - 1)
        outputs.append(self._returned(result, len(outputs), outputs))
        return len(outputs) - 1

    def _returned(
        self, value: StoredTensor, position: int, earlier: Sequence[StoredTensor]
    ) -> StoredTensor:
        """Return a result of the program. If the value is a temporary that may be returned, its
        storage becomes the output; otherwise the value is copied to a new output.
        """
        storage = value.storage
        if self.objects.may_be_returned(value):
            storage.home, storage.position = Home.OUTPUT, position
            returned = StoredTensor(value.shape, value.dtype, storage)
            first = first_write(self.here.region, storage)
            self.here.region.instructions.insert(first, AllocOutput(returned))
            return returned
        target = Storage(Home.OUTPUT, storage.size_bytes, f"out{position}", position=position)
        returned = StoredTensor(value.shape, value.dtype, target)
        self.here.add(AllocOutput(returned))
        self.here.add(Copy(storage, target, self._bytes(value)))
        return returned

    # -- values --------------------------------------------------------------------------------

    def _bytes(self, value: StoredTensor) -> Expr:
        return mul(product(value.shape), element_bytes(value.dtype))

    def _temp(self, shape: Sequence[Expr], dtype: str, name: str) -> StoredTensor:
        name = self.here.numbered(name)
        plain = mul(product(shape), element_bytes(dtype))
        # The simplified size may contain symbols that are bound only later; then use the plain
        # size.
        simple = self.solver.simplify(plain)
        bound = all(v in self.here.defined for v in tirx.analysis.undefined_vars(i64(simple)))
        size = simple if bound else plain
        storage = self._located(size, name)
        value = self.here.values[storage] = StoredTensor(tuple(shape), dtype, storage)
        if storage.home is Home.CELL and self.objects.boxed:
            storage.home, storage.box = Home.BOX, Box(storage.name, value)
        return value

    def _located(self, size: Expr, name: str) -> Storage:
        """Return a storage in the workspace; in a cell if the region begins without the size."""
        if all(v in self.here.at_entry for v in tirx.analysis.undefined_vars(i64(size))):
            return Storage(Home.WORKSPACE, size, name)
        return Storage(Home.CELL, size, name, cell=Cell(name))

    def _constant(self, expr: Expr) -> StoredTensor:
        found = self.constant_of.get(expr)
        if found is None:
            found = self._laid(ProgramConstant(literal_value(expr)), str(expr.ty.dtype))
            self.constant_of[expr] = found
        return found

    def _laid(self, constant: ProgramConstant, dtype: str) -> StoredTensor:
        position = len(self.constants)
        self.constants.append(constant)
        shape = tuple(i64(d) for d in constant.form[0])
        size = i64(constant.nbytes)
        storage = Storage(Home.CONSTANT, size, f"const{position}", position=position)
        return StoredTensor(shape, dtype, storage)

    def value(self, expr: Any) -> Any:
        """Return the value of an operand."""
        if isinstance(expr, tvm.ir.GenericConst):
            return self._constant(expr)
        if isinstance(expr, tvm.ir.Tuple):
            return tuple(self.value(f) for f in expr.fields)
        if isinstance(expr, tvm.ir.TupleGetItem):
            whole = self.value(expr.tuple_value)
            return whole if isinstance(whole, Dead) else whole[int(expr.index)]
        if expr in self.here.env:
            return self.here.env[expr]
        raise Unsupported(f"{type(expr).__name__} where a value is expected: {expr}")

    # -- sequences -----------------------------------------------------------------------------

    def sequence(self, seq: SeqExpr) -> Any:
        """Lower a sequence; return its value."""
        for block in seq.blocks:
            for binding in block.bindings:
                self.binding(binding)
        return self.value(seq.body)

    def binding(self, binding: Any) -> None:
        """Lower one binding."""
        var = binding.var
        value = binding.value
        if isinstance(binding, relax.MatchCast):
            if isinstance(value, relax.ShapeExpr):
                for declared, dim in zip(binding.ty.values, value.values, strict=True):
                    self._unify(declared, dim, str(var.name))
            else:
                self.here.env[var] = self._match(self.value(value), binding.ty)
            return
        if isinstance(value, tvm.ir.Call):
            self.here.env[var] = self._call(var, value)
        elif isinstance(value, relax.If):
            self.here.env[var] = (
                self.objects.choose(var, value) if self.objects.boxed else self._branch(value)
            )
        elif isinstance(value, relax.ShapeExpr):
            self.here.env[var] = value
        else:
            self.here.env[var] = self.value(value)

    def _match(self, value: Any, ty: TVMType) -> Any:
        """Lower a ``match_cast``: bind new symbols, and emit guards that compare the known ones."""
        if isinstance(value, tuple):
            return tuple(self._match(v, t) for v, t in zip(value, ty.fields, strict=True))
        if isinstance(ty, relax.ShapeType):
            return self._read_numbers(value, ty)
        if isinstance(value, Dead | Box) or ty.shape is None:
            return value
        for axis, (declared, actual) in enumerate(zip(ty.shape.values, value.shape, strict=True)):
            self._unify(declared, actual, f"axis {axis} of {value.storage.name}")
        return StoredTensor(tuple(ty.shape.values), value.dtype, value.storage)

    def _read_numbers(self, value: Any, ty: TVMType) -> object:
        """Lower the binding of symbols to the elements of a tensor."""
        numbers = []
        for declared in ty.values:
            fresh = isinstance(declared, tirx.Var) and declared not in self.here.defined
            numbers.append(declared if fresh else tirx.Var("number", "int64"))
            self.here.defined.add(numbers[-1])
        self.here.add(ReadDims(numbers, value.storage))
        for number, declared in zip(numbers, ty.values, strict=True):
            self.here.add(GuardExit(number >= 0, "a size that is computed from data is negative"))
            if number is not declared:
                cond = tirx.EQ(number, i64(declared))
                self.here.add(GuardExit(cond, f"expected {declared}"))
        self.here.settle_guards()
        return value

    def _unify(self, declared: Expr, actual: Expr, where: str) -> None:
        if isinstance(declared, tirx.Var) and declared not in self.here.defined:
            self.here.define(declared, actual)
        elif not self.solver.known_eq(declared, actual):
            cond = tirx.EQ(i64(declared), i64(actual))
            self.here.add(GuardExit(cond, f"{where}: expected {declared}"))

    def _call(self, var: Any, call: Any) -> Any:
        if isinstance(call.op, tvm.ir.GlobalVar):
            func = self.objects.functions[call.op]
            if func.attrs is not None and "disc.kind" in func.attrs:
                return self._launch(var, call, func)
            if is_general(func):
                return self.objects.call_general(var, call)
            if calls(func.body, call.op):
                return self._recursive(call, func)
            return self._inline(call, func)
        if object_op(call) is not None:
            return self.objects.object(var, call)
        name = str(call.op.name)
        row = CORE.get(name)
        if row is not None and row.cls is OpClass.VIEW:
            source = self.value(call.args[0])
            self.here.settle_sizes(var.ty.shape.values, name)
            return StoredTensor(tuple(var.ty.shape.values), source.dtype, source.storage)
        if name == "relax.tensor_to_shape":
            return self.value(call.args[0])
        if name == "relax.nonzero":
            return self._nonzero(self.value(call.args[0]))
        if name == CHECKED:
            return self._checked(call)
        raise Unsupported(f"operator {name} was left outside every fused group")

    def _checked(self, call: Call) -> Any:
        """Lower a range check; return its first operand. Guards compare the numbers that were
        computed from the operand with the limits.
        """
        data, *numbers, limits = call.args
        found = [tirx.Var("found", "int64") for _ in numbers]
        for var, number in zip(found, numbers, strict=True):
            self.here.add(ReadDims([var], self.value(number).storage))
            self.here.defined.add(var)
        self.here.add(range_guard(call.attrs, found, [i64(x) for x in limits.values]))
        return self.value(data)

    # -- kernels -------------------------------------------------------------------------------

    def _launch(
        self, var: Var, call: Call, func: TVMFunction
    ) -> StoredTensor | tuple[StoredTensor, ...]:
        kernel = self.library.kernel(call.op, func)
        tensors = [a for a in call.args if not isinstance(a, relax.ShapeExpr)]
        shape_args = [a for a in call.args if isinstance(a, relax.ShapeExpr)]
        symbols = list(shape_args[0].values) if shape_args else []
        values = [self._packed(kernel, k, a) for k, a in enumerate(tensors)]
        types = list(var.ty.fields) if not is_tensor(var.ty) else [var.ty]
        extended = self._extended(kernel, values, symbols)
        if extended is not None:
            outputs = [extended]
        else:
            outputs = [self._temp(t.shape.values, str(t.dtype), kernel.name) for t in types]
        self._emit_launch(kernel, values, outputs, symbols)
        return outputs[0] if is_tensor(var.ty) else tuple(outputs)

    def _extended(
        self, kernel: Kernel, values: Sequence[StoredTensor], symbols: Sequence[Expr]
    ) -> StoredTensor | None:
        """Return the buffer that a kernel extends or updates in place, or None. For a kernel that
        appends rows, add a guard that they fit.
        """
        node = kernel.extension
        if node is None:
            return None
        buffer, new, length = node.inputs
        place: StoredTensor = values[kernel.params.index(buffer)]
        if node.op != APPEND:
            assert place.storage.home is Home.INPUT, "an update of a copy would be lost"
            if place.storage.name not in self.donated:
                return place
            result: StoredTensor = _updated(place, self._bytes(place), self.here.env.values())
            self.here.values[result.storage] = result
            return result
        given = dict(zip(self.library.declared(kernel), symbols, strict=True))
        axis = int(node.attrs["axis"])
        used, rows, capacity = (
            substitute(i64(d), given)
            for d in (length.shape[0], new.shape[axis], buffer.shape[axis])
        )
        message = f"the capacity of '{place.storage.name}' is too small for the new rows"
        self.here.add(GuardExit(used + rows <= capacity, message))
        return place

    def _emit_launch(
        self,
        kernel: Kernel,
        values: Sequence[StoredTensor],
        outputs: Sequence[StoredTensor],
        symbols: list[Expr],
    ) -> None:
        # A call passes symbols in the order of declaration; the kernel has its own order.
        given = dict(zip(self.library.declared(kernel), symbols, strict=True))
        ordered = [given[s] for s in kernel.symbols]
        scratch = None
        if static_dim(kernel.scratch_bytes) != 0:
            size = self.library.scratch_bytes(kernel, given)
            scratch = self._located(size, f"scratch_{self.here.counter}")
        for shape, operator in result_shapes(kernel.nodes, given):
            self.here.settle_sizes(shape, operator)
        self.here.region.instructions += pick_guards(kernel.nodes, given, self.solver)
        self.here.add(
            Launch(
                kernel,
                [v.storage for v in values],
                [v.storage for v in outputs],
                ordered,
                scratch,
            )
        )

    def _packed(self, kernel: Kernel, position: int, arg: Expr) -> StoredTensor:
        """Return an operand of a kernel call; a weight is packed if the kernel requires this."""
        pack = kernel.packed.get(kernel.params[position])
        if pack is None:
            value = self.value(arg)
            assert isinstance(value, StoredTensor)
            return value
        constant = self.library.resolve_constant(arg)
        key = (constant, pack)
        found = self.constant_of.get(key)
        if found is None:
            weight = ProgramConstant(literal_value(constant), pack)
            found = self._laid(weight, weight.form[1])
            self.constant_of[key] = found
        return found

    def _nonzero(self, source: StoredTensor) -> StoredTensor:
        """Lower ``nonzero`` to two kernels: the first counts the elements that are not zero, the
        second writes their positions. The count becomes a dim.
        """
        count, fill, symbols = self.library.nonzero(source.shape, source.dtype)
        total = self._temp((i64(1),), "int64", "count")
        self._emit_launch(count, [source], [total], symbols)
        size = tirx.Var("nonzero", "int64")
        self.here.add(ReadDims([size], total.storage))
        self.here.defined.add(size)
        self.here.settle_guards()
        value = self._owned((i64(len(source.shape)), size), "int64", "positions")
        self._emit_launch(fill, [source], [value], [*symbols, size])
        return value

    def _owned(self, shape: Sequence[Expr], dtype: str, name: str) -> StoredTensor:
        size = mul(product(shape), element_bytes(dtype))
        storage = Storage(Home.CELL, size, name, cell=Cell(self.here.numbered(name)))
        return StoredTensor(tuple(shape), dtype, storage)

    # -- control flow --------------------------------------------------------------------------

    def _inline(self, call: Call, func: TVMFunction) -> Any:
        for param, arg in zip(func.params, call.args, strict=True):
            value = self.value(arg)
            self.here.env[param] = self._match(value, param.ty)
        return self.sequence(func.body)

    def _branch(self, node: Any) -> object:
        cond = self.value(node.cond)
        regions = Region(), Region()
        results = [
            self.here.within(r, partial(self.sequence, b))
            for r, b in zip(regions, (node.true_branch, node.false_branch), strict=True)
        ]
        found = [leaves(r) for r in results]
        for region, values in zip(regions, found, strict=True):
            region.results = [self._escape(region, v) for v in values]
        outcomes = [
            self._outcome(a, b) for a, b in zip(regions[0].results, regions[1].results, strict=True)
        ]
        for outcome, *values in zip(outcomes, *(r.results for r in regions), strict=True):
            self.lies[outcome.value.storage] = values
        self.here.add(Conditional(cond.storage, *regions, outcomes))
        return rebuild(results[0], iter([o.value for o in outcomes]))

    def _escape(self, region: Region, value: StoredTensor) -> StoredTensor:
        """Move a value that outlives its region, and all values that it may alias, from the
        workspace to cells.
        """
        seen: set[Storage] = set()
        waiting = [value]
        while waiting:
            storage = waiting.pop().storage
            if storage in seen:
                continue
            seen.add(storage)
            if storage.home is Home.WORKSPACE and written_in(region, storage):
                storage.home, storage.cell = Home.CELL, Cell(storage.name)
            waiting += self.lies.get(storage, ())
        return value

    def _outcome(self, a: StoredTensor, b: StoredTensor | None = None) -> Outcome:
        dims: list[Any] = []
        for axis, dim in enumerate(a.shape):
            other = dim if b is None else b.shape[axis]
            same = static_dim(dim) is not None and static_dim(dim) == static_dim(other)
            if not same and self._visible(dim) and self._visible(other):
                same = bool(self.solver.known_eq(dim, other))
            dims.append(None if same else tirx.Var("dim", "int64"))
        shape = tuple(d if v is None else v for d, v in zip(a.shape, dims, strict=True))
        self.here.defined.update(v for v in dims if v is not None)
        value = self._owned(shape, a.dtype, "chosen")
        return Outcome(value, dims)

    def _visible(self, dim: Expr) -> bool:
        if isinstance(dim, tirx.IntImm):
            return True
        names = [dim] if isinstance(dim, tirx.Var) else tirx.analysis.undefined_vars(dim)
        return all(v in self.here.defined for v in names)

    def _recursive(self, call: Any, func: Any) -> object:
        """Lower a call of a tail-recursive function to a loop."""
        header_seq, chosen, tail = loop_form(func, call.op)
        branch = chosen.value
        pairs = zip(func.params, call.args, strict=True)
        carried = [self._carried(p, self.value(a)) for p, a in pairs]
        outer_defined = set(self.here.defined)
        for c in carried:
            self.here.defined.update(d for d in c.dims if d is not None)
        header, body, leave = Region(), Region(), Region()
        outer, self.here.region = self.here.region, header
        settled, entry = set(self.here.settled), self.here.at_entry
        self.here.at_entry = set(self.here.defined)
        self.here.settle_guards()
        for binding in header_seq:
            self.binding(binding)
        cond = self.value(branch.cond)
        recurse_first = calls(branch.true_branch, call.op)
        again = branch.true_branch if recurse_first else branch.false_branch
        done = branch.false_branch if recurse_first else branch.true_branch
        next_values = self._step_values(body, again, call.op, carried)
        result = self._exit(leave, done, chosen.var, tail, func.body.body)
        leave.results = [self._escape(header, self._escape(leave, v)) for v in leaves(result)]
        body.results = [self._escape(header, self._escape(body, v)) for v in next_values]
        self.here.leave()
        self.here.region, self.here.defined, self.here.settled = outer, outer_defined, settled
        self.here.at_entry = entry
        for c, following in zip(carried, body.results, strict=True):
            self.lies[c.value.storage] = [c.initial, following]
        outcomes = [self._outcome(v) for v in leave.results]
        for outcome, found in zip(outcomes, leave.results, strict=True):
            self.lies[outcome.value.storage] = [found]
        loop = Loop(carried, header, cond.storage, body, leave, outcomes, until=not recurse_first)
        self.here.add(loop)
        return rebuild(result, iter([o.value for o in outcomes]))

    def _exit(
        self, region: Region, seq: SeqExpr, var: object, tail: Sequence[Expr], out: object
    ) -> object:
        """Lower the branch that leaves the loop, and the bindings after the branch that repack its
        result.
        """

        def run() -> Any:
            self.here.env[var] = self.sequence(seq)
            for binding in tail:
                self.binding(binding)
            return self.value(out)

        return self.here.within(region, run)

    def _carried(self, param: Any, initial: StoredTensor) -> Carried:
        storage = Storage(Home.CELL, i64(0), str(param.name))
        storage.cell = Cell(self.here.numbered(str(param.name)))
        dims: list[Any] = []
        seen: set[object] = set()
        for declared, actual in zip(param.ty.shape.values, initial.shape, strict=True):
            if isinstance(declared, tirx.Var) and declared not in self.here.defined | seen:
                dims.append(declared)
                seen.add(declared)
            else:
                dims.append(None)
                self._unify(declared, actual, f"input '{param.name}' of a loop")
        value = StoredTensor(tuple(param.ty.shape.values), initial.dtype, storage)
        self.here.env[param] = value
        return Carried(value, dims, initial)

    def _step_values(
        self, body: Region, seq: SeqExpr, gv: GlobalVar, carried: list[Carried]
    ) -> list[StoredTensor]:
        result = self.here.within(body, lambda: self._step(seq, gv, carried))
        if result is None:
            raise Unsupported(f"{gv.name_hint}: the recursive call must be in tail position")
        return list(result)

    def _step(self, seq: SeqExpr, gv: object, carried: list[Carried]) -> list[StoredTensor] | None:
        result: list[StoredTensor] | None = None
        for block in seq.blocks:
            for binding in block.bindings:
                call = binding.value if isinstance(binding, relax.VarBinding) else None
                if (
                    isinstance(call, tvm.ir.Call)
                    and isinstance(call.op, tvm.ir.GlobalVar)
                    and (call.op.same_as(gv))
                ):
                    result = self._next_values(call, carried)
                elif result is None:
                    self.binding(binding)
        return result

    def _next_values(self, call: Call, carried: list[Carried]) -> list[StoredTensor]:
        values: list[StoredTensor] = []
        homes = {c.value.storage: k for k, c in enumerate(carried)}
        for k, arg in enumerate(call.args):
            value = self.value(arg)
            twice = any(v.storage is value.storage for v in values)
            if homes.get(value.storage, k) != k or twice:
                value = self._copied(value)
            values.append(value)
        return values

    def _copied(self, value: StoredTensor) -> StoredTensor:
        target = self._owned(value.shape, value.dtype, "copy")
        self.here.add(Copy(value.storage, target.storage, self._bytes(value)))
        return target
