"""What a module means in NumPy, and how far rounding may move it.

A program may round otherwise than NumPy does. So every operator is computed several times: as it
is, and with its results moved a little, as rounding would move them. The distance between the runs
says how far a float may be off; where an integer, a bool or a shape differs between them, the
answer depends on rounding, and nothing is compared.

With ``special``, NaN and infinities are values: each must be at the same positions in a result.
Integers that are computed from them are undefined, and so are overflows of 16-bit floats, which a
fused kernel may keep in 32 bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tests.build.interpreter import Machine
from tvm_disc import relay
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.ops.table import OPS
from tvm_disc.schedules.math.trigonometric import TRIG_LIMIT

RUNS = 3  # the first as NumPy computes it
REL = 1e-4  # of the largest element, beside the distance between the runs
LARGEST_FLOAT, LARGEST_INT, MOST_ELEMENTS, STEPS = 1e6, 1 << 24, 20_000, 4000

DIVISIONS = ("divide", "floor_divide", "floor_mod", "mod", "power", "trunc_divide", "trunc_mod")

# Products of infinities and sines, whose signs and zeros depend on rounding.
TRANSFORMS = ("dft", "stft")
# Programs and references multiply infinities by different zeros: those of padding, inserted rows,
# positions between elements, and of Winograd's transforms.
MANY_ZEROS = ("transpose", "deformable", "winograd")
# Of float32, defined below TRIG_LIMIT.
PERIODIC = ("cos", "sin", "tan")

# Not uint64: random states fill all of its bits.
WIDE = tuple(map(np.dtype, ("int32", "uint32", "int64")))

# A recursive function may go deeper than Python does.
UNDEFINED = (ArithmeticError, ValueError, TypeError, LookupError, MemoryError, RecursionError)

Env: TypeAlias = Mapping[int, Any]


class Undefined(Exception):
    """NumPy gives no answer, or none that can be compared."""


class Missing(Undefined):
    """An operand is undefined."""


MISSING = object()


class _Run(Machine):
    """One evaluation; ``number`` 0 moves nothing."""

    def __init__(self, mod: Any, number: int, seed: int, special: bool = False) -> None:
        super().__init__(mod)
        self.number, self.steps, self.special = number, 0, special
        self.rng = np.random.default_rng((number, seed))

    def node(self, e: Any, env: Any, memo: Any) -> Any:
        found = super().node(e, env, memo)
        if found is MISSING:
            raise Missing
        return found

    def wanted(self, let: Any) -> bool:
        """What nothing reads a program leaves out, be it illegal."""
        return let.var in relay.free_vars(let.body)

    def apply(self, e: Any, args: list[Any], env: Any, memo: Any) -> Any:
        self.steps += 1
        if self.steps > STEPS:
            raise Undefined("the module takes too many steps")
        try:
            made = super().apply(e, args, env, memo)
        except ValueError as error:
            if isinstance(e.op, relay.Op) and e.op.name in ("assert_inside", "assert_nonzero"):
                attrs = complete_attrs(OPS[e.op.name], e.attrs)
                if not attrs["default"]:
                    raise Undefined("a program may leave out this check") from error
            raise
        if not isinstance(e.op, relay.Op):
            return made
        flat = made if isinstance(made, tuple) else (made,)
        for array in flat:
            if self.special:
                comparable(e.op.name, array, _leaves(args))
            sane(array, self.special)
        if not self.number:
            return made
        scale = max((_size(a) for a in _leaves(args)), default=0.0)
        moved = tuple(self.moved(a, scale) for a in flat)
        return moved if isinstance(made, tuple) else moved[0]

    def moved(self, array: np.ndarray, scale: float) -> np.ndarray:
        """Floats as rounding might have left them; numbers of few bits are exact, unless they are
        what large ones have left."""
        if array.dtype.kind != "f" or (_short(array) and scale < LARGEST_FLOAT):
            return array
        step = max(3e-6, 2 * float(np.finfo(array.dtype).eps))
        room = np.abs(array) + 0.05 * max(scale, _size(array))
        noise = self.rng.uniform(-1, 1, array.shape) * step * room
        moved = np.asarray(array + noise).astype(array.dtype)
        return np.where(np.isfinite(array), moved, array)


class _Lazy(_Run):
    """An evaluation in which undefined fields of a tuple are missing."""

    def fresh(self, e: Any, env: Any, memo: Any) -> Any:
        if not isinstance(e, relay.Tuple):
            return super().fresh(e, env, memo)
        return tuple(self.field(f, env, memo) for f in e.fields)

    def field(self, e: Any, env: Any, memo: Any) -> Any:
        try:
            return self.node(e, env, memo)
        except (Undefined, *UNDEFINED, Warning):
            return MISSING

    def apply(self, e: Any, args: list[Any], env: Any, memo: Any) -> Any:
        if isinstance(e.op, relay.Op) and MISSING in _flat(args):
            raise Missing
        return super().apply(e, args, env, memo)


def evaluate(
    expr: Any,
    env: Env,
    mod: Any = None,
    number: int = 0,
    seed: int = 0,
    special: bool = False,
    kind: type[_Run] = _Run,
) -> Any:
    """The value of an expression where ``env`` has those of some of its nodes, by ``id``.

    raises: Undefined.
    """
    told = "ignore" if special else "warn"
    with warnings.catch_warnings(), np.errstate(all="ignore", invalid=told, divide=told):
        warnings.simplefilter("error")
        try:
            return kind(mod, number, seed, special).eval(expr, dict(env))
        except Undefined:
            raise
        except (*UNDEFINED, Warning) as error:
            raise Undefined(f"{type(error).__name__}: {error}") from error


def call(
    mod: Any, inputs: Mapping[str, np.ndarray], seed: int = 0, special: bool = False
) -> list[Any]:
    """The results of ``main`` in every run. raises: Undefined."""
    main = mod["main"]
    env = {id(p): inputs[p.name_hint] for p in main.params}
    return [evaluate(main.body, env, mod, number, seed, special) for number in range(RUNS)]


def unread(mod: Any, inputs: Mapping[str, np.ndarray], special: bool = False) -> bool:
    """Whether a module without an answer has one if unread fields of tuples may be undefined.

    A program leaves out what nothing reads.
    """
    main = mod["main"]
    env = {id(p): inputs[p.name_hint] for p in main.params}
    try:
        found = evaluate(main.body, env, mod, special=special, kind=_Lazy)
    except Undefined:
        return False
    return MISSING not in _flat(found)


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, tuple | list):
        return [] if isinstance(value, np.ndarray) else [value]
    return [leaf for field in value for leaf in _flat(field)]


def sane(array: np.ndarray, special: bool = False) -> None:
    """raises: Undefined where sizes or numbers grow beyond what is worth comparing."""
    if array.size > MOST_ELEMENTS:
        raise Undefined("large array")
    if array.dtype.kind == "f" and not special and not np.isfinite(array).all():
        raise Undefined("not finite")
    if array.dtype.kind == "f" and _size(array) > LARGEST_FLOAT:
        raise Undefined("large numbers")
    if array.dtype in WIDE and _size(array) > LARGEST_INT:
        raise Undefined("large numbers")


def comparable(name: str, made: np.ndarray, args: Sequence[Any]) -> None:
    """raises: Undefined where NaN and infinities leave the result of an operator undefined."""
    arrays = [np.asarray(a) for a in args]
    finite = all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")
    if made.dtype.kind in "iu" and not finite:
        raise Undefined(f"{name}: integers from numbers that are not finite")
    if name in TRANSFORMS and any(np.isinf(a).any() for a in arrays):
        raise Undefined(f"{name}: infinities depend on the rounding of sines")
    if not finite and any(part in name for part in MANY_ZEROS) and name.startswith("nn."):
        raise Undefined(f"{name}: infinities meet zeros")
    if name in PERIODIC and made.dtype == np.float32 and _size(arrays[0]) >= TRIG_LIMIT:
        raise Undefined(f"{name}: large arguments")
    if made.dtype.itemsize == 2 and finite and not np.isfinite(made).all():
        raise Undefined(f"{name}: overflow of a 16-bit float")
    divides = name in DIVISIONS and made.dtype.kind in "iu"
    if divides and not np.asarray(arrays[1]).all():
        raise Undefined(f"{name}: division of integers by zero")


def stable(runs: list[Any]) -> bool:
    """Whether the runs agree but for small distances of floats."""
    first, *others = ([np.asarray(a) for a in _leaves([r])] for r in runs)
    for other in others:
        for a, b in zip(first, other, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype:
                return False
            if a.dtype.kind == "f":
                if not _same_special(a, b):
                    return False
                near = np.abs(_finite(a) - _finite(b))
                if near.size and not near.max() <= 0.01 * max(1.0, _size(a)):
                    return False
            elif not np.array_equal(a, b):
                return False
    return True


def difference(found: Any, runs: list[Any]) -> str | None:
    """How a result differs from what it may be; None if it does not."""
    results = [_leaves([r]) for r in runs]
    mine = _leaves([found])
    if len(mine) != len(results[0]):
        return f"{len(mine)} results, expected {len(results[0])}"
    for k, (a, *wanted) in enumerate(zip(mine, *results, strict=True)):
        told = _different(np.asarray(a), [np.asarray(w) for w in wanted])
        if told is not None:
            return f"result {k}: {told}"
    return None


def _different(a: np.ndarray, wanted: list[np.ndarray]) -> str | None:
    b = wanted[0]
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
    if b.dtype.kind != "f":
        if np.array_equal(a, b):
            return None
        at = tuple(int(i) for i in np.argwhere(a != b)[0])
        return f"{a[at]} at {at}, expected {b[at]}; {np.sum(a != b)} of {a.size} differ"
    exact = [_finite(w) for w in wanted]
    spread = np.max([np.abs(w - exact[0]) for w in exact], axis=0)
    rel = max(REL, 20 * float(np.finfo(b.dtype).eps))
    room = 8 * spread + rel * max(1.0, _size(b))
    # A finite number instead of NaN or an infinity is as wrong as the reverse.
    far = ~_where_same_special(a, b) | (np.abs(_finite(a) - exact[0]) > room)
    if not far.any():
        return None
    at = tuple(int(i) for i in np.argwhere(far)[0])
    return f"{a[at]} at {at}, expected {b[at]} +- {room[at]:.2g}; {far.sum()} of {a.size} differ"


def _leaves(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _leaves(value) if isinstance(value, tuple | list) else [value]
    return [v for v in found if not callable(v)]


def _size(array: Any) -> float:
    """The largest absolute value of the finite elements."""
    return float(np.max(np.abs(_finite(np.asarray(array))), initial=0.0))


def _finite(array: np.ndarray) -> np.ndarray:
    """The elements in 64 bits, with zero for NaN and infinities."""
    wide = array.astype("float64")
    return np.where(np.isfinite(wide), wide, 0.0)


def _where_same_special(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where both are finite, both NaN, or the same infinity."""
    a, b = a.astype("float64"), b.astype("float64")
    return np.asarray((np.isfinite(a) & np.isfinite(b)) | (a == b) | (np.isnan(a) & np.isnan(b)))


def _same_special(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(_where_same_special(a, b).all())


def _short(array: np.ndarray) -> bool:
    """Whether all numbers have few bits, as sums and products of inputs have."""
    scaled = array.astype("float64") * 4096
    return bool((scaled == np.round(scaled)).all() and _size(array) < 2048)
