"""Calls of the operator table's rows with operands at hand: what a sample asks for, and variations.

A sample says which ranks, dims and element types a row takes, what its contents may be, and gives
attributes. Operands are found among the values of a module, or become inputs. Variations change
numbers of the sample, types and attributes; the row's reference says whether they make sense.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.build.cases import PREPARED, tensors
from tests.fuzz.values import MOST_RANK, ONE, WORLDS, Dim, Value, fixed
from tests.relay.samples import DEFAULT_SIZES, Sample, samples_of, symbols
from tvm_disc import relay
from tvm_disc.relay.attrs import AttrError, complete_attrs
from tvm_disc.relay.ops.row import FusionClass, OpRow
from tvm_disc.relay.ops.table import OPS

if TYPE_CHECKING:
    from tests.fuzz.maker import Maker

ROWS = [
    r for r in OPS.values() if (r.lower or r.value) and samples_of(r) and r.reference is not None
]
_OTHER_TYPES = {
    "float32": ("float64", "float64", "float16", "int32"),
    "int64": ("int32",),
    "int32": ("int64",),
    "bool": (),
}
LOW, HIGH = -2.0, 3.0  # of contents that a sample says nothing of


@dataclass(frozen=True)
class Slot:
    """An argument of a sample that a value could be."""

    row: OpRow
    sample: Sample
    position: int

    @property
    def spec(self) -> Any:
        """Dims and element type."""
        return self.sample.inputs[self.position]


def is_parts(spec: Any) -> bool:
    """Whether a spec is of a tuple of tensors."""
    return bool(spec) and isinstance(spec[0], tuple)


def _slots() -> Iterator[Slot]:
    for row in ROWS:
        for sample in samples_of(row):
            for position, spec in enumerate(sample.inputs):
                if position not in sample.values and not is_parts(spec):
                    yield Slot(row, sample, position)


SLOTS = tuple(_slots())


def seen_attrs() -> Mapping[str, list[Any]]:
    """The values that attributes of a name have in samples and as defaults."""
    found: dict[str, list[Any]] = {}
    for row in ROWS:
        for attrs in (row.attrs, *(s.attrs for s in samples_of(row))):
            for name, value in attrs.items():
                known = found.setdefault(name, [])
                if value not in known and not repr(value).startswith("REQUIRED"):
                    known.append(value)
    return found


SEEN = seen_attrs()


class Binding:
    """One call of a row in the making."""

    def __init__(self, maker: Maker, row: OpRow, sample: Sample) -> None:
        self.maker, self.row, self.sample = maker, row, sample
        self.random: random.Random = maker.random
        self.bound: dict[str, Dim] = {}
        self.attrs = dict(sample.attrs)
        self.sure = True
        self.wild = maker.flip(0.15)
        self.far = maker.flip(0.3)
        self.lifts = maker.flip(0.3)
        self.flat = maker.flip(0.1)
        self.types: dict[str, str] = {}
        self.sizes: dict[int, int] = {}
        self.thin: Any = None
        self.given: dict[int, Value] = {}

    def vary(self) -> None:
        """Change types, numbers of dims, ranks and attributes now and then."""
        if self.maker.flip(0.1):
            for name, others in _OTHER_TYPES.items():
                if others and self.maker.flip():
                    self.types[name] = self.random.choice(others)
            self.sure = False
        if self.maker.flip(0.1):
            numbers = [d for s in self._specs() for d in s[:-1] if isinstance(d, int)]
            if numbers:
                self.sizes[self.random.choice(numbers)] = self.random.choice((0, 1, 1, 2, 7, 16))
                self.sure = False
        specs = list(self._specs())
        if specs and self.maker.flip(0.04):
            self.thin = self.random.choice(specs)
            self.sure = False
        if self.attrs_at_hand() and self.maker.flip(0.45):
            names = self.attrs_at_hand()
            several = min(self.random.choice((1, 1, 1, 2, 3)), len(names))
            for name in self.random.sample(names, several):
                self.attrs[name] = self.other(name)
            self.sure = False

    def _specs(self) -> Iterator[Any]:
        """The specs of all tensors."""
        for spec in self.sample.inputs:
            yield from (spec if is_parts(spec) else [spec])

    def attrs_at_hand(self) -> list[str]:
        """The attributes that have a value to change."""
        return [n for n, v in self.row.attrs.items() if n in self.attrs or n in SEEN]

    def other(self, name: str) -> Any:
        """Another value of an attribute."""
        now = self.attrs.get(name, self.row.attrs[name])
        if isinstance(now, bool):
            return not now
        if isinstance(now, int) and self.maker.flip(0.8):
            return now + self.random.choice((-3, -2, -1, 1, 2, 3))
        if isinstance(now, tuple) and now and self.maker.flip(0.45):
            return self._edges(now)
        if isinstance(now, tuple) and now and self.maker.flip(0.8):
            return self._other_tuple(now)
        return self.random.choice(SEEN[name] or [now])

    def _edges(self, now: tuple[Any, ...]) -> tuple[Any, ...]:
        """Numbers exchanged for ends of axes, most often one of them."""
        at, all_of_them = self.random.randrange(len(now)), self.maker.flip(0.2)
        return tuple(
            self.random.choice(self.maker.edge())
            if type(v) is int and (all_of_them or k == at)
            else v
            for k, v in enumerate(now)
        )

    def _other_tuple(self, now: tuple[Any, ...]) -> tuple[Any, ...]:
        items = list(now)
        kind = self.random.randrange(4)
        at = self.random.randrange(len(items))
        if kind == 0:
            self.random.shuffle(items)
        elif kind == 1 and isinstance(items[at], int):
            items[at] += self.random.choice((-9, -5, -2, -1, 1, 2, 5))
        elif kind == 2 and isinstance(items[at], tuple) and items[at]:
            items[at] = self._other_tuple(items[at])
        elif kind == 3:
            del items[at]
        return tuple(items)

    def anchor(self, value: Value, position: int) -> bool:
        """Make a value the operand at a position, if it fits."""
        spec = self.sample.inputs[position]
        if value.dtype != spec[-1]:
            self.types[spec[-1]] = value.dtype
            self.sure = False
        if not self.fits(value, self.dims(spec), position):
            return False
        self.given[position] = value
        return True

    def dims(self, spec: Any) -> list[Any]:
        """The dims of a spec: others where numbers are changed, symbols where the call is lifted,
        one less of what is made thin."""
        found = [self.sizes.get(d, d) for d in spec[:-1]]
        if spec is self.thin:
            del found[:1]
        return [f"#{d}" if self.lifts and isinstance(d, int) and d > 1 else d for d in found]

    def dtype(self, spec: Any) -> str:
        """The element type of a spec in this call."""
        return self.types.get(spec[-1], spec[-1])

    def fits(self, value: Value, dims: Sequence[Any], position: int) -> bool:
        """Whether a value can be an operand; binds the symbols if so."""
        actual = value.dims
        if len(actual) != len(dims):
            return False
        trial = dict(self.bound)
        for wanted, size in zip(dims, actual, strict=True):
            if isinstance(wanted, str):
                if trial.setdefault(wanted, size) != size:
                    return False
            elif size != fixed(wanted):
                return False
        low, high = self.range(position)
        if position in self.sample.ranges and not value.within(low, high):
            return False
        self.bound = trial
        return True

    def range(self, position: int) -> tuple[float, float]:
        """Lower and upper end of an operand's contents."""
        low, high = self.sample.ranges.get(position, (LOW, HIGH))
        spec = self.sample.inputs[position]
        integers = not is_parts(spec) and np.dtype(spec[-1]).kind == "i"
        if self.wild and integers and position in self.sample.ranges:
            # A little beyond both ends, or all of them far behind: as many bits as there are.
            return (low + 64, high + 64) if self.far else (low - 3, high + 3)
        return low, high

    def size_of(self, symbol: Any) -> Dim:
        """The dim of a symbol, chosen when first asked for."""
        if isinstance(symbol, int):
            return fixed(symbol)
        if symbol not in self.bound:
            self.bound[symbol] = self._new_dim(symbol)
        return self.bound[symbol]

    def _new_dim(self, symbol: str) -> Dim:
        names = symbols(self.sample)
        special = self.sample.sizes != DEFAULT_SIZES
        if symbol in names and self.maker.flip(0.8 if special else 0.15):
            at = names.index(symbol)
            column = [s[at] for s in self.sample.sizes if at < len(s)] or [2]
            return tuple(self.random.choice(column) for _ in range(WORLDS))
        if symbol.startswith("#") and self.maker.flip(0.4):
            return fixed(int(symbol[1:]))
        if self.flat and self.maker.flip(0.7):
            return ONE
        return self.maker.some_dim()

    def operand(self, position: int) -> Any:
        """The expression of one argument. None if there is none."""
        spec = self.sample.inputs[position]
        if position in self.given:
            return self.given[position].expr
        if position in self.sample.values:
            return self._contents(position, spec)
        if is_parts(spec):
            parts = [self._tensor(s, position) for s in spec]
            return relay.Tuple([p.expr for p in parts])
        return self._tensor(spec, position).expr

    def _tensor(self, spec: Any, position: int) -> Value:
        dims, dtype = self.dims(spec), self.dtype(spec)
        pool = self.maker.latest([v for v in self.maker.pool if v.dtype == dtype])
        if self.maker.flip(0.75):
            for value in pool:
                if self.fits(value, dims, position):
                    return value
        sizes = [self.size_of(d) for d in dims]
        return self.maker.fresh(sizes, dtype, *self.range(position))

    def _contents(self, position: int, spec: Any) -> Any:
        """An argument whose contents a sample gives: a constant, an input, or computed of dims."""
        values = self.sample.values[position]
        if is_parts(spec):
            parts = zip(values, spec, strict=True)
            return relay.Tuple([relay.const(np.array(v, s[-1]), s[-1]) for v, s in parts])
        items = list(values) if isinstance(values, tuple) else [values]
        others = self.wild and not isinstance(values, str)
        columns = [self._other_column(v) if others else self._column(v) for v in items]
        dtype = self.dtype(spec)
        rows = [np.array(row).astype(dtype) for row in zip(*columns, strict=True)] or [
            np.zeros(0, dtype)
        ] * WORLDS
        arrays = [r if isinstance(values, tuple) else r.reshape(()) for r in rows]
        same = all(np.array_equal(a, arrays[0]) for a in arrays)
        if same and self.maker.flip(0.6):
            return relay.const(arrays[0], dtype)
        computed = None if same or self.maker.flip(0.3) else self._computed(columns, dtype)
        if computed is None:
            # A quantised operator may ask for constants, as its message says.
            self.sure = self.sure and not self.row.name.startswith("qnn.")
            value = self.maker.input(arrays)
            return value.expr
        return computed if isinstance(values, tuple) else relay.op.take(computed, relay.const(0))

    def _column(self, value: Any) -> Any:
        """A number or a symbol of a sample in every world."""
        return self.size_of(value) if isinstance(value, str) else (value,) * WORLDS

    def _other_column(self, value: Any) -> Any:
        """Another number than a sample says, often at the ends of an axis or just beyond."""
        if not isinstance(value, int) or isinstance(value, bool) or self.maker.flip():
            return self._column(value)
        if self.maker.flip():
            return self.maker.edge()
        return (value + self.random.choice((-20, -9, -3, -1, 1, 2, 9)),) * WORLDS

    def _computed(self, columns: Sequence[Dim], dtype: str) -> Any:
        parts = []
        for column in columns:
            if len(set(column)) == 1:
                parts.append(relay.const(np.array(column[0], dtype), dtype))
                continue
            axes = [(v, a) for v in self.maker.pool for a, d in enumerate(v.dims) if d == column]
            if not axes:
                return None
            value, axis = self.random.choice(axes)
            sizes = relay.op.shape_of(value.expr, dtype=dtype)
            parts.append(relay.op.take(sizes, relay.const(axis, "int64"), axis=0))
        return relay.op.stack(parts, axis=0)

    def call(self) -> Any:
        """The call; None if it cannot be made."""
        try:
            attrs = complete_attrs(self.row, self.attrs)
        except AttrError:
            return None
        args = [self.operand(k) for k in range(len(self.sample.inputs))]
        if self.lifts and any(
            s.startswith("#") and d != fixed(int(s[1:])) for s, d in self.bound.items()
        ):
            self.sure = False
        self.sure = self.sure and not self.wild and not self._odd_sizes()
        return relay.Call(relay.op.get(self.row.name), args, attrs)

    def _odd_sizes(self) -> bool:
        """Whether a sample that says which sizes make sense has others here."""
        if self.sample.sizes == DEFAULT_SIZES:
            return any(-1 in d for d in self.bound.values())
        for at, name in enumerate(symbols(self.sample)):
            column = {s[at] for s in self.sample.sizes if at < len(s)}
            if not set(self.bound.get(name, ())) <= column:
                return True
        return False


