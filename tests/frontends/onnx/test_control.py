"""Branches, loops, scans and sequences as Relay's control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import GuardFailed, TypeMismatch, Unsupported

from .helpers import BOOL, F32, I64, build, helper, model, node, normal, same


def graph(nodes: list[Any], inputs: list[tuple[str, int, Any]], outputs: list[str]) -> Any:
    ins = [helper.make_tensor_value_info(*i) for i in inputs]
    outs = [helper.make_tensor_value_info(o, F32, None) for o in outputs]
    return helper.make_graph(nodes, "body", ins, outs)


def branching(then: list[Any], other: list[Any]) -> Any:
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("If", ["c"], ["y"], then_branch=graph(then, [], ["t"]),
             else_branch=graph(other, [], ["o"])),
        node("Add", ["y", "e"], ["z"]),
    ]  # fmt: skip
    return model(nodes, {"x": (F32, ["n"]), "c": (BOOL, [])})


def test_a_branch_reads_from_outside() -> None:
    made = branching([node("Relu", ["e"], ["t"])], [node("Neg", ["x"], ["o"])])
    cases = [[normal(n), np.array(c)] for n in (1, 7, 16) for c in (True, False)]
    same(made, *cases)


def test_branches_of_other_ranks_are_refused() -> None:
    made = branching([node("Relu", ["x"], ["t"])], [node("ReduceSum", ["x"], ["o"], keepdims=0)])
    with pytest.raises(
        TypeMismatch, match="ONNX If 'y': the branches compute 'y' with ranks 1 and"
    ):
        build(made)


def looping(more: str, count: Any = "m") -> Any:
    """Adds the input up until the sum is large; the states are gathered."""
    body = graph(
        [
            node("Add", ["s", "x"], ["s2"]),
            node("ReduceMax", ["s2"], ["top"], keepdims=0),
            node("Less", ["top", "limit"], ["near"]),
            node("Identity", [more], ["go"]),
            node("Identity", ["s2"], ["row"]),
        ],
        [("t", I64, []), ("c", BOOL, []), ("s", F32, ["n"])],
        ["go", "s2", "row"],
    )
    nodes = [node("Loop", [count, "", "x"], ["last", "rows"], body=body)]
    inputs = {"x": (F32, ["n"])}
    constants = {"limit": np.float32(5)}
    if count == "m":
        inputs["m"] = (I64, [])
    elif count:
        constants[count] = np.int64(3)
    return model(nodes, inputs, **constants)


@pytest.mark.parametrize(
    ("more", "count"), [("near", "m"), ("c", "m"), ("c", "three"), ("near", "")]
)
def test_loops(more: str, count: str) -> None:
    made = looping(more, count)
    cases: list[list[np.ndarray]] = [[np.abs(normal(n)) + 0.5] for n in (1, 4, 17)]
    if count == "m":
        cases = [[x, np.array(m)] for (x,) in cases for m in (1, 6)]

    def want(x: np.ndarray, most: Any = 3 if count else 1000) -> list[np.ndarray]:
        state, rows = x, []
        for _ in range(int(most)):
            state = state + x
            rows.append(state)
            if more == "near" and state.max() >= 5:
                break
        return [state, np.stack(rows)]

    same(made, *cases, want=want)


def test_scan_over_an_axis_of_unknown_length() -> None:
    body = graph(
        [node("Add", ["s", "x_"], ["s2"]), node("Mul", ["s2", "w"], ["row"])],
        [("s", F32, ["k"]), ("x_", F32, ["k"])],
        ["s2", "row"],
    )
    scan = node(
        "Scan", ["s0", "x"], ["last", "rows"], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[1], scan_output_axes=[-1],
    )  # fmt: skip
    made = model([scan], {"s0": (F32, ["k"]), "x": (F32, ["k", "t"])}, w=np.float32(2))
    cases = [[normal(k), normal(k, t)] for k, t in ((1, 1), (3, 4), (2, 13), (16, 7), (5, 64))]

    def want(s: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        sums = s[:, None] + np.cumsum(x[:, ::-1], 1)
        return [sums[:, -1], 2 * sums]

    same(made, *cases, want=want)


def test_a_scan_keeps_the_shape_of_its_state() -> None:
    """Though nothing says that its state and what it reads have one length."""
    body = graph(
        [node("Add", ["s", "x"], ["t"]), node("Mul", ["t", "x"], ["row"])],
        [("s", F32, ["m"]), ("x", F32, ["n"])],
        ["t", "row"],
    )
    made = model(
        [node("Scan", ["s", "xs"], ["last", "rows"], body=body, num_scan_inputs=1)],
        {"s": (F32, ["m"]), "xs": (F32, ["t", "n"])},
    )
    program = same(made, *[[normal(n), normal(t, n)] for n, t in ((1, 1), (3, 7), (16, 2))])
    with pytest.raises(GuardFailed):
        program(normal(1), normal(2, 3))


def test_rows_that_grow_are_not_gathered() -> None:
    """All have the shape of the first; another one is found when the program runs."""
    body = graph(
        [node("Identity", ["c"], ["go"]), node("Concat", ["s", "s"], ["s2"], axis=0)],
        [("t", I64, []), ("c", BOOL, []), ("s", F32, ["k"])],
        ["go", "s2", "s2"],
    )
    made = model(
        [node("Loop", ["m", "", "x"], ["y", "rows"], body=body)],
        {"x": (F32, ["n"]), "m": (I64, [])},
    )
    program, x = build(made), normal(3)
    last, rows = program(x, np.array(0))
    np.testing.assert_array_equal(last, x)
    assert rows.shape == (0, 6)
    with pytest.raises(GuardFailed):
        program(x, np.array(2))


def test_sequences_are_known_while_a_model_is_read() -> None:
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["parts"], axis=1),
        node("SequenceAt", ["parts", "last"], ["tail"]),
        node("SequenceInsert", ["parts", "tail", "zero"], ["more"]),
        node("SequenceLength", ["more"], ["count"]),
        node("ConcatFromSequence", ["more"], ["y"], axis=1),
    ]
    made = model(
        nodes, {"x": (F32, ["n", 5])}, results=["y", "count"], sizes=np.array([2, 3]),
        last=np.int64(-1), zero=np.int64(0),
    )  # fmt: skip
    same(made, *[[normal(n, 5)] for n in (1, 3, 16)])


def gathering(last: list[Any], body: list[Any], first: list[Any], **constants: Any) -> Any:
    """A loop that puts a tensor into a sequence every turn."""
    ins = [("t", I64, []), ("c", BOOL, []), ("old", F32, None)]
    turn = graph([*body, node("Identity", ["c"], ["go"])], ins, ["go", "longer"])
    loop = node("Loop", ["m", "", "none"], ["seq"], body=turn)
    inputs = {"x": (F32, ["n", 3]), "m": (I64, [])}
    return model([*first, loop, *last], inputs, **constants)


def test_a_sequence_that_a_loop_makes() -> None:
    """As bags of embeddings are exported: rows of every turn, joined or picked afterwards."""
    body = [
        node("Gather", ["x", "t"], ["row"], axis=0),
        node("Unsqueeze", ["row", "zero"], ["line"]),
        node("SequenceInsert", ["old", "line"], ["longer"]),
    ]
    last = [
        node("ConcatFromSequence", ["seq"], ["rows"], axis=0),
        node("ConcatFromSequence", ["seq"], ["wide"], axis=1),
        node("ConcatFromSequence", ["seq"], ["deep"], axis=2, new_axis=1),
        node("SequenceLength", ["seq"], ["count"]),
        node("SequenceAt", ["seq", "zero"], ["top"]),
        node("Cast", ["count"], ["size"], to=1),
        node("Concat", ["rows", "top"], ["both"], axis=0),
        node("Sum", ["both", "size"], ["y"]),
    ]
    made = gathering(last, body, [node("SequenceEmpty", [], ["none"])], zero=np.array([0]))
    made.graph.output.extend(helper.make_tensor_value_info(k, F32, None) for k in ("wide", "deep"))
    turns = ((5, 5), (1, 1), (7, 3), (31, 31), (64, 2))

    def want(x: np.ndarray, m: np.ndarray) -> list[np.ndarray]:
        rows = x[: int(m)]
        return [np.concatenate([rows, x[:1]]) + m, rows.reshape(1, -1), rows.T[None]]

    same(made, *([normal(n, 3), np.array(m)] for n, m in turns), want=want)


def test_sums_of_rows_between_bounds_that_a_loop_reads() -> None:
    """As bags of unlike lengths are exported: how many axes a slice cuts is in no type."""
    body = [
        node("Reshape", ["t", "minus"], ["at"]),
        node("Add", ["at", "one"], ["next"]),
        node("Add", ["next", "one"], ["after"]),
        node("Slice", ["bounds", "at", "next"], ["low"]),
        node("Slice", ["bounds", "next", "after"], ["high"]),
        node("Slice", ["x", "low", "high"], ["part"]),
        node("ReduceSum", ["part", "zero"], ["line"]),
        node("SequenceInsert", ["old", "line"], ["longer"]),
    ]
    first = [
        node("CumSum", ["counts", "origin"], ["ends"]),
        node("Concat", ["zero", "ends"], ["bounds"], axis=0),
        node("SequenceEmpty", [], ["none"]),
    ]
    last = [
        node("ConcatFromSequence", ["seq"], ["rows"], axis=0),
        node("MatMul", ["rows", "w"], ["y"]),
    ]
    made = gathering(
        last, body, first, zero=np.array([0]), one=np.array([1]), minus=np.array([-1]),
        origin=np.array(0), w=np.eye(3, dtype="float32"),
    )  # fmt: skip
    made.graph.input.append(helper.make_tensor_value_info("counts", I64, ["b"]))
    counts = [[2, 1, 4], [5], [0, 3], [1, 0, 0, 6, 2]]

    def want(x: np.ndarray, m: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
        return [np.stack([p.sum(0) for p in np.split(x, np.cumsum(counts))[:-1]])]

    cases = [[normal(sum(c), 3), np.array(len(c)), np.array(c)] for c in counts]
    same(made, *cases, want=want)


def test_a_sequence_that_a_loop_replaces_is_refused() -> None:
    body = [node("SequenceConstruct", ["x"], ["longer"])]
    last = [node("ConcatFromSequence", ["seq"], ["y"], axis=0)]
    made = gathering(last, body, [node("SequenceEmpty", [], ["none"])])
    with pytest.raises(Unsupported, match=r"ONNX Loop 'seq': .* found one that replaces the seq"):
        build(made)


def test_a_sequence_that_results_is_a_tuple() -> None:
    nodes = [node("SequenceConstruct", ["x", "x"], ["y"]), node("Relu", ["x"], ["z"])]
    program = build(model(nodes, {"x": (F32, ["n"])}, results=["y", "z"]))
    for n in (1, 7):
        x = normal(n)
        (first, second), positive = program(x)
        np.testing.assert_array_equal(first, x)
        np.testing.assert_array_equal(second, x)
        np.testing.assert_array_equal(positive, np.maximum(x, 0))


def test_nothing_is_no_result() -> None:
    made = model([node("Optional", [], ["y"])], {"x": (F32, ["n"])})
    with pytest.raises(Unsupported, match="result 'y': expected a tensor, found an empty optional"):
        build(made)


def test_a_state_of_another_type_is_refused() -> None:
    body = graph(
        [node("Shape", ["s"], ["s2"]), node("Identity", ["c"], ["go"])],
        [("t", I64, []), ("c", BOOL, []), ("s", F32, ["n"])],
        ["go", "s2"],
    )
    made = model(
        [node("Loop", ["m", "", "x"], ["y"], body=body)], {"x": (F32, ["n"]), "m": (I64, [])}
    )
    with pytest.raises(
        TypeMismatch, match=r"ONNX Loop 'y': state 0 of a loop: expected .*, as before it, found"
    ):
        build(made)


def test_every_batch_entry_is_a_scan_of_its_own() -> None:
    """In opset 8, also of batches and lengths that nobody knows."""
    body = graph(
        [node("Add", ["s", "item"], ["s2"]), node("Mul", ["s2", "item"], ["row"])],
        [("s", F32, ["k"]), ("item", F32, ["k"])],
        ["s2", "row"],
    )
    made_node = node("Scan", ["", "s0", "x"], ["last", "rows"], body=body, num_scan_inputs=1)
    made = model([made_node], {"s0": (F32, ["b", "k"]), "x": (F32, ["b", "t", "k"])}, opset=8)

    def want(s0: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        states = s0[:, None] + np.cumsum(x, 1)
        return [states[:, -1] if x.shape[1] else s0, states * x]

    sizes = ((1, 1, 2), (2, 3, 4), (7, 2, 1), (3, 16, 5), (2, 0, 3))
    same(made, *[[normal(b, k), normal(b, t, k)] for b, t, k in sizes], want=want)
