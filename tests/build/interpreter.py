"""The meaning of control flow and data structures, as a walk over Relay in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_disc import relay
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.ops.table import OPS


def interpret(mod: Any, *args: Any) -> Any:
    """``mod["main"](*args)``."""
    return Machine(mod).call(mod["main"], {}, args)


class NoClause(Exception):
    """A match without a fitting clause."""


class Machine:
    """Values of expressions; ``mod`` has the functions that they name."""

    def __init__(self, mod: Any) -> None:
        self.mod = mod

    def call(self, func: Any, env: dict[int, Any], args: Sequence[Any]) -> Any:
        inner = {**env, **{id(p): a for p, a in zip(func.params, args, strict=True)}}
        return self.eval(func.body, inner)

    def eval(self, e: Any, env: dict[int, Any]) -> Any:
        memo: dict[int, Any] = {}
        while isinstance(e, relay.Let):
            env = dict(env)
            if isinstance(e.value, relay.Function):
                env[id(e.var)] = self.closure(e.value, env)
            elif self.wanted(e):
                env[id(e.var)] = self.node(e.value, env, memo)
            e = e.body
        return self.node(e, env, memo)

    def wanted(self, let: Any) -> bool:
        """Whether a value is computed that nothing may read."""
        return True

    def closure(self, func: Any, env: dict[int, Any]) -> Any:
        return lambda *args: self.call(func, env, args)

    def node(self, e: Any, env: dict[int, Any], memo: dict[int, Any]) -> Any:
        if id(e) in env:
            return env[id(e)]
        if id(e) not in memo:
            memo[id(e)] = self.fresh(e, env, memo)
        return memo[id(e)]

    def fresh(self, e: Any, env: dict[int, Any], memo: dict[int, Any]) -> Any:
        if isinstance(e, relay.Constant):
            return np.asarray(e.data)
        if isinstance(e, relay.Call):
            return self.apply(e, [self.node(a, env, memo) for a in e.args], env, memo)
        if isinstance(e, relay.If):
            taken = bool(self.node(e.cond, env, memo))
            return self.eval(e.true_branch if taken else e.false_branch, env)
        if isinstance(e, relay.Tuple):
            return tuple(self.node(f, env, memo) for f in e.fields)
        if isinstance(e, relay.TupleGetItem):
            return self.node(e.tuple_value, env, memo)[e.index]
        if isinstance(e, relay.Function):
            return self.closure(e, env)
        if isinstance(e, relay.GlobalVar):
            return lambda *args: self.call(self.mod[e.name_hint], {}, args)
        if isinstance(e, relay.Constructor):
            return lambda *args: relay.ConstructorValue(e.name_hint, *args)
        if isinstance(e, relay.RefCreate):
            return [self.node(e.value, env, memo)]
        if isinstance(e, relay.RefRead):
            return self.node(e.ref, env, memo)[0]
        if isinstance(e, relay.RefWrite):
            self.node(e.ref, env, memo)[0] = self.node(e.value, env, memo)
            return ()
        if isinstance(e, relay.Match):
            return self.match(e, self.node(e.data, env, memo), env)
        return self.eval(e, env)

    def apply(self, e: Any, args: list[Any], env: dict[int, Any], memo: dict[int, Any]) -> Any:
        if not isinstance(e.op, relay.Op):
            return self.node(e.op, env, memo)(*args)
        reference = OPS[e.op.name].reference
        assert reference is not None
        made = reference(*args, **complete_attrs(OPS[e.op.name], e.attrs))
        return tuple(map(np.asarray, made)) if isinstance(made, tuple) else np.asarray(made)

    def match(self, e: Any, data: Any, env: dict[int, Any]) -> Any:
        for clause in e.clauses:
            bound: dict[int, Any] = {}
            if fits(clause.lhs, data, bound):
                return self.eval(clause.rhs, {**env, **bound})
        raise NoClause


def fits(pattern: Any, value: Any, bound: dict[int, Any]) -> bool:
    """Whether a pattern accepts a value; its variables go into ``bound``."""
    if isinstance(pattern, relay.PatternVar):
        bound[id(pattern.var)] = value
    if isinstance(pattern, relay.PatternTuple):
        return all(fits(p, v, bound) for p, v in zip(pattern.patterns, value, strict=True))
    if isinstance(pattern, relay.PatternConstructor):
        if pattern.constructor.name_hint != value.constructor:
            return False
        return all(fits(p, v, bound) for p, v in zip(pattern.patterns, value.fields, strict=True))
    return True
