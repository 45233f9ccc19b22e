"""Converters of conditionals and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calc import Dim, Expr, const, op
from tvm_disc.frontends.calls import UnknownRows
from tvm_disc.frontends.loop import TensorLoop, choose, counted
from tvm_disc.frontends.onnx.functions import SMALL, free_names
from tvm_disc.frontends.onnx.grown import Gathered, Growing
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import Row
from tvm_disc.relay import expr as ast
from tvm_disc.typing import GraphProto, Proto

UNROLLED = 8  # maximum number of iterations of a loop that is unrolled


def run(
    n: OnnxNode, proto: Proto, given: Sequence[object], reads: Sequence[object] = ()
) -> list[Any]:
    """Convert a subgraph for the inputs ``given`` and return its results.

    ``reads`` are (name, value) of outer values that the subgraph reads.
    """
    graph = n.graph.body()
    graph.values.update(reads)
    for value, what in zip(proto.input, given, strict=True):
        graph.values[value.name] = what
    found: list[object] = graph.run(proto)
    return found


def _reads(n: OnnxNode, protos: Sequence[GraphProto]) -> tuple[dict[str, Any], dict[str, Expr]]:
    """Return two mappings by name of the outer values that subgraphs read.

    The first has constants, sequences and optionals, the second tensors.
    """
    plain: dict[str, object] = {}
    tensors: dict[str, Expr] = {}
    for name in dict.fromkeys(name for p in protos for name in free_names(p)):
        value = n.graph.lookup(name)
        known = n.known(value) if isinstance(value, Expr) else None
        if isinstance(value, ast.Constant) or not isinstance(value, Expr):
            plain[name] = value
        elif known is not None and known.size <= SMALL:
            plain[name] = const(known)
        else:
            tensors[name] = value
    return plain, tensors


def _tensors(values: Sequence[object], what: str) -> None:
    for value in values:
        if not isinstance(value, Expr):
            kind = "an omitted or empty optional" if value is None else "a sequence"
            raise Unsupported(f"{what}: expected tensors, found {kind}")


def _if(n: OnnxNode) -> object:
    """Convert an If.

    If the condition is a constant, or if the declared ranks of the results match only one branch,
    only this branch is emitted.
    """
    cond = n.reshape(n[0], [])
    branches = [n.required("then_branch"), n.required("else_branch")]
    known = n.known(cond)
    if known is not None:
        return run(n, branches[0 if known.item() else 1], ())
    plain, tensors = _reads(n, branches)
    shapes: list[list[list[int | None]]] = []

    def branch(proto: object) -> Any:
        def make(params: list[Expr]) -> list[Expr]:
            inside = [*plain.items(), *zip(tensors, params, strict=True)]
            results = run(n, proto, (), inside)
            _tensors(results, "results of a branch")
            shapes.append([n.literals(r) for r in results])
            return results

        return make

    found = choose(n, cond, list(tensors.values()), *map(branch, branches))
    taken = _branch_of_ranks(n, *shapes)
    if taken is None:
        return found
    return _if_taken(n, cond, taken, run(n, branches[taken], ()))


def _branch_of_ranks(
    n: OnnxNode, then: Sequence[list[int | None]], other: Sequence[list[int | None]]
) -> int | None:
    """Return the branch (0 or 1) with results of the declared ranks, or None if the ranks agree.

    Exporters write an If with different ranks around a Squeeze of an axis that may be longer
    than 1.

    Raises:
        TypeMismatch: the branches have different ranks, and the declared ranks match neither.
    """
    pairs = []
    for name, a, b in zip(n.outputs, then, other, strict=False):
        single = all(d == 1 for d in (*a, *b))  # `choose` reshapes single elements
        if len(a) != len(b) and not single:
            pairs.append((name, (len(a), len(b))))
    if not pairs:
        return None
    for taken in range(2):
        if all(n.graph.ranks.get(name) == ranks[taken] for name, ranks in pairs):
            return taken
    name, ranks = pairs[0]
    declared = n.graph.ranks.get(name)
    found = "not declared" if declared is None else f"declared as {declared}"
    raise TypeMismatch(
        f"the branches compute {name!r} with ranks {ranks[0]} and {ranks[1]}, and its rank is "
        f"{found}; if all calls take the same branch, declare that rank, in value_info or as an "
        "output"
    )


def _if_taken(n: OnnxNode, cond: Expr, taken: int, results: list[Expr]) -> list[Expr]:
    """Return the results of a branch, with a guard that the condition selects this branch."""
    values = (0, 1) if taken else (1, 0)
    choice = n.where(cond, *(const(v, "int64") for v in values))
    flag = n.full(False, [choice], "bool")
    name = f"the condition of If for the declared rank of {n.outputs[0]!r}"
    given: dict[str, tuple[Any, Sequence[Any]]] = {name: (flag, [1])}
    given |= {f"result {k}": (r, [None] * n.rank(r)) for k, r in enumerate(results)}
    return n.fitted(given)[1:]


# -- loops -------------------------------------------------------------------------------------


def _loop(n: OnnxNode) -> list[object]:
    body, state = n.required("body"), list(n.inputs[2:])
    most, cond = n.get(0), n.get(1)
    limit, first = n.known(most), n.known(cond)
    certain = cond is None or (first is not None and bool(first.item()))
    if limit is not None and certain and 0 < int(limit.item()) <= UNROLLED:
        found = _unrolled(n, body, int(limit.item()), state)
        if found is not None:
            return found
    end = const((1 << 63) - 1) if most is None else n.reshape(n.cast(most, "int64"), [])
    go_on = const(True) if cond is None else n.reshape(cond, [])
    return _while(n, body, end, go_on, state)


def _unrolled(
    n: OnnxNode, body: GraphProto, times: int, state: list[object]
) -> list[object] | None:
    """Return the results of a loop of ``times`` iterations, unrolled.

    Returns None if the loop may end earlier.
    """
    rows: list[list[Expr]] = []
    for t in range(times):
        cond, *new = run(n, body, [const(t, "int64"), const(True), *state])
        more = n.known(cond)
        if more is None or not more.item():
            return None
        state = new[: len(state)]
        rows.append(new[len(state) :])
    return [*state, *(n.stack(list(r), 0) for r in zip(*rows, strict=True))]


def _while(n: OnnxNode, body: GraphProto, end: Expr, first: Expr, given: list[Any]) -> list[object]:
    """Emit a loop and return its results.

    The state is the iteration, the condition, and the tensors that the ONNX loop carries. If the
    loop carries a sequence, the tensors that it appends are collected like a scan output.
    """
    plain, tensors = _reads(n, [body])
    places = [k for k, s in enumerate(given) if isinstance(s, list)]
    state = [s for s in given if not isinstance(s, list)]
    _tensors(state, "initial values of a loop")
    own = "the iteration number", "the condition"
    loop = TensorLoop(n, [end, *tensors.values()], [const(0, "int64"), first, *state], own)

    def more(fixed: list[Expr], now: list[Expr]) -> Expr:
        return (now[0] < fixed[0]) & now[1]

    def turn(fixed: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        inside = [*plain.items(), *zip(tensors, fixed[1:], strict=True)]
        cond, *results = run(n, body, _with(now, places), inside)
        new, rows = results[: len(given)], results[len(given) :]
        grown = [_added(new[k]) for k in places]
        kept = [x for k, x in enumerate(new) if k not in places]
        _tensors([*kept, *rows], "results of a loop iteration")
        rows = [
            _declared(n, x, v) for x, v in zip(rows, body.output[1 + len(given) :], strict=True)
        ]
        return [now[0] + 1, n.reshape(cond, []), *kept], [*grown, *rows]

    try:
        last, rows = loop.run(more, turn)
    except UnknownRows:  # the rows of all iterations must have the shapes of the first iteration
        like = turn([end, *tensors.values()], [const(0, "int64"), first, *state])[1]
        last, rows = loop.run(more, turn, like)
    found: list[object] = list(last[2:])
    for k, line in zip(places, rows, strict=False):
        found.insert(k, Gathered(tuple(given[k]), line))
    return [*found, *rows[len(places) :]]


def _with(now: list[Expr], places: Sequence[int]) -> list[object]:
    """Return the inputs of the body: iteration, condition and state.

    ``places`` are the positions of sequences in the state; each is a new ``Growing``.
    """
    state: list[object] = list(now[2:])
    for k in places:
        state.insert(k, Growing())
    return [*now[:2], *state]


def _added(sequence: object) -> Expr:
    if not isinstance(sequence, Growing):
        raise Unsupported(
            "expected a loop that extends its sequence by SequenceInsert, found one that replaces "
            "the sequence"
        )
    return sequence.item()


def _declared(n: OnnxNode, x: Expr, value: Any) -> Expr:
    """Return a row reshaped to the shape that the body declares, if one of its dims is unknown."""
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim if d.HasField("dim_value")]
    known = len(dims) == n.rank(x) and None in n.literals(x)
    return n.reshape(x, dims) if known else x


# -- scans -------------------------------------------------------------------------------------


def _scan_batched(n: OnnxNode) -> list[Any]:
    """Convert Scan of opset 8, which runs a separate scan for every batch entry."""
    body, many = n.required("body"), int(n.required("num_scan_inputs"))
    if n.get(0) is not None:
        raise Unsupported(
            "input sequence_lens is not supported; omit it if all sequences have full length"
        )
    given = n.inputs[1:]
    _tensors(given, "inputs of a scan")
    backwards = list(n.attr("directions") or [0] * many)
    dims = [["batch", *[None] * (n.rank(x) - 1)] for x in given]
    given = n.fitted({f"input {k}": x for k, x in enumerate(zip(given, dims, strict=True), 1)})

    def entry(inner: OnnxNode, each: list[Expr]) -> list[Expr]:
        items = [
            op("reverse", x, axis=0) if back else x
            for x, back in zip(each[len(each) - many :], backwards, strict=True)
        ]
        last, rows = _turns(inner, body, n.size(items[0], 0), each[: len(each) - many], items)
        return [*last, *rows]

    batch = n.size(given[0], 0)
    if isinstance(batch, int) and 0 < batch <= UNROLLED:
        found = [entry(n, [n.pick(x, 0, b) for x in given]) for b in range(batch)]
        return [n.stack(list(r), 0) for r in zip(*found, strict=True)]
    plain, tensors = _reads(n, [body])

    def turn(b: Expr, fixed: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        inner = n.inside([*plain.items(), *zip(tensors, fixed[len(given) :], strict=True)])
        return [], entry(inner, [n.take(x, b, 0) for x in fixed[: len(given)]])

    made = counted(n, batch, [*given, *tensors.values()], [], turn)[1]
    return [n.reshape(x, [batch, *n.sizes(x)[1:]]) for x in made]


def _scan(n: OnnxNode) -> list[object]:
    body, many = n.required("body"), int(n.required("num_scan_inputs"))
    _tensors(n.inputs, "inputs of a scan")
    state, inputs = n.inputs[: len(n) - many], n.inputs[len(n) - many :]
    backwards = list(n.attr("scan_input_directions") or [0] * many)
    axes = list(n.attr("scan_input_axes") or [0] * many)
    items = []
    for x, axis, back in zip(inputs, axes, backwards, strict=True):
        x = n.move(x, n.axis(int(axis), n.rank(x)), 0)
        items.append(op("reverse", x, axis=0) if back else x)
    last, rows = _turns(n, body, n.size(items[0], 0), list(state), items)
    ends = list(n.attr("scan_output_directions") or [0] * len(rows))
    places = list(n.attr("scan_output_axes") or [0] * len(rows))
    shown = []
    for x, axis, back in zip(rows, places, ends, strict=True):
        x = op("reverse", x, axis=0) if back else x
        shown.append(n.move(x, 0, n.axis(int(axis), n.rank(x), "a scan output")))
    return [*last, *shown]


def _turns(
    n: OnnxNode, body: GraphProto, times: Dim, state: list[Expr], items: list[Expr]
) -> tuple[list[Expr], list[Expr]]:
    """Return the last state and the stacked results of a scan over axis 0 of ``items``."""
    if isinstance(times, int) and 0 < times <= UNROLLED:
        rows = []
        for t in range(times):
            made = run(n, body, [*state, *(n.pick(x, 0, t) for x in items)])
            state = made[: len(state)]
            rows.append(made[len(state) :])
        return state, [n.stack(list(r), 0) for r in zip(*rows, strict=True)]
    plain, tensors = _reads(n, [body])
    count = len(state)

    def turn(t: Expr, fixed: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        inside = [*plain.items(), *zip(tensors, fixed[len(items) :], strict=True)]
        read = [n.take(x, t, 0) for x in fixed[: len(items)]]
        made = run(n, body, [*now, *read], inside)
        return made[:count], made[count:]

    last, found = counted(n, times, [*items, *tensors.values()], state, turn)
    return last, [n.reshape(x, [times, *n.sizes(x)[1:]]) for x in found]


ROWS: tuple[Row, ...] = (
    Row("If", _if),
    Row("Loop", _loop),
    Row("Scan", _scan_batched, since=8, until=8),
    Row("Scan", _scan, since=9),
)
