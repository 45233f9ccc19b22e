"""Steps of a random module that are no operator: branches, functions, loops, recursion, tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm_disc.relay.loops import while_loop

from tests.fuzz.values import ONE, WORLDS, Value, type_of
from tvm_disc import relay

if TYPE_CHECKING:
    from tests.fuzz.maker import Maker


def step(m: Maker) -> Value | None:
    """One of them, at random; None if it makes no sense here."""
    if not m.pool:
        return None
    kinds = (branch, branch, function, function, loop, recursion, grown, pair)
    return m.random.choice(kinds)(m)


def kind_of(m: Maker, value: Value, all_unknown: bool = False) -> Any:
    """A type of a variable that is to hold a value."""
    arrays = [r[0] for r in value.runs if r is not None]
    return type_of(arrays, m.inputs.rng, 1.0 if all_unknown else m.inputs.dynamic)


def condition(m: Maker) -> Any:
    """A truth value: an input, or asked of a value or of its size."""
    kind = m.random.randrange(3)
    value = m.latest(m.pool)[0]
    if kind == 0 or value.dtype == "bool":
        return m.input([np.array(m.flip()) for _ in range(WORLDS)]).expr
    if kind == 1:
        size = relay.op.ndarray_size(value.expr, dtype="int64")
        return relay.op.less(size, relay.const(m.random.choice((1, 4, 12)), "int64"))
    asked = relay.op.less(value.expr, relay.const(np.array(0, value.dtype), value.dtype))
    return relay.op.any(asked) if m.flip() else relay.op.all(asked)


def changed(m: Maker, value: Value, steps: int) -> Value:
    """A value of the same shape and type, some rows later."""
    for _ in range(4 * steps):
        made = m.row_step()
        if made is not None and made.dtype == value.dtype and made.dims == value.dims:
            value, steps = made, steps - 1
        if not steps:
            break
    return value


def branch(m: Maker) -> Value | None:
    """An if, whose branches compute; now and then of pairs."""
    value = m.latest(m.pool)[0]
    cond = condition(m)
    if m.know.value(cond) is None:
        return None
    sides = []
    pairs = m.flip(0.2)
    for _ in range(2):
        with m.scope([*m.pool, value]):
            made = changed(m, value, m.random.randint(0, 2)).expr
            sides.append(m.closed(relay.Tuple([made, value.expr]) if pairs else made))
    return m.add(relay.If(cond, *sides))


def function(m: Maker) -> Value | None:
    """A function of one or two values: called in place, bound and called, or of the module."""
    args = m.latest(m.pool)[: m.random.randint(1, 2)]
    params = [Value(relay.Var(m.name("p"), kind_of(m, a)), a.runs) for a in args]
    alone = m.flip(0.4)
    with m.scope(params if alone else [*m.pool, *params]):
        for param in params:
            m.know.learn(param)
        made = params[-1]
        for _ in range(m.random.randint(1, 3)):
            made = m.row_step() or made
        body = m.closed(made.expr)
    func = relay.Function([p.expr for p in params], body)
    given = [a.expr for a in args]
    if alone and not relay.free_vars(func):
        name = m.name("f")
        m.functions[name] = func
        return m.add(relay.Call(relay.GlobalVar(name), given))
    if m.flip():
        return m.add(relay.Call(func, given))
    var = relay.Var(m.name("f"))
    return m.add(relay.Let(var, func, relay.Call(var, given)))


def turns(m: Maker) -> Any:
    """How often: a constant or an input."""
    if m.flip(0.3):
        return relay.const(m.random.randint(0, 3), "int32")
    return m.input([np.array(m.random.randint(0, 3), "int32") for _ in range(WORLDS)]).expr


def state(m: Maker, value: Value) -> tuple[Any, Any, Any]:
    """(counter, variable of the state, its next value) of a loop over a value."""
    counter = relay.var(m.name("i"), shape=(), dtype="int32")
    var = Value(relay.Var(m.name("s"), kind_of(m, value)), value.runs)
    start = Value(counter, [[np.array(0, "int32")] * 3] * WORLDS)
    with m.scope([*m.pool, var]):
        m.know.learn(var)
        m.know.learn(start)
        body = m.closed(changed(m, var, m.random.randint(1, 2)).expr)
    return counter, var.expr, body


def loop(m: Maker) -> Value | None:
    """A loop that changes one value, and perhaps uses it no more."""
    value = m.latest(m.pool)[0]
    times = turns(m)
    counter, var, body = state(m, value)
    made = while_loop(
        lambda i, _: relay.op.less(i, times),
        [counter, var],
        lambda i, _: [relay.op.add(i, relay.const(1, "int32")), body],
    )
    return m.add(relay.Call(made, [relay.const(0, "int32"), value.expr]))


def recursion(m: Maker) -> Value | None:
    """A function of the module that calls itself."""
    value = m.latest(m.pool)[0]
    times = turns(m)
    counter, var, body = state(m, value)
    captured = [v for v in relay.free_vars(body) if v is not var and v is not counter]
    name = m.name("f")
    itself = relay.GlobalVar(name)
    down = relay.op.subtract(counter, relay.const(1, "int32"))
    again = relay.Call(itself, [down, body, *captured])
    done = relay.op.less(counter, relay.const(1, "int32"))
    if not all(v.type_annotation is not None for v in captured):
        return None  # a let of unknown type
    func = relay.Function(
        [counter, var, *captured], relay.If(done, var, again), var.type_annotation
    )
    m.functions[name] = func
    made = m.add(relay.Call(itself, [times, value.expr, *captured]))
    if made is None:
        del m.functions[name]
    return made


def grown(m: Maker) -> Value | None:
    """A loop whose value grows along its first axis."""
    values = [v for v in m.latest(m.pool) if v.dims]
    if not values:
        return None
    value = values[0]
    times = turns(m)
    more = m.fresh([ONE, *value.dims[1:]], value.dtype)
    counter = relay.var(m.name("i"), shape=(), dtype="int32")
    var = relay.Var(m.name("s"), kind_of(m, value, all_unknown=True))
    parts: Sequence[Any] = [var, more.expr] if m.flip() else [more.expr, var]
    made = while_loop(
        lambda i, _: relay.op.less(i, times),
        [counter, var],
        lambda i, _: [
            relay.op.add(i, relay.const(1, "int32")),
            relay.op.concatenate(relay.Tuple(parts), axis=0),
        ],
    )
    return m.add(relay.Call(made, [relay.const(0, "int32"), value.expr]))


def pair(m: Maker) -> Value | None:
    """A tuple of two values, bound, and one of them again."""
    two = m.latest(m.pool)[:2]
    made = relay.Tuple([v.expr for v in two])
    if m.flip():
        return m.add(relay.TupleGetItem(made, m.random.randrange(len(two))))
    var = relay.Var(m.name("t"))
    picked = relay.TupleGetItem(var, m.random.randrange(len(two)))
    return m.add(relay.Let(var, made, picked))
