"""Make a case small: fewer results, fewer nodes, fewer calls, while the same thing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.fuzz.graphs.maker import Case, made_model, proto, reads

Infos = Sequence[onnx.ValueInfoProto]


def part(case: Case, outputs: Infos, extra: Infos, calls: list[dict[str, np.ndarray]]) -> Case:
    """The part of a case that computes some outputs, of inputs that may include ``extra``."""
    graph = case.model.graph
    cut = {i.name for i in extra}
    need, nodes = {o.name for o in outputs}, []
    for node in reversed(graph.node):
        if (set(node.output) - cut) & need and not set(node.output) & cut:
            nodes.append(node)
            need |= set(reads(node))
    ins = [i for i in [*graph.input, *extra] if i.name in need]
    consts = [c for c in graph.initializer if c.name in need]
    made = made_model(helper.make_graph(nodes[::-1], "g", ins, list(outputs), consts))
    names = {i.name for i in ins}
    given = [{n: a for n, a in call.items() if n in names} for call in calls]
    return Case(case.seed, made, given, case.ordinary)


def values(case: Case) -> list[dict[str, np.ndarray]]:
    """All values of the outer graph by call, as far as the evaluator has them."""
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    names = [o for n in case.model.graph.node for o in n.output if o]
    del made.graph.output[:]
    made.graph.output.extend(helper.make_value_info(n, onnx.TypeProto()) for n in names)
    evaluator, found = ReferenceEvaluator(made), []
    for call in case.calls:
        try:
            with np.errstate(all="ignore"):
                results = [np.asarray(r) for r in evaluator.run(None, call)]
        except Exception:  # of any class
            results = []
        found.append({**call, **dict(zip(names, results, strict=False))})
    return found


def smallest(case: Case, fails: Callable[[Case], bool], attempts: int = 60) -> Case:
    """The smallest case found that fails."""
    left = attempts

    def tried(candidate: Case) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and bool(candidate.model.graph.node) and fails(candidate)

    for out in case.model.graph.output:
        one = part(case, [out], [], case.calls)
        if len(case.model.graph.output) > 1 and tried(one):
            case = one
            break
    for out in list(case.model.graph.output):
        rest = [o for o in case.model.graph.output if o.name != out.name]
        if rest and tried(one := part(case, rest, [], case.calls)):
            case = one
    known = values(case)
    if len(case.calls) > 1:
        for call in range(len(case.calls)):
            one = Case(case.seed, case.model, [case.calls[call]], case.ordinary)
            if call >= case.ordinary:
                one.ordinary = 0
            if tried(one):
                case, known = one, [known[call]]
                break
    for node in list(case.model.graph.node):
        if not all(o in k for k in known for o in node.output if o):
            continue
        extra = [
            helper.make_tensor_value_info(
                o, proto(str(known[0][o].dtype)), [None] * known[0][o].ndim
            )
            for o in node.output
            if o
        ]
        if set(node.output) & {o.name for o in case.model.graph.output}:
            continue
        if node.output[0] in {n for x in case.model.graph.node for n in x.output} and tried(
            one := part(case, case.model.graph.output, extra, known)
        ):
            case = one
    return case


def text(case: Case) -> str:
    """The model as text, with its constants and the shapes of calls."""
    parts = [onnx.printer.to_text(case.model)]
    for c in case.model.graph.initializer:
        array = numpy_helper.to_array(c)
        parts.append(f"{c.name} {array.dtype}{list(array.shape)} {array.ravel()[:8].tolist()}")
    for call in case.calls[:2]:
        parts.append(", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in call.items()))
    return "\n".join(parts)
