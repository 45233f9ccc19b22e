"""Random well-typed modules over the rows of the operator table."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.fuzz import control, rows, sizes
from tests.fuzz.case import Case
from tests.fuzz.odd import around
from tests.fuzz.values import (
    MOST_RANK,
    WORLDS,
    Dim,
    Inputs,
    Knowledge,
    Value,
    basic_dims,
    fixed,
)
from tests.relay.samples import samples_of
from tvm_disc import relay
from tvm_disc.relay.ops.row import OpRow

CONTROL = 0.12  # the share of steps that are no operator
SIZES = 0.08  # the share of steps that compute a size, in modules of the whole table
TRIES = 12  # of one step


class Maker:
    """Grows a module step by step; ``seed`` makes it again."""

    def __init__(self, seed: int, table: Sequence[OpRow] = rows.ROWS) -> None:
        self.seed, self.table = seed, table
        self.random = random.Random(seed)
        self.functions: dict[str, relay.Function] = {}
        dynamic = self.random.choice((0.0, 0.3, 1.0))
        numbers = np.random.default_rng(seed)
        self.inputs = Inputs(numbers, basic_dims(self.random), dynamic)
        self.know = Knowledge(self.functions, self.inputs.params)
        self.pool: list[Value] = []
        self.lets: list[tuple[Any, Any]] = []
        self.hollow = self.flip(0.1)  # dims that are known to be 0 come often
        if self.hollow:
            self.inputs.dynamic = 0.0
        self.sure = True
        self.used: list[str] = []
        self._names = 0

    def make(self) -> Case:
        """A case; one of an input alone where nothing else was possible."""
        for _ in range(self.random.randint(1, 3)):
            rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
            dtype = self.random.choice(("float32", "float32", "float32", "int32", "int64", "bool"))
            self.fresh([self.some_dim() for _ in range(rank)], dtype)
        for _ in range(self.random.choice((1, 1, 2, 2, 3, 4, 5, 6, 8, 10))):
            self.step()
        body = self._body()
        used = relay.free_vars(body)
        params = [p for p in self.inputs.params if p in used]
        main = relay.Function(params, body)
        module = relay.IRModule({**self.functions, "main": main})
        names = [p.name_hint for p in params]
        worlds = [{n: world[n] for n in names} for world in self.inputs.data]
        return Case(
            relay.astext(module),
            worlds,
            self._constraints(params),
            self._options(),
            self.sure,
            self.seed,
        )

    # -- choices

    def flip(self, chance: float = 0.5) -> bool:
        """True with a chance."""
        return self.random.random() < chance

    def name(self, start: str) -> str:
        """A name that no other variable has."""
        self._names += 1
        return f"{start}{self._names}"

    def latest(self, values: Sequence[Value]) -> list[Value]:
        """Values in random order, late ones more often first."""
        order = sorted(range(len(values)), key=lambda k: self.random.random() * (k + 1))
        return [values[k] for k in reversed(order)]

    def some_dim(self) -> Dim:
        """A basic dim, one that something has already, or a number."""
        basics = self.inputs.basics
        kind = self.random.random()
        if kind < (0.2 if self.hollow else 0.6):
            return self.random.choice(basics)
        if kind < 0.75 and self.pool:
            dims = [d for v in self.pool for d in v.dims if -1 not in d and max(d) < 70]
            if dims:
                return self.random.choice(dims)
        numbers = (1, 0, 0, 3) if self.hollow else (1, 2, 4, 5)
        return fixed(self.random.choice(numbers))

    def edge(self) -> Dim:
        """A position per world at an end of an axis that something has, or just outside of it."""
        dims = [d for v in self.pool for d in v.dims if -1 not in d] or self.inputs.basics
        dim, at = self.random.choice(dims), self.random.randrange(5)
        return tuple(around(size)[at] for size in dim)

    # -- values

    def input(self, arrays: Sequence[np.ndarray]) -> Value:
        """A new input with these contents."""
        value = self.inputs.add(arrays)
        self.know.learn(value)
        self.pool.append(value)
        return value

    def fresh(
        self, dims: Sequence[Dim], dtype: str, low: float = rows.LOW, high: float = rows.HIGH
    ) -> Value:
        """A new input, or a constant where its shape is known."""
        arrays = self.inputs.numbers(dims, dtype, low, high)
        if len({a.shape for a in arrays}) > 1 or not self.flip(0.3):
            return self.input(arrays)
        value = Value(relay.const(arrays[0], dtype), [[arrays[0]] * 3] * WORLDS)
        self.know.learn(value)
        self.pool.append(value)
        return value

    def add(self, expr: Any, undefined: int = 0) -> Value | None:
        """Take an expression among the values, its last result if it has several."""
        found = self.know.value(expr, undefined)
        if found is None:
            return None
        values = [found]
        if isinstance(found.first, tuple):
            self.know.learn(found)
            values = [
                Value(relay.TupleGetItem(expr, k), [_items(r, k) for r in found.runs])
                for k in range(len(found.first))
            ]
        if any(not isinstance(v.first, np.ndarray | np.generic) for v in values):
            return None
        ranks = [{np.ndim(r[0]) for r in v.runs if r is not None} for v in values]
        if any(len(r) > 1 or max(r) > MOST_RANK for r in ranks):
            return None
        for value in values:
            if self.flip(0.15):
                var = relay.Var(self.name("v"))
                self.lets.append((var, value.expr))
                value.expr = var
            self.know.learn(value)
            self.pool.append(value)
        return values[-1]

    @contextmanager
    def scope(self, pool: Sequence[Value]) -> Iterator[None]:
        """Values made inside stay inside."""
        outer, self.pool = self.pool, list(pool)
        lets, self.lets = self.lets, []
        mark = self.know.mark()
        yield
        self.know.forget(mark)
        self.pool, self.lets = outer, lets

    def closed(self, expr: Any) -> Any:
        """An expression under the lets of the scope."""
        for var, value in reversed(self.lets):
            expr = relay.Let(var, value, expr)
        return expr

    # -- steps

    def step(self) -> Value | None:
        """Add something; None if nothing was possible."""
        if self.flip(CONTROL):
            made = control.step(self)
            if made is not None:
                return made
        if len(self.table) == len(rows.ROWS) and self.flip(SIZES):
            made = sizes.step(self)
            if made is not None:
                return made
        for _ in range(TRIES):
            made = self.row_step()
            if made is not None:
                return made
        return None

    def row_step(self) -> Value | None:
        """One call of a row, if what was chosen makes sense."""
        kind = self.random.random()
        undefined = int(self.flip(0.3))
        if kind < 0.2 and self.pool:
            return self._anyhow(undefined)
        if kind < 0.65 and self.pool:
            value = self.latest(self.pool)[0]
            slot = self._slot(value)
            if slot is not None:
                return self._bind(slot.row, slot.sample, undefined, value, slot.position)
        row = self.random.choice(self.table)
        sample = self.random.choice(samples_of(row))
        if rows.is_prepared(row):
            return self._taken(row, rows.prepared(self, row, sample), undefined, True)
        return self._bind(row, sample, undefined)

    def _anyhow(self, undefined: int) -> Value | None:
        value = self.latest(self.pool)[0]
        fitting = [r for r in self.table if rows.takes_anything(r) and _takes(r, value.dtype)]
        if not fitting:
            return None
        row = self.random.choice(fitting)
        expr = rows.anyhow(self, value, row)
        sure = any(s.inputs[0][-1] == value.dtype for s in samples_of(row))
        return self._taken(row, expr, undefined, sure and -1 not in sum(value.dims, ()))

    def _slot(self, value: Value) -> rows.Slot | None:
        """A row and an argument that a value fits; every row is as likely."""
        names = {r.name for r in self.table}
        fitting: dict[str, list[rows.Slot]] = {}
        for slot in rows.SLOTS:
            same = slot.spec[-1] == value.dtype or self.flip(0.05)
            if same and len(slot.spec) - 1 == len(value.dims) and slot.row.name in names:
                fitting.setdefault(slot.row.name, []).append(slot)
        if not fitting:
            return None
        return self.random.choice(fitting[self.random.choice(list(fitting))])

    def _bind(
        self,
        row: OpRow,
        sample: Any,
        undefined: int,
        value: Value | None = None,
        position: int = 0,
    ) -> Value | None:
        if rows.is_prepared(row):
            return None
        binding = rows.Binding(self, row, sample)
        binding.vary()
        if value is not None and not binding.anchor(value, position):
            return None
        call = binding.call()
        if call is None:
            return None
        return self._taken(row, call, undefined or int(binding.wild), binding.sure)

    def _taken(self, row: OpRow, call: Any, undefined: int, sure: bool) -> Value | None:
        try:
            made = self.add(call, undefined)
        except (TypeError, AttributeError, KeyError, AssertionError):
            return None  # a reference for other attributes or types than these
        if made is not None:
            self.used.append(row.name)
            self.sure = self.sure and sure and -1 not in sum(made.dims, ())
        return made

    # -- the module as a whole

    def _body(self) -> Any:
        inputs = {id(p) for p in self.inputs.params}
        made = [v for v in self.pool if id(v.expr) not in inputs and not _is_constant(v)]
        pool = self.pool if not made or self.flip(0.05) else made
        late = self.latest(pool[-6:])[: self.random.choice((1, 1, 2, 3))]
        exprs = [v.expr for v in late]
        if len(exprs) == 1:
            return self.closed(exprs[0])
        if len(exprs) == 3 and self.flip(0.3):
            return self.closed(relay.Tuple([relay.Tuple(exprs[:2]), exprs[2]]))
        return self.closed(relay.Tuple(exprs))

    def _constraints(self, params: Sequence[Any]) -> list[str]:
        """Facts that hold in all worlds, said for some modules."""
        if not self.flip(0.25):
            return []
        dims = [
            (f"{p.name_hint}.{k}", tuple(w[p.name_hint].shape[k] for w in self.inputs.data))
            for p in params
            for k, d in enumerate(p.type_annotation.shape)
            if isinstance(d, relay.Any)
        ]
        found = [f"{a} == {b}" for a, x in dims for b, y in dims if a < b and x == y]
        found += [f"{min(x)} <= {a} <= {max(x) + 5}" for a, x in dims]
        found += [
            f"{a} % {k} == 0" for a, x in dims for k in (2, 3, 4) if not any(d % k for d in x)
        ]
        self.random.shuffle(found)
        return found[:2]

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"threads": self.random.choice((1, 2, 3))}
        if self.flip(0.1):
            options["fuse"] = False
        if self.flip(0.1):
            options["target"] = self.random.choice(("x86-64-v3", "x86-64-v2"))
        return options


def _is_constant(value: Value) -> bool:
    return isinstance(value.expr, relay.Constant)


def _items(runs: list[Any] | None, k: int) -> list[Any] | None:
    return None if runs is None else [r[k] for r in runs]


def _takes(row: OpRow, dtype: str) -> bool:
    """Whether a sample has the element type, or another of integers for integers."""
    kinds = {s.inputs[0][-1] for s in samples_of(row)}
    return dtype in kinds or ("int" in dtype and any("int" in k for k in kinds))
