"""Recurrent models over sequences and trees: Relay modules, inputs, and their meaning in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_disc import relay

LIST = relay.GlobalTypeVar("List")
TREE = relay.GlobalTypeVar("Tree")
A = relay.TypeVar("A")


def tree_module() -> Any:
    """A module that knows lists and trees."""
    mod = relay.IRModule()
    cons = relay.ConstructorSig("Cons", (A, relay.TypeCall(LIST, (A,))))
    mod.add_type(relay.TypeData(LIST, (A,), (cons, relay.ConstructorSig("Nil"))))
    trees = relay.TypeCall(LIST, (relay.TypeCall(TREE, (A,)),))
    mod.add_type(relay.TypeData(TREE, (A,), (relay.ConstructorSig("Rose", (A, trees)),)))
    return mod


def weights(inputs: int, hidden: int, gates: Sequence[int], seed: int) -> list[np.ndarray]:
    """(input, hidden) weights per group of gates, and the bias."""
    rng = np.random.default_rng(seed)
    total = sum(gates)
    shapes = [(total * hidden, inputs), *((g * hidden, hidden) for g in gates), (total * hidden,)]
    return [(rng.standard_normal(s) * 0.3).astype("float32") for s in shapes]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """As the operator."""
    return 1 / (1 + np.exp(-x))


# -- a child-sum Tree-LSTM -------------------------------------------------------------------------


def tree_lstm(inputs: int, hidden: int, seed: int = 0) -> tuple[Any, list[np.ndarray]]:
    """(module, weights): states of all children add up, one forget gate per child."""
    mod = tree_module()
    w_x, w_iou, w_f, bias = weights(inputs, hidden, (3, 1), seed)
    state_type = relay.TensorType((1, hidden))
    pair = relay.TupleType((state_type, state_type))
    word = relay.TensorType((1, inputs))
    tree_type = relay.TypeCall(TREE, (word,))
    trees_type = relay.TypeCall(LIST, (tree_type,))
    forward, children = relay.GlobalVar("forward"), relay.GlobalVar("children")

    def affine(x: Any, w: np.ndarray) -> Any:
        return relay.nn.dense(x, relay.const(w))

    x, kids = relay.Var("x"), relay.Var("kids")
    gates_x = relay.nn.bias_add(affine(x, w_x), relay.const(bias))
    f_x = relay.strided_slice(gates_x, [0, 3 * hidden], [1, 4 * hidden])
    iou_x = relay.strided_slice(gates_x, [0, 0], [1, 3 * hidden])
    summed = relay.Var("summed")
    iou = relay.add(iou_x, affine(relay.TupleGetItem(summed, 0), w_iou))
    parts = relay.split(iou, 3, axis=1)
    i, o, u = relay.sigmoid(parts[0]), relay.sigmoid(parts[1]), relay.tanh(parts[2])
    c = relay.add(relay.multiply(i, u), relay.TupleGetItem(summed, 1))
    h = relay.multiply(o, relay.tanh(c))
    zero = relay.zeros((1, hidden), "float32")
    body = relay.Let(summed, relay.Call(children, (kids, f_x, zero, zero)), relay.Tuple((h, c)))
    rose = mod.get_constructor("Rose")
    clause = relay.Clause(
        relay.PatternConstructor(rose, (relay.PatternVar(x), relay.PatternVar(kids))), body
    )
    tree = relay.Var("tree", tree_type)
    mod[forward] = relay.Function([tree], relay.Match(tree, (clause,)), pair)
    mod[children] = _children(mod, forward, children, (w_f, hidden), trees_type, pair)
    root = relay.Var("tree", tree_type)
    mod["main"] = relay.Function([root], relay.Call(forward, (root,)))
    return mod, [w_x, w_iou, w_f, bias]


def _children(mod: Any, forward: Any, children: Any, size: Any, trees: Any, pair: Any) -> Any:
    """(sum of states, sum of gated cells) over a list of trees, in the form of a loop."""
    w_f, hidden = size
    state = relay.TensorType((1, hidden))
    names = (("trees", trees), ("f_x", state), ("h", state), ("c", state))
    params = [relay.Var(n, t) for n, t in names]
    first, rest, found = relay.Var("first"), relay.Var("rest"), relay.Var("found")
    h, c = relay.TupleGetItem(found, 0), relay.TupleGetItem(found, 1)
    gate = relay.sigmoid(relay.add(params[1], relay.nn.dense(h, relay.const(w_f))))
    again = relay.Call(
        children,
        (
            rest,
            params[1],
            relay.add(params[2], h),
            relay.add(params[3], relay.multiply(gate, c)),
        ),
    )
    cons = relay.PatternConstructor(
        mod.get_constructor("Cons"), (relay.PatternVar(first), relay.PatternVar(rest))
    )
    clauses = (
        relay.Clause(cons, relay.Let(found, relay.Call(forward, (first,)), again)),
        relay.Clause(relay.PatternWildcard(), relay.Tuple((params[2], params[3]))),
    )
    return relay.Function(params, relay.Match(params[0], clauses), pair)


def random_tree(rng: np.random.Generator, nodes: int, inputs: int) -> Any:
    """A tree with that many nodes."""
    word = rng.standard_normal((1, inputs)).astype("float32")
    left = nodes - 1
    kids = []
    while left:
        share = int(rng.integers(1, left + 1))
        kids.append(random_tree(rng, share, inputs))
        left -= share
    return relay.ConstructorValue("Rose", word, relay.from_list(kids))


def tree_lstm_numpy(tree: Any, ws: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What the module means."""
    w_x, w_iou, w_f, bias = ws
    hidden = w_f.shape[0]
    states = [tree_lstm_numpy(t, ws) for t in relay.to_list(tree[1])]
    gates = tree[0] @ w_x.T + bias
    zero = np.zeros((1, hidden), "float32")
    h_sum = sum((h for h, _ in states), zero)
    iou = gates[:, : 3 * hidden] + h_sum @ w_iou.T
    i, o, u = np.split(iou, 3, axis=1)
    c = sigmoid(i) * np.tanh(u)
    for h, cell in states:
        c = c + sigmoid(gates[:, 3 * hidden :] + h @ w_f.T) * cell
    return sigmoid(o) * np.tanh(c), c


