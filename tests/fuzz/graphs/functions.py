"""Random JAX functions of symbolic shapes: steps, each of which appends values to an environment.

JAX's own shape rules decide on specifications with symbols whether a step fits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from tests.fuzz.graphs.draws import Draws, Unusable

Work = Callable[..., Any]


@dataclass
class Step:
    """One step: a function of earlier values, and what messages call it."""

    name: str
    work: Work
    uses: list[int]


@dataclass
class Value:
    """A value: its specification, and whether its numbers have few bits for sure."""

    spec: Any
    exact: bool

    @property
    def rank(self) -> int:
        return len(self.spec.shape)

    @property
    def kind(self) -> str:
        return str(np.dtype(self.spec.dtype).kind)


@dataclass(eq=False)
class Function:
    """A random function, with the specifications of its arguments."""

    seed: int
    specs: list[Any] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    def __call__(self, *args: Any) -> Any:
        env = list(args)
        for step in self.steps:
            made = step.work(*(env[k] for k in step.uses))
            env += list(made) if isinstance(made, tuple | list) else [made]
        return tuple(env[k] for k in self.results)

    def __str__(self) -> str:
        lines = [f"x{k}: {s.dtype}{list(map(str, s.shape))}" for k, s in enumerate(self.specs)]
        lines += [f"{s.name} of {s.uses}" for s in self.steps]
        return "\n".join([*lines, f"results {self.results}"])


class Maker(Draws):
    """Makes a function step by step."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.f = Function(seed)
        scope = export.SymbolicScope()
        self.dims = export.symbolic_shape("a, b, c", scope=scope)
        self.values: list[Value] = []

    def dim(self) -> Any:
        if self.chance(0.7):
            return self.pick(self.dims)
        if self.chance(0.15):
            return 2 * self.pick(self.dims)
        return self.pick([1, 2, 3, 4])

    def arguments(self) -> None:
        for _ in range(int(self.rng.integers(2, 5))):
            rank = int(self.rng.integers(1, 4))
            dtype = self.pick(
                ["float32"] * 6 + ["int32", "int32", "float16", "bool", "uint8", "int8"]
            )
            spec = jax.ShapeDtypeStruct(tuple(self.dim() for _ in range(rank)), dtype)
            self.f.specs.append(spec)
            self.values.append(Value(spec, True))

    def value(self, kinds: str = "f", least: int = 0, exact: bool = False, most: int = 4) -> int:
        found = [
            k
            for k, v in enumerate(self.values)
            if v.kind in kinds and least <= v.rank <= most and (v.exact or not exact)
        ]
        if not found:
            raise Unusable
        weights = np.arange(1, len(found) + 1) ** 1.5
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def partner(self, k: int) -> int:
        """A value of the same type, rather of the same shape."""
        v = self.values[k]
        found = [j for j, o in enumerate(self.values) if o.spec.dtype == v.spec.dtype]
        same = [j for j in found if self.values[j].spec.shape == v.spec.shape]
        return self.pick(same if same and self.chance(0.5) else found)

    def axis(self, k: int) -> int:
        rank = self.values[k].rank
        return int(self.rng.integers(-rank, rank))

    def add(self, name: str, work: Work, *uses: int, exact: bool = False) -> list[int]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = jax.eval_shape(work, *(self.values[k].spec for k in uses))
        except Exception as error:  # of any class: JAX does not take these shapes
            raise Unusable from error
        made = list(made) if isinstance(made, tuple | list) else [made]
        if any(len(s.shape) > 5 or np.dtype(s.dtype).kind not in "fiub" for s in made):
            raise Unusable
        exact = exact and all(self.values[k].exact for k in uses)
        first = len(self.values)
        self.f.steps.append(Step(name, work, list(uses)))
        self.values += [Value(s, exact or np.dtype(s.dtype).kind != "f") for s in made]
        return list(range(first, len(self.values)))

    def make(self, length: int | None = None) -> Function:
        self.arguments()
        count, tries = length or int(self.rng.integers(4, 12)), 0
        while len(self.f.steps) < count and tries < 200:
            tries += 1
            try:
                self.pick(STEPS)(self)
            except Unusable:
                continue
        used = {k for s in self.f.steps for k in s.uses}
        made = range(len(self.f.specs), len(self.values))
        self.f.results = [k for k in made if k not in used or self.chance(0.1)]
        return self.f


