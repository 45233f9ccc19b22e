"""Lowering of boxed values, which are data types, references and closures, and of calls and
branches on boxed values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import tvm
from tvm import relax, tirx

from tvm_disc.codegen.objects.heap import MAX_ARGS, MAX_RESULTS
from tvm_disc.codegen.objects.refcount import (
    BoxCopy,
    BoxView,
    Choose,
    Decode,
    Encode,
    Fail,
    GetField,
    HasTag,
    Invoke,
    MakeClosure,
    MakeNode,
    Measure,
    Return,
    SetField,
    Unbox,
)
from tvm_disc.codegen.plan.position import Position
from tvm_disc.codegen.plan.program import (
    AllocOutput,
    Box,
    Home,
    HostFunction,
    Region,
    Storage,
    StoredTensor,
)
from tvm_disc.codegen.plan.tail_recursion import leaves, only_repacks, symbols_of
from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import is_tensor
from tvm_disc.relay.object_ops import is_general, needs_boxes, object_op
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Binding, Call, Expr, GlobalVar, SeqExpr, TVMType, Var


class Dead:
    """The value of unreachable code."""


class Sequences(Protocol):
    """Interface that lowers sequences, bindings and operands."""

    def sequence(self, seq: SeqExpr) -> Any:
        """Lower a sequence; return its value."""

    def binding(self, binding: object) -> None:
        """Lower one binding."""

    def value(self, expr: object) -> Any:
        """Return the value of an operand."""


class ObjectLowerer:
    """Lowers operations on boxed values.

    Attributes:
        boxed: whether the program has any boxed values.
    """

    def __init__(self, functions: dict[Any, Any], here: Position, sequences: Sequences) -> None:
        self.functions, self.here, self.sequences = functions, here, sequences
        self.boxed = any(
            needs_boxes(f) for f in functions.values() if isinstance(f, relax.Function)
        )
        self.host_functions: dict[Expr, HostFunction] = {}
        self.waiting: list[tuple[HostFunction, Any]] = []

    def may_be_returned(self, value: StoredTensor) -> bool:
        """Return whether a value can be computed directly into a tensor for the caller.

        This tensor is allocated before the first write, so its dims must be bound there. If the
        value is a view, its dims may be bound only later.
        """
        storage = value.storage
        if storage.home not in (Home.WORKSPACE, Home.CELL) or storage not in self.here.values:
            return False
        shape = None if storage.donor is None else storage.donor.shape  # of an updated input
        if shape is not None and not self.here.solver.known_same_shape(value.shape, shape):
            return False
        bound = self.here.at_entry | symbols_of(self.here.values[storage])
        return symbols_of(value) <= bound

    # -- boxes ---------------------------------------------------------------------------------

    def _box(self, name: str) -> Box:
        return Box(self.here.numbered(name))

    def boxes(self, value: object) -> Box:
        """Return the box of a value; create a box if the value has none."""
        if isinstance(value, Box):
            return value
        if isinstance(value, tuple):
            return self._node(0, [self.boxes(v) for v in value])
        assert isinstance(value, StoredTensor)
        storage = value.storage
        if storage.home is Home.WORKSPACE and storage in self.here.values:
            # The address of the value was not used yet, so the value can be computed directly into
            # a box.
            storage.home, storage.box = Home.BOX, self._box(storage.name)
            storage.box.value = self.here.values[storage]
        if storage.home is Home.BOX:
            assert storage.box is not None
            held = storage.box.value
            if held is not None and self._same(held, value):
                return storage.box
        target = self._box("box")
        if storage.home in (Home.BOX, Home.INPUT, Home.CONSTANT):
            self.here.add(BoxView(target, value, storage.box))
        else:
            self.here.add(BoxCopy(target, value))
        return target

    def _same(self, a: StoredTensor, b: StoredTensor) -> bool:
        return len(a.shape) == len(b.shape) and all(
            x is y or bool(self.here.solver.known_eq(x, y))
            for x, y in zip(a.shape, b.shape, strict=True)
        )

    def _node(self, tag: int, fields: list[Box]) -> Box:
        target = self._box("node")
        self.here.add(MakeNode(target, tag, fields))
        return target

    def opened(self, box: Box, ty: Any) -> StoredTensor | Box:
        """Return the content of a box whose Relax type is ``ty``: a tensor, or the box of another
        type.
        """
        if not is_tensor(ty):
            return box
        dims: list[Any] = list(ty.shape.values) if ty.shape is not None else [None] * int(ty.ndim)
        binds: list[Any] = []
        for k, dim in enumerate(dims):
            if dim is None:
                dims[k] = tirx.Var("dim", "int64")
            new = isinstance(dims[k], tirx.Var) and dims[k] not in self.here.defined
            binds.append(dims[k] if new else None)
            self.here.defined.update(b for b in binds if b is not None)
        storage = Storage(Home.BOX, i64(0), box.name, box=box)
        value = StoredTensor(tuple(dims), str(ty.dtype), storage)
        box.value = value
        self.here.add(Unbox(value, box, binds))
        self.here.settle_guards()
        return value

    def _spread(self, found: Iterator[Box], ty: object) -> Any:
        """Return boxes as a value of a Relax type, nested like the type."""
        if isinstance(ty, relax.TupleType):
            return tuple(self._spread(found, f) for f in ty.fields)
        return self.opened(next(found), ty)

    # -- operations ----------------------------------------------------------------------------

    def object(self, var: Var, call: Call) -> Any:
        """Lower an operation on boxed values; return its value."""
        name, args = object_op(call), list(call.args)
        if name == "construct":
            return self._node(
                int(args[0].value), [self.boxes(self.sequences.value(a)) for a in args[1:]]
            )
        if name == "has_tag":
            node = self.sequences.value(args[2])
            return HasTag(node, int(args[0].value), bool(args[1].value))
        if name == "field":
            return self._field(self.sequences.value(args[1]), int(args[0].value), var.ty)
        if name == "closure":
            function = self.host_function(args[0])
            target = self._box("closure")
            captures = [self.boxes(self.sequences.value(a)) for a in args[1:]]
            self.here.add(MakeClosure(target, function, captures))
            return target
        if name == "apply":
            callee = self.sequences.value(args[0])
            return self._invoke(callee, args[1:], var.ty)
        if name == "ref":
            return self._node(0, [self.boxes(self.sequences.value(args[0]))])
        if name == "read":
            return self._field(self.sequences.value(args[0]), 0, var.ty)
        if name == "write":
            cell, content = self.sequences.value(args[0]), self.boxes(self.sequences.value(args[1]))
            self.here.add(SetField(cell, content))
            return ()
        assert name == "fail", name
        self.here.add(Fail(str(args[0].value)))
        return Dead()

    def _field(self, source: Box, index: int, ty: TVMType) -> StoredTensor | Box:
        target = self._box("field")
        self.here.add(GetField(target, source, index))
        return self.opened(target, ty)

    def _invoke(self, callee: Box | HostFunction, args: Sequence[Any], ty: TVMType) -> Any:
        boxes = [self.boxes(self.sequences.value(a)) for a in args]
        results = [self._box("result") for _ in _leaf_types(ty)]
        self.here.add(Invoke(callee, boxes, results))
        return self._spread(iter(results), ty)

    # -- functions -----------------------------------------------------------------------------

    def call_general(self, var: Expr, call: Call) -> Any:
        """Lower a call of a function on boxed values."""
        return self._invoke(self.host_function(call.op), call.args, var.ty)

    def host_function(self, gv: GlobalVar) -> HostFunction:
        """Return the host function of a global variable; its body is lowered later.

        Raises:
            Unsupported: the function has too many arguments or results.
        """
        if gv not in self.host_functions:
            func = self.functions[gv]
            params = [Box(str(p.name)) for p in func.params]
            results = len(_leaf_types(func.ret_ty))
            if len(params) > MAX_ARGS or results > MAX_RESULTS:
                raise Unsupported(
                    f"function {gv.name_hint}: expected at most {MAX_ARGS} arguments and "
                    f"{MAX_RESULTS} results, found {len(params)} and {results}; each field of a "
                    "tuple and each captured value counts as one"
                )
            index = len(self.host_functions) + 1
            made = HostFunction(index, str(gv.name_hint), params, results)
            self.host_functions[gv] = made
            self.waiting.append((made, func))
        return self.host_functions[gv]

    def lower_waiting(self) -> list[HostFunction]:
        """Lower the bodies of all host functions; return the functions."""
        while self.waiting:
            made, func = self.waiting.pop()
            self.here.leave()
            self.here.region, self.here.defined = Region(), set()
            for box, p in zip(made.params, func.params, strict=True):
                self.here.env[p] = self.opened(box, p.ty)
            made.prologue = self.here.region.instructions
            self.here.region, self.here.at_entry = made.region, set(self.here.defined)
            self._tail(func.body)
        return list(self.host_functions.values())

    def _tail(self, seq: Any) -> None:
        """Lower a sequence in tail position: a call at its end becomes a tail call."""
        bindings = [b for block in seq.blocks for b in block.bindings]
        last = len(bindings) - 1
        while last >= 0 and only_repacks(bindings[last]):
            last -= 1
        final = bindings[last] if last >= 0 else None
        if final is None or not _passes_on(final.var, bindings[last + 1 :], seq.body):
            result = self.sequences.sequence(seq)
            if not _ended(self.here.region):
                self.here.add(Return([self.boxes(v) for v in leaves(result)]))
            return
        for b in bindings[:last]:
            self.sequences.binding(b)
        self._tail_binding(final, bindings[last + 1 :], seq.body)

    def _tail_binding(self, final: Binding, rest: Sequence[Binding], body: Expr) -> None:
        value = final.value
        if isinstance(value, relax.If):
            regions = Region(), Region()
            cond = self.condition(value.cond)
            for region, branch in zip(
                regions, (value.true_branch, value.false_branch), strict=True
            ):
                self.here.within(region, partial(self._tail, branch))
            self.here.add(Choose(cond, *regions))
            return
        called = isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar)
        if called and is_general(self.functions[value.op]):
            self._last(self.host_function(value.op), value.args)
        elif object_op(value) == "apply":
            self._last(self.sequences.value(value.args[0]), value.args[1:])
        else:
            for b in (final, *rest):
                self.sequences.binding(b)
            if not _ended(self.here.region):
                self.here.add(Return([self.boxes(v) for v in leaves(self.sequences.value(body))]))

    def _last(self, callee: HostFunction, args: Sequence[Any]) -> None:
        self.here.add(
            Invoke(callee, [self.boxes(self.sequences.value(a)) for a in args], [], last=True)
        )

    # -- branches ------------------------------------------------------------------------------

    def condition(self, expr: Expr) -> HasTag | Storage:
        """Return the condition of a branch: a tag test, or a boolean in memory."""
        cond = self.sequences.value(expr)
        return cond if isinstance(cond, HasTag) else cond.storage

    def choose(self, var: Var, node: Expr) -> Any:
        """Lower a branch whose results are boxes."""
        types = _leaf_types(var.ty)
        cond = self.condition(node.cond)
        regions = Region(), Region()
        for region, branch in zip(regions, (node.true_branch, node.false_branch), strict=True):
            self.here.within(region, partial(self._yield, region, branch))
        outcomes = [self._box("chosen") for _ in types]
        self.here.add(Choose(cond, *regions, outcomes))
        return self._spread(iter(outcomes), var.ty)

    def _yield(self, region: Region, branch: SeqExpr) -> None:
        result = self.sequences.sequence(branch)
        if not _ended(region):
            region.boxes = [self.boxes(v) for v in leaves(result)]

    # -- inputs and results of the program -----------------------------------------------------

    def input_box(self, param: Var, position: int) -> tuple[list[StoredTensor], Box]:
        """Add an input in flat form, which is two tensors, and the instruction that decodes it;
        return the tensors and the box.
        """
        name, box = str(param.name), self._box(str(param.name))
        flat = []
        for k, (part, dtype) in enumerate((("codes", "int64"), ("blob", "uint8"))):
            size = tirx.Var(f"{name}_{part}", "int64")
            self.here.defined.add(size)
            storage = Storage(Home.INPUT, i64(0), f"{name}.{part}", position=position + k)
            flat.append(StoredTensor((size,), dtype, storage))
        self.here.add(Decode(box, *flat))
        self.here.env[param] = box
        return flat, box

    def output_box(self, box: Box, position: int) -> list[StoredTensor]:
        """Add the instructions that encode a returned box in flat form; return the two tensors."""
        words, size = tirx.Var("words", "int64"), tirx.Var("blob_bytes", "int64")
        self.here.add(Measure(box, words, size))
        flat = []
        for k, (dim, dtype) in enumerate(((words, "int64"), (size, "uint8"))):
            storage = Storage(Home.OUTPUT, i64(0), f"out{position + k}", position=position + k)
            flat.append(StoredTensor((dim,), dtype, storage))
            self.here.add(AllocOutput(flat[-1]))
        self.here.add(Encode(box, *flat))
        return flat


def _leaf_types(ty: object) -> list[object]:
    if isinstance(ty, relax.TupleType):
        return [t for f in ty.fields for t in _leaf_types(f)]
    return [ty]


def _ended(region: Region) -> bool:
    return bool(region.instructions) and isinstance(region.instructions[-1], Fail)


def _passes_on(var: Var, rest: Sequence[Binding], body: Expr) -> bool:
    """Return whether a sequence returns the value of ``var`` unchanged."""
    env: dict[Any, Any] = {var: _tree(var.ty, ())}

    def look(expr: Expr) -> Any:
        if isinstance(expr, tvm.ir.Tuple):
            return tuple(look(f) for f in expr.fields)
        if isinstance(expr, tvm.ir.TupleGetItem):
            inner = look(expr.tuple_value)
            return inner[int(expr.index)] if isinstance(inner, tuple) else None
        return env.get(expr)

    for binding in rest:
        env[binding.var] = look(binding.value)
    return bool(look(body) == env[var])


def _tree(ty: object, path: tuple[int, ...]) -> Any:
    if isinstance(ty, relax.TupleType):
        return tuple(_tree(f, (*path, k)) for k, f in enumerate(ty.fields))
    return ("leaf", path)


__all__ = ["Dead", "ObjectLowerer"]