def prepared(maker: Maker, row: OpRow, sample: Sample) -> Any:
    """A call of a row whose inputs must have a certain form, all of them inputs of the module."""
    names = symbols(sample)
    rows = [maker.random.choice(sample.sizes) for _ in range(WORLDS)]
    envs = [dict(zip(names, sizes, strict=False)) for sizes in rows]
    given = [tensors(row, sample, env, seed)[0] for seed, env in enumerate(envs)]
    args = []
    for position, spec in enumerate(sample.inputs):
        column = [g[position] for g in given]
        if is_parts(spec):
            parts = [maker.input([c[k] for c in column]) for k in range(len(spec))]
            args.append(relay.Tuple([p.expr for p in parts]))
        elif position in sample.values and all(np.array_equal(c, column[0]) for c in column):
            args.append(relay.const(column[0], str(column[0].dtype)))
        else:
            args.append(maker.input(column).expr)
    return relay.Call(relay.op.get(row.name), args, complete_attrs(row, sample.attrs))


def anyhow(maker: Maker, value: Value, row: OpRow) -> Any:
    """An element-wise row of a value of any rank, a broadcasting one of two."""
    expr = value.expr
    if len(row.args) == 2:
        other = partner(maker, value)
        pair = [value, other] if maker.flip() else [other, value]
        return relay.Call(relay.op.get(row.name), [v.expr for v in pair], complete_attrs(row, {}))
    samples = [s for s in samples_of(row) if s.inputs[0][-1] == value.dtype] or samples_of(row)
    attrs = maker.random.choice(samples).attrs
    return relay.Call(relay.op.get(row.name), [expr], complete_attrs(row, attrs))