# -- steps


def unary(m: Maker) -> None:
    if m.chance(0.25):
        name = m.pick(["floor", "ceil", "round", "sign", "isnan", "isfinite", "trunc"])
        m.add(name, getattr(jnp, name), m.value(exact=True), exact=True)
    else:
        name = m.pick(
            "tanh sin cos abs negative square arctan sinh exp2 expm1 log1p_abs sqrt_abs cbrt "
            "relu gelu sigmoid silu elu softplus erf reciprocal logaddexp0 rsqrt".split()
        )
        work: Work = {
            "log1p_abs": lambda x: jnp.log1p(jnp.abs(x)),
            "sqrt_abs": lambda x: jnp.sqrt(jnp.abs(x)),
            "reciprocal": lambda x: 1 / (1 + jnp.abs(x)),
            "rsqrt": lambda x: lax.rsqrt(1 + x * x),
            "logaddexp0": lambda x: jnp.logaddexp(x, jnp.zeros_like(x)),
            "expm1": lambda x: jnp.expm1(jnp.tanh(x)),
            "exp2": lambda x: jnp.exp2(jnp.tanh(x)),
            "sinh": lambda x: jnp.sinh(jnp.tanh(x)),
            "erf": lax.erf,
            **{n: getattr(jax.nn, n) for n in "relu gelu sigmoid silu elu softplus".split()},
        }.get(name) or getattr(jnp, name)
        m.add(name, work, m.value(), exact=name in ("abs", "negative", "relu"))


def binary(m: Maker) -> None:
    k = m.value("fi")
    name = m.pick("add subtract multiply maximum minimum add multiply arctan2 hypot".split())
    work = getattr(jnp, name)
    if m.chance(0.15):
        c = m.pick([0.5, 2, -1, 3])
        m.add(f"{name} {c}", lambda x: work(x, jnp.asarray(c, x.dtype)), k)
    else:
        m.add(name, work, k, m.partner(k), exact=name in ("maximum", "minimum"))


def integer(m: Maker) -> None:
    k = m.value("iu")
    name = m.pick("bitwise_and bitwise_or bitwise_xor floor_divide remainder left_shift".split())
    if name in ("floor_divide", "remainder"):
        c = m.pick([2, 3, -3, 7]) if m.values[k].kind == "i" else 3
        m.add(f"{name} {c}", lambda x: getattr(jnp, name)(x, jnp.asarray(c, x.dtype)), k)
    elif name == "left_shift":
        m.add(name, lambda x: x << 1, k)
    else:
        m.add(name, getattr(jnp, name), k, m.partner(k))


def compare(m: Maker) -> None:
    k = m.value("fiu", exact=True)
    j = m.partner(k)
    if not m.values[j].exact:
        raise Unusable
    name = m.pick(["less", "greater_equal", "equal", "not_equal"])
    m.add(name, getattr(jnp, name), k, j)


def where(m: Maker) -> None:
    k = m.value("fiu")
    m.add("where", jnp.where, m.value("b"), k, m.partner(k), exact=True)


def cast(m: Maker) -> None:
    k = m.value("fib", exact=True)
    dtype = m.pick(["float32", "int32", "float16", "int8", "bool"])
    if m.values[k].kind == "i" and dtype == "float16":
        raise Unusable
    m.add(f"astype {dtype}", lambda x: x.astype(dtype), k, exact=True)


