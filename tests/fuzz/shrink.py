"""A case made small: fewer calls, outputs, operators, smaller dims, as long as it fails alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.fuzz.case import Case
from tests.fuzz.meaning import Undefined, evaluate
from tvm_disc import relay

Fails = Callable[[Case], bool]
ATTEMPTS, SECONDS = 120, 60.0


def smallest(case: Case, fails: Fails, attempts: int = ATTEMPTS, seconds: float = SECONDS) -> Case:
    """The least case that was found within so many attempts, and in about so much time.

    A case that hangs takes its whole limit in every attempt that fails alike.
    """
    left, end = attempts, time.monotonic() + seconds
    again = True
    while again:
        again = False
        for candidate in candidates(case):
            if left <= 0 or time.monotonic() > end:
                return case
            left -= 1
            if fails(candidate):
                case, again = candidate, True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Simpler cases, the much simpler ones first."""
    if len(case.worlds) > 1:
        for world in case.worlds:
            yield replace(case, worlds=[world])
    if case.constraints:
        yield replace(case, constraints=[])
    for name in [n for n in case.options if n != "threads"]:
        yield replace(case, options={k: v for k, v in case.options.items() if k != name})
    yield from _smaller_bodies(case)
    if len(case.worlds) == 1:
        yield from _smaller_dims(case)


def _smaller_bodies(case: Case) -> Iterator[Case]:
    module = case.module
    main = module["main"]
    nodes = [n for n in relay.post_order(main.body) if _is_work(n)]
    closed = [n for n in nodes if set(map(id, relay.free_vars(n))) <= set(map(id, main.params))]
    for node in closed:
        if node is not main.body and not _is_function(node):
            yield _with_body(case, module, node)
    for node in reversed(closed):
        made = _as_input(case, module, node)
        if made is not None:
            yield made
    for node in nodes:
        for other in _instead(node):
            yield _with_body(case, module, exchanged(main.body, node, other))


def _is_work(node: Any) -> bool:
    kinds = (relay.Call, relay.If, relay.Let, relay.TupleGetItem, relay.Tuple)
    return isinstance(node, kinds)


def _is_function(node: Any) -> bool:
    while isinstance(node, relay.Let):
        node = node.body
    return isinstance(node, relay.Function | relay.Var | relay.GlobalVar)


def _instead(node: Any) -> Iterator[Any]:
    """What may stand for a node: a part of it, or what it means written out."""
    if isinstance(node, relay.If):
        yield node.true_branch
        yield node.false_branch
    elif isinstance(node, relay.Let):
        yield exchanged(node.body, node.var, node.value)
    elif isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
        body = node.op.body
        for param, arg in zip(node.op.params, node.args, strict=True):
            body = exchanged(body, param, arg)
        yield body
    elif isinstance(node, relay.Call) and isinstance(node.op, relay.Op):
        yield from (a for a in node.args if not isinstance(a, relay.Constant))
    elif isinstance(node, relay.Tuple) and len(node.fields) > 1:
        for k in range(len(node.fields)):
            yield relay.Tuple([f for j, f in enumerate(node.fields) if j != k])
    elif isinstance(node, relay.TupleGetItem) and isinstance(node.tuple_value, relay.Tuple):
        yield node.tuple_value.fields[node.index]


def _with_body(case: Case, module: Any, body: Any, more: Any = ()) -> Case:
    main = module["main"]
    used = relay.free_vars(body)
    params = [p for p in [*main.params, *more] if p in used]
    functions = {g.name_hint: f for g, f in module.functions.items() if g.name_hint != "main"}
    called = _called(functions, body)
    made = relay.IRModule({**called, "main": relay.Function(params, body)})
    names = {p.name_hint for p in params}
    worlds = [{n: a for n, a in w.items() if n in names} for w in case.worlds]
    kept = [c for c in case.constraints if all(_name(t) in names for t in c.split() if "." in t)]
    return replace(case, text=relay.astext(made), worlds=worlds, constraints=kept)


def _name(term: str) -> str:
    return term.split(".")[0]


def _called(functions: dict[str, Any], body: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    todo = [body]
    while todo:
        for node in relay.post_order(todo.pop()):
            if isinstance(node, relay.GlobalVar) and node.name_hint not in found:
                found[node.name_hint] = functions[node.name_hint]
                todo.append(functions[node.name_hint])
    return found


def _as_input(case: Case, module: Any, node: Any) -> Case | None:
    """The case with what a node gives as an input of its own."""
    main = module["main"]
    arrays = []
    for world in case.worlds:
        env = {id(p): world[p.name_hint] for p in main.params}
        try:
            arrays.append(evaluate(node, env, module))
        except (Undefined, RecursionError):
            return None
    if not all(isinstance(a, np.ndarray | np.generic) for a in arrays):
        return None
    rank = np.ndim(arrays[0])
    name = _fresh(case)
    shape = tuple(relay.Any() for _ in range(rank))
    var = relay.var(name, shape=shape, dtype=str(arrays[0].dtype))
    if node is main.body:
        return None
    worlds = [{**w, name: np.asarray(a)} for w, a in zip(case.worlds, arrays, strict=True)]
    body = exchanged(main.body, node, var)
    return _with_body(replace(case, worlds=worlds), module, body, [var])


def _fresh(case: Case) -> str:
    names = case.worlds[0]
    return next(f"y{k}" for k in range(len(names) + 1) if f"y{k}" not in names)


def _smaller_dims(case: Case) -> Iterator[Case]:
    world = case.worlds[0]
    static = {
        d for p in case.module["main"].params for d in p.type_annotation.shape if isinstance(d, int)
    }
    sizes = {s for a in world.values() for s in a.shape} - static
    for size in sorted(sizes, reverse=True):
        for less in [k for k in (1, 2, size // 2, size - 1) if 0 < k < size]:
            cut = {n: _cut(a, size, less) for n, a in world.items()}
            yield replace(case, worlds=[cut])
    for name, array in world.items():
        if array.size and array.any() and array.dtype.kind == "f":
            yield replace(case, worlds=[{**world, name: np.ones_like(array)}])


def _cut(array: np.ndarray, size: int, less: int) -> np.ndarray:
    index = tuple(slice(less) if s == size else slice(None) for s in array.shape)
    return np.ascontiguousarray(array[index])


def exchanged(root: Any, target: Any, other: Any) -> Any:
    """``root`` with another node in the place of ``target``, what is shared still shared."""
    memo: dict[int, Any] = {id(target): other}

    def walk(node: Any) -> Any:
        if id(node) not in memo:
            memo[id(node)] = rebuilt(node)
        return memo[id(node)]

    def rebuilt(node: Any) -> Any:
        if isinstance(node, relay.Call):
            return relay.Call(walk(node.op), tuple(map(walk, node.args)), node.attrs)
        if isinstance(node, relay.Tuple):
            return relay.Tuple(tuple(map(walk, node.fields)))
        if isinstance(node, relay.TupleGetItem):
            return relay.TupleGetItem(walk(node.tuple_value), node.index)
        if isinstance(node, relay.If):
            return relay.If(walk(node.cond), walk(node.true_branch), walk(node.false_branch))
        if isinstance(node, relay.Let):
            return relay.Let(node.var, walk(node.value), walk(node.body))
        if isinstance(node, relay.Function):
            body = walk(node.body)
            return node if body is node.body else relay.Function(node.params, body, node.ret_type)
        return node

    return walk(root)
