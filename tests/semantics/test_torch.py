"""Every element-wise operator and reduction of the PyTorch front end on special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import exported  # noqa: E402
from tests.semantics import special  # noqa: E402

F = torch.nn.functional
NAN, INF = math.nan, math.inf
Function = Callable[..., Any]

UNARY: Mapping[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in """abs neg sign sgn ceil floor trunc frac round acos acosh asin asinh atan atanh
        tanh erf erfc exp exp2 expm1 log log2 log10 log1p rsqrt sqrt reciprocal square
        isnan isinf isfinite isposinf isneginf signbit logical_not nan_to_num deg2rad rad2deg
        positive lgamma relu""".split()
    },
    **{
        name: getattr(F, name)
        for name in """relu6 hardtanh hardswish hardsigmoid hardshrink softsign softplus mish elu
        selu celu leaky_relu logsigmoid""".split()
    },
    **{name: getattr(torch.special, name) for name in "entr ndtr".split()},
    **{name: getattr(torch.special, name) for name in "digamma erfinv i0e i1e".split()},
    "round(1)": lambda x: torch.round(x, decimals=1),
    "logit": lambda x: torch.logit(x, 1e-3),
    "xlog1py": lambda x: torch.special.xlog1py(x, x),
    "nan_to_num(1, 2, 3)": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "threshold(-inf)": lambda x: F.threshold(x, -INF, 2.0),
    "softplus(2, 5)": lambda x: F.softplus(x, 2.0, 5.0),
    "elu(1.5)": lambda x: F.elu(x, 1.5),
    "celu(0.5)": lambda x: F.celu(x, 0.5),
    "leaky_relu(0)": lambda x: F.leaky_relu(x, 0.0),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3], dtype=x.dtype)),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp(min)": lambda x: x.clamp(min=0.5),
    "clamp(max)": lambda x: x.clamp(max=0.5),
    "clamp(2, 1)": lambda x: x.clamp(2, 1),
    "clamp(nan, 1)": lambda x: x.clamp(NAN, 1.0),
    "to(bool)": lambda x: x.to(torch.bool),
    "to(float16)": lambda x: x.to(torch.float16),
    "to(bfloat16)": lambda x: x.to(torch.bfloat16),
    "to(float64)": lambda x: x.to(torch.float64),
    **{f"pow({p})": lambda x, p=p: x**p for p in (2, 3, 0.5, -0.5, -1, -2, -3, 1 / 3, 0, NAN, INF)},
    **{f"{p}**x": lambda x, p=p: torch.pow(p, x) for p in (2.0, 1.0, -2.0, 0.0)},
}  # fmt: skip
# The sign of a zero is not PyTorch's: x*0 where |x| is small.
UNSIGNED = {"softshrink": F.softshrink}
# PyTorch's are composed of several rounded functions.
INEXACT = {"log_ndtr": torch.special.log_ndtr, "erfcx": torch.special.erfcx}
# PyTorch's kernels overflow from 88.7 on, exact functions from 89.4 on.
EARLY = {"cosh": torch.cosh, "sinh": torch.sinh}
# They give 0 where the result is a denormal number.
FLUSHED = {"sigmoid": torch.sigmoid, "silu": F.silu, "softmin": lambda x: F.softmin(x, 0)}

BINARY: Mapping[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in """add sub mul div floor_divide fmod remainder pow maximum minimum atan2 hypot
        copysign logaddexp ldexp xlogy heaviside eq ne lt le gt ge logical_and logical_or
        logical_xor isclose""".split()
    },
    "div(floor)": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div(trunc)": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "xlog1py": torch.special.xlog1py,
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "where": lambda a, b: torch.where(a > b, a, b),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=2),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=2),
    "remainder(-3)": lambda a, b: torch.remainder(a, -3.0),
    "remainder(inf)": lambda a, b: torch.remainder(a, INF),
    "remainder(-inf)": lambda a, b: torch.remainder(a, -INF),
    "fmod(inf)": lambda a, b: torch.fmod(a, INF),
    "// -3": lambda a, b: a // -3.0,
    "// inf": lambda a, b: a // INF,
    "// 0": lambda a, b: a // 0.0,
    "prelu": lambda a, b: F.prelu(a.reshape(1, -1), b),
    "huber_loss": lambda a, b: F.huber_loss(a, b, reduction="none"),
    "smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a, b, reduction="none"),
    "relu(a - b)": lambda a, b: torch.relu(a - b),
}
EITHER_ZERO = {"fmax": torch.fmax, "fmin": torch.fmin}

REDUCTIONS: Mapping[str, Function] = {
    **{name: lambda x, f=name: getattr(x, f)(1) for name in (
        "sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "logsumexp", "softmax",
        "log_softmax", "any", "all", "count_nonzero", "nansum", "nanmean", "cumprod",
        "logcumsumexp")},
    **{f"{name}{k}": lambda x, f=name, k=k: getattr(x, f)(1)[k] for k in (0, 1) for name in (
        "max", "min", "cummax", "cummin")},
    "argmax()": lambda x: x.argmax(),
    "max()": lambda x: x.max(),
    "min()": lambda x: x.min(),
    "median": lambda x: x.median(1).values,
    "median()": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(1).values,
    "nanmedian()": lambda x: x.nanmedian(),
    "nanmedian of all NaN": lambda x: (x * NAN).nanmedian(1).values,
    "kthvalue(2)": lambda x: x.kthvalue(2, 1).values,
    "kthvalue(5)": lambda x: x.kthvalue(5, 1).values,
    "sort": lambda x: x.sort(1).values,
    "sort(descending)": lambda x: x.sort(1, descending=True).values,
    "sort(stable)": lambda x: x.sort(dim=1, stable=True).indices,
    "sort(stable, descending)": lambda x: x.sort(dim=1, stable=True, descending=True).indices,
    "argsort": lambda x: torch.argsort(x, dim=1, stable=True),
    "argsort(descending)": lambda x: torch.argsort(x, dim=1, stable=True, descending=True),
    "topk": lambda x: x.topk(3).values,
    "topk(smallest)": lambda x: x.topk(3, largest=False).values,
    "msort": torch.msort,
    "aminmax": lambda x: x.aminmax(dim=1).max,
    "quantile": lambda x: x.quantile(0.3, 1),
    "nanquantile": lambda x: x.nanquantile(0.3, 1),
    **{f"norm({p})": lambda x, p=p: x.norm(p, 1) for p in (2, 1, INF, -INF, 0, 3)},
    "max_pool1d[1]": lambda x: F.max_pool1d(x[None], 3, 1, 1, return_indices=True)[1],
    "max_pool1d": lambda x: F.max_pool1d(x[None], 3, 1, 1),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[None], 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x[None], 3, 1, 1),
    "_safe_softmax": lambda x: torch.ops.aten._safe_softmax(x, 1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "rms_norm": lambda x: F.rms_norm(x, (5,)),
    "searchsorted": lambda x: torch.searchsorted(torch.tensor([1.0, 2.0, 3.0], dtype=x.dtype), x),
    "unique": lambda x: torch.unique(x[0]),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(1),
}  # fmt: skip


def groups(*tables: Mapping[str, Function], size: int = 12) -> list[dict[str, Function]]:
    """Functions that are compiled together."""
    every = [item for table in tables for item in table.items()]
    return [dict(every[k : k + size]) for k in range(0, len(every), size)]


def compared(
    functions: Mapping[str, Function], operands: Sequence[Any], spec: str, **how: Any
) -> list[str]:
    """What one program of all functions gives, beside PyTorch."""

    def many(*given: Any) -> Any:
        return tuple(f(*given) for f in functions.values())

    program = exported(many, operands, *[spec] * len(operands))
    found = tvm_disc.build(program, options=tvm_disc.Options(threads=1))(*operands)
    found = found if isinstance(found, list | tuple) else [found]
    told = []
    for name, got, want in zip(functions, found, many(*operands), strict=True):
        if want.dtype == torch.bfloat16:
            want, got = want.to(torch.float32), torch.as_tensor(got).to(torch.float32)
        rtol = {torch.float64: 1e-11, torch.float16: 2e-3}.get(want.dtype, 3e-6)
        told += special.check(
            name, got, want, operands, **{"rtol": rtol, "signs": name not in LOOSE, **how}
        )
    return told


LOOSE = {*UNSIGNED, *EITHER_ZERO, *FLUSHED} | {
    "amax", "amin", "max0", "min0", "aminmax", "max()", "min()", "sort", "sort(descending)", "topk",
    "topk(smallest)", "msort", "kthvalue(2)", "kthvalue(5)", "median", "max_pool1d",
    "adaptive_max_pool1d",
}  # fmt: skip


@pytest.mark.parametrize("functions", groups(UNARY, UNSIGNED), ids=lambda g: next(iter(g)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary(functions: Mapping[str, Function], dtype: str) -> None:
    x = torch.from_numpy(special.floats(dtype))
    assert not (told := compared(functions, (x,), "n")), told


def test_unary_that_pytorch_composes() -> None:
    x = torch.from_numpy(special.floats("float32"))
    assert not (told := compared(INEXACT, (x,), "n", rtol=2e-5)), told


def test_unary_that_pytorch_overflows_early() -> None:
    x = torch.from_numpy(special.floats("float32"))
    x = x[x.abs() != 89]
    assert not (told := compared(EARLY, (x,), "n")), told


def test_unary_whose_denormal_results_pytorch_flushes() -> None:
    x = torch.from_numpy(special.floats("float32"))
    assert not (told := compared(FLUSHED, (x,), "n", atol=2e-36)), told


@pytest.mark.parametrize("functions", groups(BINARY, EITHER_ZERO), ids=lambda g: next(iter(g)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary(functions: Mapping[str, Function], dtype: str) -> None:
    operands = tuple(torch.from_numpy(x) for x in special.pairs(dtype))
    assert not (told := compared(functions, operands, "n")), told


@pytest.mark.parametrize("functions", groups(REDUCTIONS), ids=lambda g: next(iter(g)))
def test_reductions(functions: Mapping[str, Function]) -> None:
    x = torch.from_numpy(special.rows("float32"))
    assert not (told := compared(functions, (x,), "n _", atol=1e-6)), told


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    values = special.integers(dtype)
    a, b = (torch.from_numpy(v.ravel().copy()) for v in np.meshgrid(values, values))
    functions: dict[str, Function] = {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum,
        "minimum": torch.minimum, "gt": torch.gt, "le": torch.le, "eq": torch.eq,
        "div": torch.div, "abs": lambda a, b: a.abs(), "sign": lambda a, b: a.sign(),
        "clamp": lambda a, b: a.clamp(-1, 3) if dtype != "uint8" else a.clamp(1, 3),
        "&": torch.bitwise_and, "|": torch.bitwise_or, "^": torch.bitwise_xor,
        "~": lambda a, b: ~a, "square": lambda a, b: a.square(),
        "to(float32)": lambda a, b: a.float(),
        "sort": lambda a, b: a.sort(descending=True).values, "max()": lambda a, b: a.max(),
        "topk": lambda a, b: a.topk(5).values, "neg": lambda a, b: -a,
    }  # fmt: skip
    assert not (told := compared(functions, (a, b), "_")), told


def test_gelu_at_infinity() -> None:
    """PyTorch's kernels differ there from each other; ours is the formula."""
    x = torch.tensor([INF, -INF, NAN])
    got = tvm_disc.build(exported(F.gelu, (x,), "n"))(x)
    assert np.array_equal(np.asarray(got), np.array([INF, NAN, NAN], np.float32), equal_nan=True)


