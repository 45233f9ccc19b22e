"""`PropagateShapeConstraints` on small modules: each row of its table, guards and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tests.relay_passes.propagate_helpers import casts, lost, module, operators, result, run
from tvm_disc.errors import ParseError, ShapeConflict, TypeMismatch, Unsupported
from tvm_disc.relay_passes import PropagateShapeConstraints
from tvm_disc.shape import Solver


def shape_tensor(bb: Any, x: Any) -> Any:
    return bb.emit(R.shape_to_tensor(bb.emit(R.shape_of(x))))


def const(*values: int) -> Any:
    return relax.const(np.array(values, "int64"), "int64")


# name, input shapes, body, dims of the result, number of guards
ROWS: tuple[tuple[str, list[list[Any]], Callable[..., Any], str, int], ...] = (
    ("add", [["n", 4], ["m", 4]], lambda bb, s, x, y: R.add(x, y), "", 1),
    ("add one", [["n", 1], [1, "m"]], lambda bb, s, x, y: R.add(x, y), "n, m", 0),
    ("add wide", [["n", 4], ["m", "n", 1]], lambda bb, s, x, y: R.add(x, y), "m, n, 4", 0),
    ("where", [["n"], ["n"]], lambda bb, s, x, y: R.where(bb.emit(R.greater(x, y)), x, y), "n", 0),
    ("concat", [["n", 4], ["m", 4]], lambda bb, s, x, y: R.concat([x, y], 0), "n + m, 4", 0),
    ("concat other", [["n", 4], ["m", 2]], lambda bb, s, x, y: R.concat([x, y], 1), "n, 6", 1),
    ("stack", [["n"], ["m"]], lambda bb, s, x, y: R.stack([x, y], 0), "2, n", 1),
    ("matmul", [["n", "k"], ["h", 4]], lambda bb, s, x, y: R.matmul(x, y), "n, 4", 1),
    (
        "matmul batch",
        [["b", 2, 3], ["c", 3, 4]],
        lambda bb, s, x, y: R.matmul(x, y),
        "",
        1,
    ),
    (
        "layer_norm",
        [["n", "c"], ["d"], ["e"]],
        lambda bb, s, x, g, b: R.nn.layer_norm(x, g, b, [-1]),
        "n, c",
        2,
    ),
    (
        "conv2d",
        [["b", "c", "h", 8], [4, "d", 3, 3]],
        lambda bb, s, x, w: R.nn.conv2d(x, w),
        "b, 4, h - 2, 6",
        2,
    ),
    ("slice", [["n", 4]], lambda bb, s, x: R.strided_slice(x, [-2], [1], [2**31 - 1]), "", 0),
    (
        "add the first row",
        [["n", 4]],
        lambda bb, s, x: R.add(x, bb.emit(R.strided_slice(x, [0], [0], [1]))),
        "n, 4",
        0,
    ),
    (
        "add the first rows",
        [["n", 4]],
        lambda bb, s, x: R.add(x, bb.emit(R.strided_slice(x, [0], [0], [2]))),
        "n, 4",
        1,
    ),
    ("slice last", [["n", 4]], lambda bb, s, x: R.strided_slice(x, [1], [-1], [4]), "n, 1", 0),
    ("slice all", [["n", 4]], lambda bb, s, x: R.strided_slice(x, [0], [0], [s["n"]]), "n, 4", 0),
    (
        "dynamic slice",
        [["n", 4]],
        lambda bb, s, x: R.dynamic_strided_slice(x, const(0, 1), shape_tensor(bb, x), const(1, 1)),
        "n, 3",
        0,
    ),
    (
        "reshape by a shape variable",
        [["n", 4]],
        lambda bb, s, x: R.reshape(
            x, bb.emit(R.tensor_to_shape(bb.emit(R.concat([const(2, 2), _first(bb, x)], 0))))
        ),
        "2, 2, n",
        0,
    ),
    (
        "broadcast by a shape variable",
        [["n", 1], ["m", 4]],
        lambda bb, s, x, y: R.broadcast_to(x, bb.emit(R.tensor_to_shape(shape_tensor(bb, y)))),
        "m, 4",
        1,
    ),
    ("squeeze", [["n", 1, 4]], lambda bb, s, x: R.squeeze(x), "n, 4", 1),
    (
        "arange",
        [["n"]],
        lambda bb, s, x: R.arange(0, s["n"] * 2, 2, "int64"),
        "n",
        0,
    ),
    (
        "take by position",
        [["n"]],
        lambda bb, s, x: R.take(
            relax.const(np.ones((8, 2), "float32")), bb.emit(R.arange(0, s["n"], 1, "int64")), 0
        ),
        "n, 2",
        1,
    ),
    ("a row of TVM's own", [["n", "m"]], lambda bb, s, x: R.permute_dims(x), "m, n", 0),
)


def _first(bb: Any, x: Any) -> Any:
    return bb.emit(R.strided_slice(shape_tensor(bb, x), [0], [0], [1]))


@pytest.mark.parametrize(
    ("name", "shapes", "body", "dims", "guards"), ROWS, ids=[r[0] for r in ROWS]
)
@pytest.mark.parametrize("portable", [True, False])
def test_row(name: str, shapes: Any, body: Any, dims: str, guards: int, portable: bool) -> None:
    propagate = PropagateShapeConstraints(portable=portable)
    mod = propagate(module(shapes, body))
    relax.analysis.well_formed(mod)
    assert lost(mod) == []
    assert not {"shape_of", "shape_to_tensor", "tensor_to_shape"} & set(operators(mod))
    if dims:
        assert result(mod).startswith(dims)
    merged = len({str(v.name) for v, _ in propagate.solver.symbols()}) - len(
        {str(d) for p in mod["main"].params for d in p.ty.shape.values if isinstance(d, tirx.Var)}
    )
    assert len(propagate.solver.guards) + merged == guards


@pytest.mark.parametrize("n", [0, 1, 3])
def test_shapes_that_tvm_lost_run_in_its_own_machine(n: int) -> None:
    mod = module(
        [["n", 4], ["m", 4]],
        lambda bb, s, x, y: R.nn.relu(bb.emit(R.concat([bb.emit(R.add(x, y)), x], 0))),
    )
    x, y = (np.full((n, 4), v, "float32") for v in (-3, 5))
    propagate = PropagateShapeConstraints(["x0.0 == x1.0"])
    got = run(propagate(mod), x, y)
    assert np.array_equal(got, np.maximum(np.concatenate([x + y, x]), 0))


def test_equal_dims_become_one_symbol_in_the_inputs() -> None:
    mod = module([["n", 4], ["m", 4], ["k"]], lambda bb, s, x, y, z: R.matmul(x, R.permute_dims(y)))
    propagate = PropagateShapeConstraints(["x1.0 == x0.0", "k == 4"])
    after = propagate(mod)
    assert [str(p.ty.shape.values[0]) for p in after["main"].params] == ["n", "n", "T.int64(4)"]
    # The types of the inputs say it now, and whoever calls checks them.
    assert propagate.solver.guards == []


def test_a_provable_cast_is_gone_and_a_cast_that_binds_stays() -> None:
    def body(bb: Any, s: Any, x: Any) -> Any:
        k, rows = tirx.Var("k", "int64"), tirx.Var("rows", "int64")
        same = bb.match_cast(bb.emit(R.nn.relu(x)), relax.TensorType([k, 4], "float32"))
        found = bb.match_cast(bb.emit(R.nonzero(same)), relax.TensorType([2, rows], "int64"))
        return R.add(found, const(1))

    after = PropagateShapeConstraints()(module([["n", 4]], body))
    assert [c.split('"')[0] for c in casts(after)] == ["R.Tensor((2, rows), dtype="]
    assert result(after) == "2, rows"


def test_a_cast_between_inputs_becomes_a_guard() -> None:
    def body(bb: Any, s: Any, x: Any, y: Any) -> Any:
        return bb.match_cast(x, relax.TensorType([s["m"] * 2], "float32"))

    mod = module([["n"], ["m"]], body)
    propagate = PropagateShapeConstraints()
    after = propagate(mod)
    assert casts(after) == [] and len(propagate.solver.guards) == 1
    go = run(after, np.ones(4, "float32"), np.ones(2, "float32"))
    assert go.shape == (4,)
    with pytest.raises(Exception, match="match_cast"):
        run(after, np.ones(5, "float32"), np.ones(2, "float32"))


def test_a_shape_that_nothing_tells_gets_symbols() -> None:
    mod = module([["n", 4]], lambda bb, s, x: R.add(bb.emit(R.nonzero(x)), const(1)))
    propagate = PropagateShapeConstraints()
    after = propagate(mod)
    assert len(casts(after)) == 1
    assert any("value" in source for _, source in propagate.solver.symbols())


def test_positions_of_known_range_need_no_wrapping() -> None:
    def body(bb: Any, s: Any, x: Any, y: Any) -> Any:
        at = bb.emit(R.arange(0, s["n"], 1, "int64"))
        wrapped = bb.emit(R.add(at, bb.emit(R.take(shape_tensor(bb, x), const(0), 0))))
        below = bb.emit(R.less(at, relax.const(0, "int64")))
        return R.take(x, bb.emit(R.where(below, wrapped, at)), 0, "fast")

    after = PropagateShapeConstraints()(module([["m", 4], ["n"]], body))
    assert operators(after) == ["arange", "take"]


def test_a_take_of_every_row_in_order_is_the_operand() -> None:
    def body(bb: Any, s: Any, x: Any) -> Any:
        return R.nn.relu(bb.emit(R.take(x, bb.emit(R.arange(0, s["n"], 1, "int64")), 0)))

    after = PropagateShapeConstraints()(module([["n", 4]], body))
    assert operators(after) == ["nn.relu"]


def test_a_gather_at_its_own_positions_is_the_operand() -> None:
    def body(bb: Any, s: Any, x: Any) -> Any:
        rows = bb.emit(R.expand_dims(bb.emit(R.arange(0, s["n"], 1, "int64")), [1, 2]))
        columns = bb.emit(R.expand_dims(bb.emit(R.arange(0, s["m"], 1, "int64")), [0, 1]))
        return R.index_tensor(x, [rows, columns])

    mod = module([["n", "m"]], body)
    after = PropagateShapeConstraints()(mod)
    assert operators(after)[-1:] == ["reshape"] and "index_tensor" not in operators(after)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    assert np.array_equal(run(after, x), x.reshape(2, 1, 3))


def test_a_gather_at_other_positions_stays_one() -> None:
    def body(bb: Any, s: Any, x: Any, i: Any, j: Any) -> Any:
        return R.index_tensor(x, [i, j])

    mod = module([["n", 3], ["k", 1], [1, 2]], body, ["float32", "int64", "int64"])
    after = PropagateShapeConstraints()(mod)
    assert "gather_nd" in operators(after)
    x = np.arange(12, dtype="float32").reshape(4, 3)
    i, j = np.array([[3], [0], [1]]), np.array([[2, 0]])
    assert np.array_equal(run(after, x, i, j), x[i, j])


def condition_and_rows() -> tuple[Any, Any, Any]:
    """A builder, and parameters of a function with branches: a bool, and ``float32[n, 4]``."""
    x = relax.Var("x", relax.TensorType([tirx.Var("n", "int64"), 4], "float32"))
    return relax.BlockBuilder(), relax.Var("c", relax.TensorType([], "bool")), x


def test_control_flow_and_calls_are_walked() -> None:
    bb, c, x = condition_and_rows()
    with bb.function("main", [c, x]):
        branches = []
        for op in (R.nn.relu, R.negative):
            v = relax.Var("v", x.ty)
            call = bb.normalize(op(x))
            branches.append(relax.SeqExpr([relax.BindingBlock([relax.VarBinding(v, call)])], v))
        out = bb.emit(relax.If(c, *branches))
        bb.emit_func_output(out)
    after = PropagateShapeConstraints()(bb.get())
    relax.analysis.well_formed(after)
    data = np.array([[-1, 2, -3, 4]], "float32")
    assert np.array_equal(run(after, np.array(False), data), -data)


def test_a_row_is_asked_for_only_where_every_call_reads_it() -> None:
    row = relax.const(0, "int64")
    propagate = PropagateShapeConstraints(portable=False)
    after = propagate(module([["n", 4]], lambda bb, s, x: R.take(x, row, 0)))
    assert "take" not in operators(after)
    assert [str(g.cond) for g in propagate.solver.guards] == ["T.int64(1) <= n"]
    bb, c, x = condition_and_rows()
    with bb.function("main", [c, x]):
        branches = []
        for axis in (0, 1):
            v = relax.Var("v", relax.TensorType([x.ty.shape.values[1 - axis]], "float32"))
            call = bb.normalize(R.take(x, row, axis))
            total = relax.Var("t", relax.TensorType([], "float32"))
            made = [(v, call), (total, bb.normalize(R.sum(v)))]
            block = relax.BindingBlock([relax.VarBinding(var, e) for var, e in made])
            branches.append(relax.SeqExpr([block], total))
        bb.emit_func_output(bb.emit(relax.If(c, *branches)))
    propagate(bb.get())
    assert propagate.solver.guards == []


def test_alone_in_a_sequential_and_twice() -> None:
    mod = module([["n", 4], ["m", 4]], lambda bb, s, x, y: R.add(x, y))
    solver = Solver()
    once = PropagateShapeConstraints(["n == m"], solver=solver)
    passes = [once, relax.transform.LegalizeOps(), PropagateShapeConstraints()]
    after = tvm.transform.Sequential(passes)(mod)
    relax.analysis.well_formed(after)
    assert lost(after) == []
    assert once.solver is solver and len(solver.symbols()) == 2


def test_bounds_of_a_front_end_are_facts_and_are_checked() -> None:
    mod = module([["n", 4]], lambda bb, s, x: R.strided_slice(x, [0], [0], [8]))
    bound = mod["main"].with_attr("tir_var_upper_bound", {"n": 8})
    propagate = PropagateShapeConstraints(portable=False)
    after = propagate(tvm.IRModule({relax.GlobalVar("main"): bound}))
    assert result(after) == "n, 4"
    assert [str(g.context) for g in propagate.solver.guards] == [
        "the function's tir_var_upper_bound"
    ]


def test_guards_are_checked_first_in_tvms_own_machine() -> None:
    mod = module([["n", 4]], lambda bb, s, x: R.nn.relu(x))
    after = PropagateShapeConstraints(["n <= 8"])(mod)
    assert run(after, np.ones((8, 4), "float32")).shape == (8, 4)
    with pytest.raises(Exception, match="match_cast"):
        run(after, np.ones((9, 4), "float32"))


def test_a_called_function_that_needs_a_check_is_refused() -> None:
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    x, y = (relax.Var(k, relax.TensorType([d, 4], "float32")) for k, d in (("x", n), ("y", m)))
    bb = relax.BlockBuilder()
    with bb.function("inner", [x, y], private=True):
        bb.emit_func_output(bb.emit(R.add(x, y)))
    mod = bb.get()
    mod["main"] = module([["k", 4]], lambda bb, s, x: R.nn.relu(x))["main"]
    relax.analysis.well_formed(PropagateShapeConstraints()(mod))
    with pytest.raises(Unsupported, match="function 'inner' requires a run-time check"):
        PropagateShapeConstraints(portable=False)(mod)


# -- refusals ------------------------------------------------------------------------------------

CONFLICTS: tuple[tuple[str, list[list[Any]], Callable[..., Any], str], ...] = (
    ("matmul", [["n", 64], [3, 4]], lambda bb, s, x, y: R.matmul(x, y), "contraction dims"),
    ("concat", [["n", 4], ["m", 3]], lambda bb, s, x, y: R.concat([x, y], 0), "axis 1"),
    ("stack", [["n", 4], ["m", 3]], lambda bb, s, x, y: R.stack([x, y], 0), "axis 1"),
    (
        "reshape",
        [["n", 3]],
        lambda bb, s, x: R.reshape(x, relax.ShapeExpr([s["n"] * 3 + 1])),
        "element count",
    ),
    (
        "match_cast",
        [["n", 4]],
        lambda bb, s, x: bb.match_cast(x, relax.TensorType([s["n"] + 1, 4], "float32")),
        "match_cast",
    ),
)


@pytest.mark.parametrize(
    ("name", "shapes", "body", "words"), CONFLICTS, ids=[r[0] for r in CONFLICTS]
)
def test_what_can_never_fit_is_refused(name: str, shapes: Any, body: Any, words: str) -> None:
    try:
        mod = module(shapes, body)
    except (tvm.error.InternalError, ValueError, TypeError):
        pytest.skip("TVM refuses it first")
    with pytest.raises((ShapeConflict, TypeMismatch), match=words):
        PropagateShapeConstraints()(mod)


@pytest.mark.parametrize(
    ("constraints", "error", "words"),
    [
        (["n >= 5", "n <= 4"], ShapeConflict, "n >= 5"),
        (["x0.1 == 5"], ShapeConflict, "constraint 'x0.1 == 5' can never hold; x0.1 is 4"),
        (["x0.1 < 3"], ShapeConflict, "'x0.1 < 3' can never hold; x0.1 is 4"),
        (["7 == 5"], ShapeConflict, "'7 == 5' can never hold$"),
        (["n > 1 and x0.1 == 5"], ShapeConflict, "can never hold; x0.1 is 4"),
        (["q <= 4"], ParseError, "no dim is called 'q'"),
        (["n <"], ParseError, "expected a dim"),
        (["x0.7 == 1"], ParseError, "x0.7"),
    ],
)
def test_impossible_constraints_are_refused(constraints: Any, error: Any, words: str) -> None:
    mod = module([["n", 4]], lambda bb, s, x: R.nn.relu(x))
    with pytest.raises(error, match=words):
        PropagateShapeConstraints(constraints)(mod)


def test_a_conflict_names_the_value_and_the_inputs() -> None:
    mod = module([["n", 4], ["m", 4]], lambda bb, s, x, y: R.add(x, y))
    with pytest.raises(ShapeConflict) as caught:
        PropagateShapeConstraints(["n >= 5", "2 <= m", "m <= 4"])(mod)
    assert "input 'x0' axis 0" in str(caught.value) and "add" in str(caught.value)
