"""``ChannelsLast``: keep images between convolutions in channels-last layout.

    before  y = relu(conv(x, w) + b);  z = conv(y, v)                          # NCHW
    after   u = permute(x);  y = relu(conv(u, w) + b);  z = permute(conv(y, v))   # NHWC between

A convolution sums over channels and stores its result by channels. If channels are contiguous, a
pixel is a row, and a 1x1 convolution is a matmul. One forward walk determines which values
can be channels last (``layout_rules``). Values that an operator reads or produces together form an
island, and each island is converted as a whole or not at all.

An island is converted if it has more convolutions than images that must be transposed at its
border. Channels-last layout saves each convolution about the cost of one transpose of its image,
because otherwise the convolution gathers the channels of each pixel. Sizes are mostly unknown, so
images are counted, not bytes. An image is not counted if it has few channels or one pixel, or if it
enters or leaves the island through a permutation. An island with an integer convolution is always
converted, because only channels-last kernels read bytes. Graph inputs, results, branches and calls
keep the layout of the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import permutation
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, const_node, static_dim, zero_point
from tvm_disc.relay.expressions import variables
from tvm_disc.relay.importer.context import reshape_call
from tvm_disc.relay_passes.layout_rules import (
    FILLED,
    PLAIN,
    Step,
    channels_last_order,
    in_order,
    is_image_convolution,
    moves,
    step_of,
    sums_integers,
)
from tvm_disc.relay_passes.module_facts import solver_of
from tvm_disc.relay_passes.rewrite import (
    Sequence_,
    bindings_of,
    drop_dead,
    is_call,
    is_core,
    map_functions,
    operand_expr,
    rewrite_function,
)
from tvm_disc.shape import Solver
from tvm_disc.support.literals import as_literal
from tvm_disc.typing import Expr, TVMFunction, TVMModule

FEW_CHANNELS = 4
"""Up to this number of channels, a transpose is cheap compared to the convolution of its result."""


def ChannelsLast(solver: Solver | None = None, enabled: bool = True) -> Any:
    """Return a module pass; ``refused`` lists the islands that the last run left unchanged.

    Args:
        solver: facts about the module's symbols; by default the module's own.
        enabled: with False the pass changes nothing.
    """
    refused: list[WhyNot] = []

    def convert(mod: TVMModule, ctx: object) -> object:
        refused.clear()
        known = solver_of(mod, solver)

        def converted(func: TVMFunction) -> object:
            if not any(is_call(b.value, "nn.conv2d") for b in bindings_of(func)):
                return func
            steps = [lambda out: _convert(out, refused), drop_dead]
            return rewrite_function(func, known, (), steps)

        return map_functions(mod, converted) if enabled else mod

    result = tvm.transform.module_pass(convert, opt_level=0, name="ChannelsLast")
    result.refused = refused
    return result


def _convert(out: Sequence_, refused: list[WhyNot]) -> None:
    islands = _Islands(out)
    refused.extend(islands.refused())
    chosen = islands.chosen()
    if chosen:
        _Writer(out, chosen).write()


class _Islands:
    """The islands of a sequence that could be channels last, and whether converting them is
    worthwhile.

    Invariant: every node of ``steps`` has a root. A value and an operator that reads it channels
    last have the same root.
    """

    def __init__(self, out: Sequence_) -> None:
        self.nodes = out.nodes
        self.steps: dict[Node, Step] = {}
        self.parents: dict[Node, Node] = {}
        for node in self.nodes:
            step = step_of(node, [self.kept(x) for x in node.inputs], out.solver)
            if step is not None:
                self.steps[node] = step
                self.parents[node] = node
                self._join(node, step)
        self.read_outside = _read_outside(out)
        dense = (n for n in self.steps if sums_integers(n) and int(n.attrs["groups"]) == 1)
        self.integers = {self.root(n) for n in dense}
        self.convolutions = Counter(self.root(n) for n in self.steps if is_image_convolution(n))
        self.crossing = Counter(self.root(n) for n in self._crossing())

    def kept(self, node: Node) -> int:
        """Return the number of channel axes of a value, ``PLAIN`` for the model's layout."""
        step = self.steps.get(node)
        return PLAIN if step is None else step.gives

    def root(self, node: Node) -> Node:
        """Return the representative node of an island."""
        while self.parents[node] is not node:
            self.parents[node] = self.parents[self.parents[node]]
            node = self.parents[node]
        return node

    def _join(self, node: Node, step: Step) -> None:
        for x, k in zip(node.inputs, step.reads, strict=True):
            if k and self.kept(x):
                self.parents[self.root(x)] = self.root(node)

    def _crossing(self) -> Iterator[Node]:
        """Yield a node of the island for every image that must be transposed at its border."""
        entered: set[tuple[Node, Node]] = set()
        left = {n for n in self.steps if n.is_output or n.var in self.read_outside}
        for node in self.nodes:
            step = self.steps.get(node)
            reads = step.reads if step is not None else (PLAIN,) * len(node.inputs)
            for x, k in zip(node.inputs, reads, strict=True):
                rank = _operand_rank(node, x)
                if k and k == self.kept(x) and rank == len(x.shape):
                    continue
                left.add(x)
                if k and not self._is_free(x) and _is_moved(x, k, rank, FEW_CHANNELS):
                    entered.add((self.root(node), x))
        yield from (node for node, _ in entered)
        for node in left.intersection(self.steps):
            if not self.steps[node].plain and _is_moved(node, self.kept(node), len(node.shape), 1):
                yield node

    def _is_free(self, node: Node) -> bool:
        """Return whether a value can be produced channels last without a transpose."""
        moved = node.op == "relax.permute_dims" and node not in self.steps
        return moved or node.op == "const" or node.op in FILLED

    def chosen(self) -> dict[Node, Step]:
        """Return the operators of the islands that are converted."""
        return {n: s for n, s in self.steps.items() if self._pays(self.root(n))}

    def _pays(self, root: Node) -> bool:
        return self.convolutions[root] > self.crossing[root] or root in self.integers

    def refused(self) -> Iterator[WhyNot]:
        """Yield the islands with convolutions that are not converted, named by their first
        operator.
        """
        seen: set[Node] = set()
        for node in self.steps:
            root = self.root(node)
            if root in seen or not self.convolutions[root] or self._pays(root):
                continue
            seen.add(root)
            images, count = self.crossing[root], self.convolutions[root]
            moved, read = _number(images, "image"), _number(count, "convolution")
            yield WhyNot(
                f"{node.label} channels last",
                f"it would transpose {moved} to speed up {read}, which costs at least as much as "
                "it saves",
            )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _read_outside(out: Sequence_) -> set[object]:
    """Return the variables that bindings other than core operators read."""
    return {v for b in out.bindings if not is_core(b) for v in variables(b.value)}