def test_a_variance_that_overflows() -> None:
    x = torch.tensor([[1e20, 1e20, -1e20, 5, 1]])
    got = tvm_disc.build(exported(lambda x: (x.var(1), F.layer_norm(x, (5,))), (x,), "_ _"))(x)
    assert np.isinf(np.asarray(got[0])).all() and (np.asarray(got[1]) == 0).all()


# -- attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("kind", ["numbers", "bool", "constant"])
def test_attention_of_a_query_that_sees_nothing(kind: str, heads: int) -> None:
    """Zeros for the query, whatever says that it sees nothing; NaN of values stays where it is."""
    q, k, v = (torch.rand(2, heads, n, 8) for n in (5, 7, 7))
    seen = torch.rand(2, 1, 5, 7) > 0.4
    seen[0, :, 1], seen[1, :, 4] = False, False
    numbers = torch.where(seen, torch.rand(2, 1, 5, 7), -INF)

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        given = numbers if kind == "constant" else mask
        return F.scaled_dot_product_attention(q, k, v, attn_mask=given)

    mask = seen if kind == "bool" else numbers
    exe = tvm_disc.build(exported(attend, (q, k, v, mask), *["_ _ _ _"] * 4))
    want = attend(q, k, v, mask)
    assert not torch.isnan(want).any() and (want[0, :, 1] == 0).all()
    np.testing.assert_allclose(np.asarray(exe(q, k, v, mask)), want, 1e-5, 1e-6)