def takes_anything(row: OpRow) -> bool:
    """Whether a row takes operands of any rank: its class says so, and it has no axes."""
    return (row.pattern is FusionClass.ELEMWISE and len(row.args) == 1) or (
        row.pattern is FusionClass.BROADCAST and len(row.args) == 2 and not row.attrs
    )


def partner(maker: Maker, value: Value) -> Value:
    """What broadcasts against a value: as large, smaller, with ones, or with ones now and then."""
    same = [v for v in maker.pool if v.dims == value.dims and v.dtype == value.dtype]
    if same and maker.flip(0.6):
        return maker.random.choice(same)
    dims = list(value.dims)
    if len(dims) < MOST_RANK and maker.flip(0.1):
        dims = [maker.some_dim(), *dims]
    keep = maker.random.randint(0, len(dims))
    made: list[Dim] = []
    for dim in dims[len(dims) - keep :]:
        kind = maker.random.randrange(5)
        sometimes = tuple(d if maker.flip() else 1 for d in dim)
        made.append(ONE if kind == 0 else sometimes if kind == 1 else dim)
    low, high = (1.0, 4.0) if maker.flip() else (LOW, HIGH)
    return maker.fresh(made, value.dtype, low, high)


def is_prepared(row: OpRow) -> bool:
    """Whether inputs of a row must have a form that contents at random do not have."""
    return row.name in PREPARED