def reduction(m: Maker) -> None:
    k = m.value("fi", least=1)
    axis: Any = m.axis(k) if m.chance(0.7) else None
    if m.values[k].rank >= 2 and m.chance(0.25):
        axis = (0, m.values[k].rank - 1)
    name = m.pick("sum mean max min var prod std".split())
    if name in ("var", "prod", "std", "mean") and m.values[k].kind == "i":
        name = "sum"
    keep = m.chance(0.3)
    if name == "prod":
        m.add(f"prod {axis}", lambda x: jnp.prod(jnp.tanh(x), axis=axis, keepdims=keep), k)
    else:
        m.add(
            f"{name} {axis}", lambda x: getattr(jnp, name)(x, axis=axis, keepdims=keep), k,
            exact=name in ("max", "min"),
        )  # fmt: skip


def boolean(m: Maker) -> None:
    k = m.value("b", least=1)
    axis = m.pick([None, m.axis(k)])
    name = m.pick(["any", "all", "sum"])
    m.add(f"{name} {axis}", lambda x: getattr(jnp, name)(x, axis=axis), k)


def position(m: Maker) -> None:
    k = m.value("fi", least=1, exact=True)
    axis = m.pick([None, m.axis(k)])
    name = m.pick(["argmax", "argmin"])
    m.add(f"{name} {axis}", lambda x: getattr(jnp, name)(x, axis=axis), k)


def reshape(m: Maker) -> None:
    k = m.value("fiub", least=1)
    rank = m.values[k].rank
    draw = m.rng.random()
    if draw < 0.2:
        m.add("ravel", jnp.ravel, k, exact=True)
    elif draw < 0.45 and rank >= 2:
        m.add("rows", lambda x: x.reshape(x.shape[0], -1), k, exact=True)
    elif draw < 0.6:
        m.add("pairs", lambda x: x.reshape(-1, 2, *x.shape[1:]), k, exact=True)
    elif draw < 0.75:
        axis = m.axis(k)
        m.add(f"expand {axis}", lambda x: jnp.expand_dims(x, axis), k, exact=True)
    elif draw < 0.85:
        m.add("squeeze", jnp.squeeze, k, exact=True)
    else:
        order = [int(a) for a in m.rng.permutation(rank)]
        m.add(
            f"transpose reshape {order}",
            lambda x: x.reshape([x.shape[a] for a in order]),
            k,
            exact=True,
        )


def transpose(m: Maker) -> None:
    k = m.value("fiub", least=2)
    order = [int(a) for a in m.rng.permutation(m.values[k].rank)]
    m.add(f"transpose {order}", lambda x: jnp.transpose(x, order), k, exact=True)


def slices(m: Maker) -> None:
    k = m.value("fiub", least=1)
    axis = m.axis(k) % m.values[k].rank
    text, part = m.pick(
        [("[::2]", np.s_[::2]), ("[::-1]", np.s_[::-1]), ("[1:]", np.s_[1:]), ("[:-1]", np.s_[:-1]),
         ("[-1]", -1), ("[0]", 0), ("[:1]", np.s_[:1]), ("[None]", None), ("[-3:]", np.s_[-3:])]
    )  # fmt: skip
    m.add(f"{text} of {axis}", lambda x: x[(slice(None),) * axis + (part,)], k, exact=True)