# -- a stacked LSTM over a list --------------------------------------------------------------------


def stacked_lstm(inputs: int, hidden: int, layers: int = 2) -> tuple[Any, list[list[np.ndarray]]]:
    """(module, weights per layer): a sequence ``[length, inputs]`` through all layers at once."""
    ws = [weights(inputs if k == 0 else hidden, hidden, (4,), k) for k in range(layers)]
    xs = relay.var("xs", shape=(relay.Any(), inputs), dtype="float32")
    t, n = relay.var("t", shape=(), dtype="int32"), relay.var("n", shape=(), dtype="int32")
    states = [
        relay.var(f"{kind}{k}", shape=(1, hidden), dtype="float32")
        for k in range(layers)
        for kind in "hc"
    ]
    seq = relay.var("seq", shape=(relay.Any(), inputs), dtype="float32")

    def cond(*args: Any) -> Any:
        return relay.less(args[0], args[1])

    def body(*args: Any) -> list[Any]:
        step, count, source, *old = args
        x = relay.expand_dims(relay.take(source, step, axis=0), 0)
        new: list[Any] = []
        for k, (w_x, w_h, bias) in enumerate(ws):
            h, c = old[2 * k], old[2 * k + 1]
            total = relay.add(
                relay.nn.dense(x, relay.const(w_x)), relay.nn.dense(h, relay.const(w_h))
            )
            gates = relay.split(relay.nn.bias_add(total, relay.const(bias)), 4, axis=1)
            keep = relay.multiply(relay.sigmoid(gates[1]), c)
            c = relay.add(keep, relay.multiply(relay.sigmoid(gates[0]), relay.tanh(gates[2])))
            x = relay.multiply(relay.sigmoid(gates[3]), relay.tanh(c))
            new += [x, c]
        return [relay.add(step, relay.const(1, "int32")), count, source, *new]

    loop = relay.loops.while_loop(cond, [t, n, seq, *states], body)
    zero = relay.zeros((1, hidden), "float32")
    length = relay.take(relay.shape_of(xs, dtype="int32"), relay.const(0, "int32"))
    done = relay.Call(loop, [relay.const(0, "int32"), length, xs, *[zero for _ in states]])
    result = relay.Tuple([relay.TupleGetItem(done, 3 + k) for k in range(2 * layers)])
    return relay.IRModule.from_expr(relay.Function([xs], result)), ws


def stacked_lstm_numpy(xs: np.ndarray, ws: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """What the module means."""
    hidden = ws[0][1].shape[1]
    state = [np.zeros((1, hidden), "float32") for _ in range(2 * len(ws))]
    for x in xs[:, None]:
        for k, (w_x, w_h, bias) in enumerate(ws):
            h, c = state[2 * k], state[2 * k + 1]
            i, f, g, o = np.split(x @ w_x.T + h @ w_h.T + bias, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            x = sigmoid(o) * np.tanh(c)
            state[2 * k : 2 * k + 2] = [x, c]
    return state