def test_a_mask_that_is_nan_gives_nan() -> None:
    q, mask = torch.rand(1, 2, 4, 8), torch.zeros(4, 4)
    mask[1], mask[2] = NAN, -INF

    def attend(q: Any, mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    got = np.asarray(tvm_disc.build(exported(attend, (q, mask), *["_ _ _ _", "_ _"]))(q, mask))
    assert np.isnan(got[0, :, 1]).all() and (got[0, :, 2] == 0).all()
    assert np.isfinite(got[0, :, [0, 3]]).all()


def test_a_left_padded_batch_through_two_layers() -> None:
    """NaN of hidden queries would reach every token of the row in the second layer."""

    class Layer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

        def forward(self, x: Any, mask: Any) -> Any:
            b, n, _ = x.shape
            q, k, v = (t.reshape(b, n, 2, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return x + self.out(y.transpose(1, 2).reshape(b, n, 16))

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Layer(), Layer()

        def forward(self, x: Any, tokens: Any) -> Any:
            n = x.shape[1]
            hidden = torch.full((n, n), -INF).triu(1)[None, None]
            hidden = hidden.masked_fill((tokens == 0)[:, None, None, :], -INF)
            return self.two(self.one(x, hidden), hidden)

    torch.manual_seed(0)
    model = Model().eval()
    b, n = torch.export.Dim("b"), torch.export.Dim("n")
    x, tokens = torch.rand(2, 6, 16), torch.ones(2, 6, dtype=torch.int64)
    program = torch.export.export(model, (x, tokens), dynamic_shapes=({0: b, 1: n}, {0: b, 1: n}))
    exe = tvm_disc.build(program)
    for batch, length, padding in ((2, 6, 3), (3, 9, 1), (1, 4, 0)):
        x, tokens = torch.rand(batch, length, 16), torch.ones(batch, length, dtype=torch.int64)
        tokens[0, :padding] = 0
        with torch.no_grad():
            want = model(x, tokens)
        assert not torch.isnan(want).any()
        np.testing.assert_allclose(np.asarray(exe(x, tokens)), want, 1e-5, 1e-5)