def dynamic(m: Maker) -> None:
    k = m.value("fi", least=1)
    v = m.values[k]
    start = int(m.rng.integers(-2, 4))
    if m.chance(0.5):
        m.add(
            f"dynamic_slice {start}",
            lambda x: lax.dynamic_slice_in_dim(x, jnp.int32(start) + x.shape[0] // 2, 1, 0),
            k, exact=True,
        )  # fmt: skip
    else:
        m.add(
            f"dynamic_update {start}",
            lambda x: lax.dynamic_update_slice_in_dim(x, x[:1] * 2, jnp.int32(start), 0),
            k, exact=v.exact,
        )  # fmt: skip


def gather(m: Maker) -> None:
    k, i = m.value("fiub", least=1), m.value("i")
    axis = m.axis(k)
    mode = m.pick(["clip", "wrap", "fill"])
    if m.values[i].rank + m.values[k].rank > 5:
        raise Unusable
    if mode == "fill":
        m.add(
            f"take fill {axis}",
            lambda x, i: jnp.take(x, i, axis, mode="fill", fill_value=1),
            k,
            i,
            exact=True,
        )
    else:
        m.add(f"take {mode} {axis}", lambda x, i: jnp.take(x, i, axis, mode=mode), k, i, exact=True)


def scatter(m: Maker) -> None:
    k, i = m.value("fi", least=1), m.value("i", most=1)
    name = m.pick(["add", "max", "min", "multiply"])
    if name == "multiply":
        work: Work = lambda x, i: x.at[i].multiply(jnp.asarray(2, x.dtype))  # noqa: E731
    else:
        work = lambda x, i: getattr(x.at[i], name)(jnp.asarray(1, x.dtype))  # noqa: E731
    m.add(f"at {name}", work, k, i)


def at_set(m: Maker) -> None:
    k = m.value("fi", least=1)
    part = m.pick([0, -1, np.s_[1:], np.s_[::2], np.s_[:-1]])
    m.add(f"at[{part}] set", lambda x: x.at[part].set(jnp.asarray(3, x.dtype)), k, exact=True)


def along(m: Maker) -> None:
    k = m.value("f", least=1, exact=True)
    axis = m.axis(k)
    m.add(
        f"take_along_axis {axis}",
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=axis), axis=axis), k, exact=True,
    )  # fmt: skip


def concat(m: Maker) -> None:
    k = m.value("fi", least=1)
    axis = m.axis(k)
    if m.chance(0.4):
        m.add(f"concat itself {axis}", lambda x: jnp.concatenate([x, -x], axis), k, exact=True)
    elif m.chance(0.5):
        m.add("stack", lambda x, y: jnp.stack([x, y], axis), k, m.partner(k), exact=True)
    else:
        m.add("concat", lambda x, y: jnp.concatenate([x, y], axis), k, m.partner(k), exact=True)


def pad(m: Maker) -> None:
    k = m.value("fi", least=1)
    rank = m.values[k].rank
    mode = m.pick(["constant", "edge", "interior", "wrap"])
    widths = [tuple(int(w) for w in m.rng.integers(0, 3, 2)) for _ in range(rank)]
    if mode == "interior":
        config = [
            (int(a), int(b), int(c))
            for a, b, c in m.rng.integers((-1, -1, 0), (3, 3, 3), (rank, 3))
        ]
        m.add(
            f"lax.pad {config}", lambda x: lax.pad(x, jnp.zeros((), x.dtype), config), k, exact=True
        )
    else:
        m.add(f"pad {mode} {widths}", lambda x: jnp.pad(x, widths, mode=mode), k, exact=True)


def broadcast(m: Maker) -> None:
    k = m.value("fi")
    j = m.value("fiub", least=1)
    m.add("broadcast_to", lambda x, y: jnp.broadcast_to(x, y.shape), k, j, exact=True)