def _operand_rank(node: Node, operand: Node) -> int:
    """Return the rank at which an operator reads an operand, after broadcasting prepends axes
    of size 1.
    """
    return len((node if node.cls is OpClass.ELEMWISE else operand).shape)


def _is_moved(node: Node, k: int, rank: int, few: int) -> bool:
    """Return whether a transpose of an image to channels last moves more than ``few`` channels.

    ``k`` is the number of channel axes, and ``rank`` the rank at which the image is read.
    """
    shape = _widened(node.shape, rank)
    if not moves(shape, channels_last_order(rank, k)):
        return False
    channels = static_dim(shape[1])
    return channels is None or channels > few


def _widened(shape: Sequence[Expr], rank: int) -> list[Expr]:
    return [tirx.IntImm("int64", 1)] * (rank - len(shape)) + list(shape)


class _Writer:
    """The rewritten sequence, with the selected operators channels last.

    Invariant: the variable of every value that has been written holds it in the model's layout.
    Layouts that nothing reads are removed afterwards.
    """

    def __init__(self, out: Sequence_, steps: dict[Node, Step]) -> None:
        self.out, self.steps = out, steps
        self.forms: dict[tuple[object, int, int], Expr] = {}
        self.replaced: dict[object, Expr] = {}  # permutation that is now the identity -> operand

    def write(self) -> None:
        out = self.out
        old, out.bindings = out.bindings, []
        node_of = {n.var: n for n in out.nodes}
        out.nodes = []
        for binding in old:
            node = node_of.get(binding.var)
            if node is not None and node in self.steps:
                self._step(node, self.steps[node], binding)
                continue
            out.bindings.append(binding)
            if node is not None:
                out.nodes.append(node)
        if self.replaced:
            out.substitute(self.replaced)

    def _step(self, node: Node, step: Step, binding: object) -> None:
        rank = len(node.shape)
        operands = [
            self._read(x, k, _operand_rank(node, x))
            for x, k in zip(node.inputs, step.reads, strict=True)
        ]
        if node.cls is OpClass.ELEMWISE:
            operands = [_without_leading_ones(x) for x in operands]
        order = channels_last_order(rank, step.gives)
        if step.gives == PLAIN:
            if step.call is None:
                self.replaced[node.var] = self.replaced.get(operands[0], operands[0])
            else:
                self.out.keep(binding, step.call(operands))
            return
        shape = in_order(node.shape, order)
        made = operands[0]
        if step.call is not None:
            made = self.out.emit(step.call(operands), shape, node.dtype, node).var
        self.forms[node.var, step.gives, rank] = made
        back = [order.index(a) for a in range(rank)]
        plain = step.plain(operands) if step.plain else _moved(made, shape, back)
        self.out.keep(binding, plain)

    def _read(self, node: Node, k: int, rank: int) -> Expr:
        """Return a value as an operand, with axes of size 1 prepended up to ``rank``."""
        if k == PLAIN:
            return operand_expr(node)
        key = node.expr if node.op == "const" else node.var, k, rank
        if key not in self.forms:
            self.forms[key] = self._literal(*key) if node.op == "const" else self._form(node, *key)
        return self.forms[key]

    def _literal(self, expr: Expr, k: int, rank: int) -> Expr:
        value = const_node(expr).value
        assert value is not None
        wide = value.reshape((1,) * (rank - value.ndim) + value.shape)
        wide = np.ascontiguousarray(wide.transpose(channels_last_order(rank, k)))
        return as_literal(wide, str(expr.ty.dtype))

    def _form(self, node: Node, var: Expr, k: int, rank: int) -> Any:
        found = zero_point(node)
        if found is not None:
            # A convolution can read bytes through the subtraction of a zero point.
            wide = R.astype(self._read(found[0], k, rank), node.dtype)
            shape = in_order(_widened(node.shape, rank), channels_last_order(rank, k))
            made = self.out.emit(wide, shape, node.dtype, node)
            less = R.subtract(made.var, operand_expr(node.inputs[1]))
            return self.out.emit(less, shape, node.dtype, node).var
        order = list(channels_last_order(rank, k))
        shape = list(node.shape)
        if node.op in FILLED:
            shape = in_order(_widened(shape, rank), order)
            args = [relax.ShapeExpr(shape), *node.expr.args[1:]]
            filled = tvm.ir.Call(node.expr.op, args, node.expr.attrs, node.expr.ty_args)
            return self.out.emit(filled, shape, node.dtype, node).var
        if node.op == "relax.permute_dims" and node not in self.steps and len(shape) == rank:
            order = in_order(permutation(node), order)
            var, shape = operand_expr(node.inputs[0]), list(node.inputs[0].shape)
        if len(shape) < rank:
            shape = _widened(shape, rank)
            var = self.out.emit(reshape_call(var, shape), shape, node.dtype, node).var
        call = _moved(var, shape, order)
        return self.out.emit(call, in_order(shape, order), node.dtype, node).var


def _without_leading_ones(operand: Expr) -> Expr:
    """Return an operand of an element-wise operator; leading axes of 1 of a literal are removed."""
    if not isinstance(operand, tvm.ir.GenericConst):
        return operand
    value = const_node(operand).value
    assert value is not None
    while value.ndim and value.shape[0] == 1:
        value = value[0]
    return as_literal(value, str(operand.ty.dtype))


def _moved(expr: Expr, shape: Sequence[Any], order: Sequence[int]) -> Expr:
    """Return a value with its axes permuted by `order`."""
    if moves(shape, order):
        return R.permute_dims(expr, list(order))
    return reshape_call(expr, in_order(shape, order))


__all__ = ["ChannelsLast"]
