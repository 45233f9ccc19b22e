"""Special functions of PyTorch against mpmath; histograms, grouped products, smoothed resizing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
mp = pytest.importorskip("mpmath")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import check, exported, tensors  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

F = torch.nn.functional


def _ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _log_gamma(x: Any) -> Any:
    pole = x <= 0 and x == mp.floor(x)
    return mp.inf if pole else mp.log(abs(mp.gamma(x)))


# Name -> (PyTorch's function, mpmath's, operands, error in eps: float32, float64).
WHOLE = np.concatenate([np.linspace(-30, 30, 241), [1e-30, -1e-30, 1e-8, 90.0, 700.0, 1e4]])
UNIT = np.concatenate([np.linspace(-0.999, 0.999, 160), 1 - np.logspace(-15, -3, 25), [1e-20]])
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray, float, float]] = {
    "erfc": (torch.erfc, mp.erfc, WHOLE, 3, 4),
    "expm1": (torch.expm1, mp.expm1, WHOLE, 2, 4),
    "log1p": (torch.log1p, mp.log1p, np.concatenate([UNIT, np.logspace(-30, 37, 68)]), 2, 4),
    "lgamma": (torch.lgamma, _log_gamma, WHOLE + 0.01, 2, 4),
    "digamma": (torch.digamma, mp.digamma, WHOLE + 0.01, 2, 400),
    "erfinv": (torch.erfinv, mp.erfinv, UNIT, 2, 8),
    "ndtri": (torch.special.ndtri, lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1),
              np.abs(UNIT), 2, 16),
    "erfcx": (torch.special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), WHOLE, 2, 8),
    "log_ndtr": (torch.special.log_ndtr, lambda x: mp.log(_ndtr(x)), WHOLE, 2, 8),
    "i0": (torch.i0, lambda x: mp.besseli(0, x), WHOLE, 2, 12),
    "i0e": (torch.special.i0e, lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), WHOLE, 2, 12),
    "i1": (torch.special.i1, lambda x: mp.besseli(1, x), WHOLE, 2, 12),
    "i1e": (torch.special.i1e, lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), WHOLE, 2, 12),
    "softplus": (F.softplus, lambda x: mp.log1p(mp.exp(x)), WHOLE[:201], 3, 6),
    "logsigmoid": (F.logsigmoid, lambda x: -mp.log1p(mp.exp(-x)), WHOLE[:241], 3, 6),
    "sinh": (torch.sinh, mp.sinh, WHOLE, 2, 4),
    "cosh": (torch.cosh, mp.cosh, WHOLE, 2, 4),
    "asinh": (torch.asinh, mp.asinh, WHOLE, 4, 4),
    "acosh": (torch.acosh, mp.acosh, np.abs(WHOLE) + 1, 3, 4),
    "atanh": (torch.atanh, mp.atanh, UNIT, 3, 4),
    "log2": (torch.log2, lambda x: mp.log(x, 2), np.logspace(-37, 37, 75), 2, 4),
    "log10": (torch.log10, mp.log10, np.logspace(-37, 37, 75), 2, 4),
    "exp2": (torch.exp2, lambda x: mp.power(2, x), WHOLE[:241] * 4, 2, 4),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tails_are_relatively_accurate(dtype: str) -> None:
    """Error in units of eps of the exact result; where that is normal, so also in the tails."""
    kind = np.finfo(dtype)
    operands = [torch.tensor(c[2].astype(dtype)) for c in CASES.values()]
    functions = [c[0] for c in CASES.values()]

    def many(*given: Any) -> Any:
        return tuple(f(x) for f, x in zip(functions, given, strict=True))

    found = tvm_disc.build(exported(many, operands, *["_"] * len(operands)))(*operands)
    worst = {}
    with mp.workdps(400):
        for (name, (_, exact, _, *bounds)), x, got in zip(
            CASES.items(), operands, found, strict=True
        ):
            for v, g in zip(x.tolist(), np.asarray(got).tolist(), strict=True):
                want = mp.re(exact(mp.mpf(v))) if abs(v) < 1e5 or name[:3] == "log" else mp.inf
                size = abs(want)
                if not kind.smallest_normal <= size <= kind.max:
                    continue
                error = float(abs(mp.mpf(g) - want) / size) / kind.eps
                if error > bounds[dtype == "float64"]:
                    worst.setdefault(name, []).append((v, g, error))
    assert not worst, {n: (len(w), w[:3]) for n, w in worst.items()}


def test_erfinv_and_ndtri_at_their_ends() -> None:
    x = torch.tensor([-1.5, -1.0, -0.0, 0.0, 1.0, 1.5, float("nan")])
    check(lambda x: (torch.erfinv(x), torch.special.ndtri(x)), [(x,)], "_")


# -- histograms ------------------------------------------------------------------------------------


def test_histograms() -> None:
    def many(x: Any) -> Any:
        return torch.histc(x, 4, -1, 1), torch.histc(x, 5), torch.histc(x[0] * 0, 3)

    check(many, [tensors((n, 3)) for n in (5, 2, 3, 17, 100)], "n _")


def test_a_histogram_does_not_count_what_is_outside() -> None:
    x = torch.tensor([0.0, 1.0, 4.0, 4.1, -0.1, float("nan"), float("inf"), 3.9999])
    check(lambda x: torch.histc(x, 4, 0, 4), [(x,)], "_")


# -- grouped products ------------------------------------------------------------------------------


def _grouped(rows: int, groups: int, dtype: Any, last: int | None = None) -> tuple[Any, ...]:
    ends = torch.sort(torch.randint(0, rows + 1, (groups,)))[0].to(torch.int32)
    ends[-1] = rows if last is None else last
    return torch.rand(rows, 16).to(dtype), torch.rand(groups, 16, 16).to(dtype), ends.sort()[0]


def test_rows_in_groups_times_the_matrix_of_their_group() -> None:
    def product(x: Any, w: Any, ends: Any) -> Any:
        return F.grouped_mm(x, w, offs=ends).float()

    cases = [_grouped(n, 4, torch.bfloat16) for n in (16, 8, 32, 24, 64)]
    check(product, cases, "n _", "_ _ _", "_", tolerance=2e-2)


def test_no_matrix_of_a_group_is_copied() -> None:
    """One kernel for the product: the matrices are read inside its sum."""
    x, w, ends = _grouped(16, 4, torch.bfloat16)
    product = lambda x, w, e: F.grouped_mm(x, w, offs=e)  # noqa: E731
    program = exported(product, (x, w, ends), "n _", "_ _ _", "_")
    told = str(tvm_disc.build(program).explain())
    assert re.search(r"^ +.*take .*\+ multiply \+ sum", told, re.M), told


def test_other_grouped_products_are_refused() -> None:
    x, w, ends = _grouped(16, 4, torch.bfloat16)
    product = lambda x, w, e: F.grouped_mm(x, w[0], offs=e)  # noqa: E731
    program = exported(product, (x, w, ends), "_ _", "_ _ _", "_")
    with pytest.raises(Unsupported, match="expected a grouped product of operands of rank 2 and 3"):
        tvm_disc.build(program)


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe"])
def test_mixtures_of_experts(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "num_experts_per_tok": 2,
    }  # fmt: skip
    own = {
        "mixtral": {"num_local_experts": 4},
        "qwen3_moe": {"num_experts": 8, "moe_intermediate_size": 24, "head_dim": 8},
    }
    config = transformers.AutoConfig.for_model(kind, **sizes, **own[kind])
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()

    class Logits(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any) -> Any:
            return self.model(input_ids=ids, use_cache=False).logits

    exe = tvm_disc.build(Logits().eval(), example_inputs=(torch.randint(0, 97, (2, 9)),))
    for batch, length in ((2, 9), (1, 5), (3, 17)):
        ids = torch.randint(0, 97, (batch, length))
        with torch.no_grad():
            want = model(input_ids=ids, use_cache=False).logits
        np.testing.assert_allclose(np.asarray(exe(ids)), want, 1e-4, 1e-5)


# -- resizing that smooths -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resizing_that_smooths(mode: str) -> None:
    """Larger and smaller, corners aligned or not: four sizes in one program."""

    def many(x: Any) -> Any:
        return tuple(
            F.interpolate(x, size=size, mode=mode, antialias=True, align_corners=corners)
            for size in ((7, 9), (31, 5))
            for corners in (False, True)
        )

    cases = [tensors((2, 3, h, w)) for h, w in ((16, 16), (13, 40), (5, 7), (50, 6), (7, 9))]
    check(many, cases, "_ _ h w", tolerance=5e-5)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_resizing_in_float64(mode: str, antialias: bool) -> None:
    def resized(x: Any) -> Any:
        return F.interpolate(x, size=(7, 9), mode=mode, antialias=antialias)

    cases = [tensors((1, 2, h, w), dtype="float64") for h, w in ((16, 16), (13, 40), (5, 7))]
    check(resized, cases, "_ _ h w", tolerance=1e-10)