def repeat(m: Maker) -> None:
    k = m.value("fi", least=1, most=3)
    name = m.pick(["tile", "repeat", "roll", "tril", "tile by dim", "roll by dim"])
    axis = m.axis(k)
    work: Work = {
        "tile": lambda x: jnp.tile(x, 2),
        "repeat": lambda x: jnp.repeat(x, 3, axis),
        "roll": lambda x: jnp.roll(x, 2, axis),
        "tril": lambda x: jnp.tril(x, 1),
        "tile by dim": lambda x: jnp.tile(x[:1], (x.shape[0],) + (1,) * (x.ndim - 1)),
        "roll by dim": lambda x: jnp.roll(x, x.shape[0] // 2, 0),
    }[name]
    m.add(f"{name} {axis}", work, k, exact=True)


def product(m: Maker) -> None:
    k = m.value("f", least=1)
    if m.chance(0.4):
        j = m.partner(k)
        m.add("matmul", lambda x, y: jnp.matmul(x, y) * 0.25, k, j)
    elif m.chance(0.5):
        m.add("gram", lambda x: jnp.einsum("...i,...j->...ij", x, x) * 0.25, k)
    else:
        m.add("x @ x.T", lambda x: jnp.matmul(x, jnp.swapaxes(x, -1, -2)) * 0.25, k)


def weights(m: Maker) -> None:
    k = m.value("f", least=1)
    size = m.values[k].spec.shape[-1]
    if not isinstance(size, int):
        raise Unusable
    w = np.asarray(m.rng.integers(-4, 5, (size, m.pick([1, 3, 16]))) / 4)
    m.add("weights", lambda x: x @ jnp.asarray(w, x.dtype), k)


def norm(m: Maker) -> None:
    k = m.value("f", least=1)
    axis = m.axis(k)
    name = m.pick(["softmax", "log_softmax", "layernorm", "logsumexp", "standardize"])
    work: Work = {
        "softmax": lambda x: jax.nn.softmax(x, axis),
        "log_softmax": lambda x: jax.nn.log_softmax(x, axis),
        "logsumexp": lambda x: jax.scipy.special.logsumexp(x, axis),
        "standardize": lambda x: jax.nn.standardize(x, axis, epsilon=0.1),
        "layernorm": lambda x: (
            (x - x.mean(axis, keepdims=True)) * lax.rsqrt(x.var(axis, keepdims=True) + 0.1)
        ),
    }[name]
    m.add(f"{name} {axis}", work, k)


def window(m: Maker) -> None:
    k = m.value("f", least=1, most=3)
    rank = m.values[k].rank
    sizes = tuple(m.pick([1, 2, 3]) for _ in range(rank))
    strides = tuple(m.pick([1, 1, 2]) for _ in range(rank))
    padding = m.pick(["SAME", "VALID"])
    combine, start = m.pick([(lax.add, 0), (lax.max, -jnp.inf)])

    def work(x: Any) -> Any:
        first = jnp.asarray(start, x.dtype)
        return lax.reduce_window(x, first, combine, sizes, strides, padding)

    m.add(f"reduce_window {sizes} {strides} {padding}", work, k)


def conv(m: Maker) -> None:
    k = m.value("f", least=3, most=3)
    channels = m.values[k].spec.shape[-1]
    if not isinstance(channels, int):
        raise Unusable
    w = np.asarray(m.rng.integers(-4, 5, (m.pick([1, 2, 3]), channels, 2)) / 4)
    stride, padding, dilation = m.pick([1, 2]), m.pick(["SAME", "VALID"]), m.pick([1, 1, 2])
    m.add(
        f"conv {w.shape} {stride} {padding} {dilation}",
        lambda x: lax.conv_general_dilated(
            x, jnp.asarray(w, x.dtype), (stride,), padding, lhs_dilation=(dilation,),
            dimension_numbers=("NHC", "HIO", "NHC"),
        ), k,
    )  # fmt: skip


def order(m: Maker) -> None:
    k = m.value("fi", least=1, exact=True)
    axis = m.axis(k)
    name = m.pick(["sort", "argsort", "descending", "top_k", "searchsorted", "pairs"])
    work: Work = {
        "sort": lambda x: jnp.sort(x, axis),
        "argsort": lambda x: jnp.argsort(x, axis),
        "descending": lambda x: jnp.sort(x, axis, descending=True),
        "top_k": lambda x: tuple(lax.top_k(x, 1)),
        "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x.ravel()), x.ravel()),
        "pairs": lambda x: tuple(lax.sort((x, -x), dimension=0, num_keys=1)),
    }[name]
    m.add(f"{name} {axis}", work, k, exact=name in ("sort", "descending"))


def cumulative(m: Maker) -> None:
    k = m.value("fi", least=1)
    axis = m.axis(k) % m.values[k].rank
    name = m.pick(["cumsum", "cummax", "cummin", "cumlogsumexp"])
    reverse = m.chance(0.4)
    if name == "cumlogsumexp" and m.values[k].kind != "f":
        raise Unusable
    m.add(
        f"{name} {axis} {reverse}", lambda x: getattr(lax, name)(x, axis, reverse=reverse), k,
        exact=name in ("cummax", "cummin"),
    )  # fmt: skip


def sizes(m: Maker) -> None:
    k = m.value("fiub", least=1)
    name = m.pick(["arange", "iota", "eye", "dim", "one_hot", "linspace"])
    work: Work = {
        "arange": lambda x: jnp.arange(x.shape[0], dtype=jnp.int32),
        "iota": lambda x: lax.broadcasted_iota(jnp.int32, x.shape, 0),
        "eye": lambda x: jnp.eye(x.shape[-1]),
        "dim": lambda x: jnp.asarray(x.shape[0] * 2 - 1),
        "one_hot": lambda x: jax.nn.one_hot(jnp.arange(3), x.shape[0]),
        "linspace": lambda x: jnp.linspace(0, 1, x.shape[0]),
    }[name]
    m.add(name, work, k)


def control(m: Maker) -> None:
    k = m.value("f", least=1, most=3, exact=m.chance(0.5))
    exact = m.values[k].exact
    names = ["fori", "fori to dim", "scan", "map", "while", "nested", "vmap cond", "reverse scan"]
    if exact:
        names += ["cond", "cond", "switch"]
    name = m.pick(names)

    def scanned(x: Any, reverse: bool = False) -> Any:
        def body(c: Any, row: Any) -> Any:
            c = jnp.tanh(c + row)
            return c, c * row

        return lax.scan(body, jnp.zeros_like(x[0]), x, reverse=reverse)

    def halves(x: Any) -> Any:
        go = lambda c: (c[0] < 5) & (jnp.abs(c[1]).max() > 0.6)  # noqa: E731
        return lax.while_loop(go, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))[1]

    def nested(x: Any) -> Any:
        inner = lambda i, c: c + jnp.sin(x) * i  # noqa: E731
        return lax.fori_loop(0, 2, lambda j, c: lax.fori_loop(0, 3, inner, c * 0.5), x)

    work: Work = {
        "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, x),
        "fori to dim": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c.at[i].add(1), x),
        "scan": scanned,
        "reverse scan": lambda x: scanned(x, True),
        "map": lambda x: lax.map(lambda row: jnp.sin(row).sum(), x),
        "while": halves,
        "nested": nested,
        "vmap cond": lambda x: jax.vmap(lambda r: lax.cond(r.sum() > 1e6, jnp.sin, jnp.cos, r))(x),
        "cond": lambda x: lax.cond(x.max() > 1, lambda v: v * 2, jnp.tanh, x),
        "switch": lambda x: lax.switch(x.max().astype(jnp.int32), [jnp.sin, jnp.cos, jnp.abs], x),
    }[name]
    m.add(name, work, k)


def gradient(m: Maker) -> None:
    k = m.value("f", least=1, most=3)
    inner: dict[str, Work] = {
        "tanh": jnp.tanh,
        "softmax": jax.nn.softmax,
        "cumsum": lambda x: jnp.cumsum(jnp.sin(x), 0),
        "product": lambda x: x @ jnp.swapaxes(x, -1, -2),
        "max": lambda x: jnp.max(jnp.sin(x), -1),
        "reverse": lambda x: x[::-1] * x,
    }
    name = m.pick(list(inner))
    if m.values[k].spec.dtype == np.float16:
        raise Unusable
    m.add(f"grad {name}", jax.grad(lambda x: jnp.sum(jnp.sin(inner[name](x)))), k)


STEPS = [
    *[unary, binary] * 3, integer, compare, where, where, cast, *[reduction] * 3, boolean, position,
    *[reshape] * 3, *[transpose, slices] * 2, dynamic, *[gather] * 2, scatter, at_set, along,
    *[concat, pad] * 2, broadcast, repeat, *[product] * 2, weights, *[norm] * 2, window, conv,
    *[order] * 2, cumulative, *[sizes] * 2, *[control] * 3, gradient,
]  # fmt: skip
