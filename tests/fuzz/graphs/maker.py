"""Random ONNX graphs with symbolic dims, and inputs for them in several worlds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.fuzz.graphs.draws import Draws, Unusable
from tests.fuzz.graphs.references import Runtime, run_reference
from tests.fuzz.graphs.world import (
    WORLDS,
    Dim,
    Value,
    basic_dims,
    numbers,
    special,
    usable,
)

OPSET = 21
DTYPES = ("float32",) * 9 + (
    "float64",
    "float16",
    "int64",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
)


# Operators whose results for NaN or infinities are undefined, or differ between references.
UNDEFINED = set(
    "QuantizeLinear Resize Unique ScatterElements ScatterND MaxPool GlobalMaxPool ConvTranspose "
    "LpPool AveragePool LRN TopK ArgMax ArgMin ReduceMax ReduceMin Hardmax Sign Gelu".split()
)


@dataclass
class Case:
    """A model, and the inputs of its calls. Calls from ``ordinary`` on have special values."""

    seed: int
    model: onnx.ModelProto
    calls: list[dict[str, np.ndarray]]
    ordinary: int = WORLDS
    log: list[str] = field(default_factory=list)


def proto(dtype: str) -> int:
    """ONNX's number of an element type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class Maker(Draws):
    """Makes a graph step by step; every step is evaluated at once, in all worlds."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.basics = basic_dims(self.rng)
        self.values: list[Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []
        self.data: list[dict[str, np.ndarray]] = [{} for _ in range(WORLDS)]
        self.count = 0
        self.symbols: dict[Dim, str] = {}
        self.used: list[str] = []

    # -- drawing

    def value(self, kinds: str = "f", least: int = 0, most: int = 5, **want: Any) -> Value:
        """A value of some kinds and ranks, a late one rather than an early one."""
        dtypes = want.get("dtypes")
        found = [
            v
            for v in self.values
            if v.kind in kinds
            and least <= v.rank <= most
            and (dtypes is None or v.dtype in dtypes)
            and (not want.get("exact") or v.exact)
        ]
        if not found or self.chance(0.1):
            dtype = self.pick([d for d in dtypes or DTYPES if np.dtype(d).kind in kinds])
            rank = int(self.rng.integers(least, min(most, max(least, 4)) + 1))
            return self.input([self.dim() for _ in range(rank)], dtype)
        weights = np.arange(1, len(found) + 1) ** 2.0
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def dim(self) -> Dim:
        """A symbol's sizes, a static size, or the size of a value."""
        draw = self.rng.random()
        if draw < 0.65 or not self.values:
            return self.basics[int(self.rng.integers(len(self.basics)))]
        if draw < 0.85:
            return (int(self.pick([1, 2, 3, 4, 8])),) * WORLDS
        dims = [d for v in self.values for d in v.dims if -1 not in d]
        return self.pick(dims)

    # -- making

    def fresh(self, prefix: str = "v") -> str:
        """A new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def input(self, dims: Sequence[Dim], dtype: str) -> Value:
        """A new input of the graph."""
        if any(-1 in d for d in dims):
            raise Unusable
        shapes = [[d[w] for d in dims] for w in range(WORLDS)]
        if max(int(np.prod(s)) for s in shapes) > 10_000:
            raise Unusable
        name = self.fresh("x")
        arrays: list[np.ndarray | None] = [numbers(self.rng, dtype, s) for s in shapes]
        self._declare(name, dims, arrays)
        made = Value(name, arrays)
        self.values.insert(0, made)
        return made

    def given(
        self, dims: Sequence[Dim], arrays: Sequence[np.ndarray], known: bool = False
    ) -> Value:
        """A new input with these contents, such as indices; no step draws it."""
        name = self.fresh("x")
        self._declare(name, dims, arrays, known)
        return Value(name, list(arrays))

    def _declare(
        self, name: str, dims: Sequence[Dim], arrays: Sequence[Any], known: bool = False
    ) -> None:
        for world, array in zip(self.data, arrays, strict=True):
            world[name] = array
        shape: list[Any] = []
        for d in dims:
            if len(set(d)) == 1 and (known or self.chance(0.6)):
                shape.append(d[0])
            elif self.chance(0.75):
                shape.append(self.symbols.setdefault(d, f"n{len(self.symbols)}"))
            else:
                shape.append(None)
        self.inputs.append(helper.make_tensor_value_info(name, proto(str(arrays[0].dtype)), shape))

    def const(self, data: Any, dtype: str | None = None) -> Value:
        """A new initializer."""
        array = np.asarray(data, dtype)
        name = self.fresh("c")
        self.constants.append(numpy_helper.from_array(array, name))
        return Value(name, [array] * WORLDS)

    def ints(self, *data: int) -> Value:
        """A vector of int64; rarely an input, so that the program reads it in each call."""
        array = np.array(data, "int64")
        if self.chance(0.12):
            return self.given([(len(data),) * WORLDS], [array] * WORLDS, known=self.chance(0.8))
        return self.const(array)

    def evaluate(self, node: onnx.NodeProto, ins: Sequence[Value | None]) -> list[list[Any]]:
        """Results by output and world."""
        infos = [
            helper.make_tensor_value_info(v.name, proto(v.dtype), None)
            for v in {v.name: v for v in ins if v is not None}.values()
        ]
        outs = [
            helper.make_value_info(o, helper.make_tensor_type_proto(kind, None))
            if (kind := _kind(node, k))
            else helper.make_value_info(o, onnx.TypeProto())
            for k, o in enumerate(node.output)
            if o
        ]
        model = made_model(helper.make_graph([node], "g", infos, outs))
        # The evaluator joins rows of a loop along an existing axis.
        looped = node.op_type in ("Loop", "Scan")
        results_of = Runtime(model) if looped else partial(run_reference, ReferenceEvaluator(model))
        found: list[list[Any]] = [[] for _ in outs]
        for world in range(WORLDS):
            given = {v.name: v.arrays[world] for v in ins if v is not None}
            results: Sequence[Any] = [None] * len(outs)
            if all(a is not None for a in given.values()):
                results = results_of(given) or results
            for k, r in enumerate(results):
                found[k].append(r)
        return found

    def emit(
        self,
        op: str,
        *ins: Value | None,
        outs: int = 1,
        captured: Sequence[Value] = (),
        **attrs: Any,
    ) -> list[Value]:
        """Append a node, whose bodies read ``captured``; raises Unusable if its results cannot be
        used.
        """
        names = [self.fresh() for _ in range(outs)]
        node = helper.make_node(op, ["" if v is None else v.name for v in ins], names, **attrs)
        found = self.evaluate(node, [*ins, *captured])
        if not all(usable(arrays) for arrays in found):
            raise Unusable
        self.nodes.append(node)
        self.used.append(op)
        made = [Value(n, a) for n, a in zip(names, found, strict=True)]
        self.values += made
        return made

    def step(self, steps: Sequence[Any]) -> None:
        """Make one step; what a failed one has made is dropped."""
        for _ in range(30):
            kept = [list(x) for x in (self.values, self.nodes, self.inputs, self.constants)]
            data = [dict(w) for w in self.data]
            used = len(self.used)
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    self.pick(steps)(self)
                return
            except Unusable:
                self.values, self.nodes, self.inputs, self.constants = kept
                self.data = data
                del self.used[used:]

    def make(self, steps: Sequence[Any], length: int | None = None) -> Case:
        """A model of some steps."""
        for _ in range(int(self.rng.integers(1, 4))):
            rank = int(self.rng.integers(1, 5))
            try:
                self.input([self.dim() for _ in range(rank)], self.pick(DTYPES))
            except Unusable:
                continue
        count = length or int(self.rng.integers(4, 13))
        for _ in range(count):
            self.step(steps)
        model = self.model()
        names = {i.name for i in model.graph.input}
        calls = [{n: a for n, a in call.items() if n in names} for call in self.calls()]
        return Case(self.seed, model, calls, log=self.used)

    def model(self) -> onnx.ModelProto:
        """The model; its results are the values that no node reads, and one or two others."""
        read = {n for node in self.nodes for n in reads(node)}
        made = [o for node in self.nodes for o in node.output if o]
        ends = [o for o in made if o not in read] or made[-1:]
        more = [o for o in made if o in read and self.chance(0.1)]
        known = {v.name: v for v in self.values}
        outs = [
            helper.make_tensor_value_info(n, proto(known[n].dtype), [None] * known[n].rank)
            for n in [*ends, *more]
            if n in known
        ]
        read |= {o.name for o in outs}
        ins = [i for i in self.inputs if i.name in read]
        consts = [c for c in self.constants if c.name in read]
        graph = helper.make_graph(self.nodes, "g", ins, outs, consts)
        if self.chance(0.5):
            graph.value_info.extend(
                helper.make_tensor_value_info(v.name, proto(v.dtype), [None] * v.rank)
                for v in self.values
                if v.name in made and v.name in read and v.name not in ends + more
            )
        return made_model(graph)

    def calls(self) -> list[dict[str, np.ndarray]]:
        """Inputs of all worlds, then with special values in floats and in all numbers."""
        sized = {v.name for v in self.values}
        wild: list[dict[str, np.ndarray]] = []
        if UNDEFINED & set(self.used):
            return self.data
        for world in (0, 3, 5):
            given = self.data[world]
            drawn = {n: special(self.rng, a) if n in sized else a for n, a in given.items()}
            wild.append(drawn)
        return [*self.data, *wild]


def _kind(node: onnx.NodeProto, result: int) -> int:
    """The element type of a result that a body declares; 0 for nodes without bodies."""
    bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    skipped = int(node.op_type == "Loop")  # the condition is the first result of a body
    return int(bodies[0].output[result + skipped].type.tensor_type.elem_type) if bodies else 0


def reads(node: onnx.NodeProto) -> list[str]:
    """Names that a node and its bodies read."""
    names = list(node.input)
    for attr in node.attribute:
        if attr.type == onnx.AttributeProto.GRAPH:
            for inner in attr.g.node:
                names += reads(inner)
            names += [o.name for o in attr.g.output]
    return names


def made_model(graph: onnx.GraphProto) -> onnx.ModelProto:
    """A model of a graph."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 10
    return model
