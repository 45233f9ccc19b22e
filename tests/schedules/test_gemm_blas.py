"""The BLAS variant: chosen by a tree, right for every operand, harmless where there is no BLAS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.schedules import gemm_blas

RNG = np.random.default_rng(0)
ROWS = (0, 1, 2, 7, 48, 97)
pytestmark = pytest.mark.skipif(not gemm_blas.provide(), reason="no BLAS library here")


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def by_blas(func: Any, folder: Path, blas: bool = True) -> Any:
    """Build with a tree that runs the library whatever the sizes are."""
    plain = tvm_disc.build(func, options=tvm_disc.Options(blas=blas))
    (kernel,) = plain.dispatch.values()
    leaf = {"family": kernel_family(kernel), "knobs": {"library": "blas"}, "parts": 1}
    file = folder / "trees.json"
    file.write_text(json.dumps({key: {"run": leaf} for key in plain.dispatch}))
    options = tvm_disc.Options(blas=blas, dispatch=file)
    return tvm_disc.build(func, options=options)


def kernel_family(tree: dict[str, Any]) -> str:
    while "if" in tree:
        tree = tree["then"]
    return str(tree["run"]["family"])


def batched(trans_a: bool, trans_b: bool, dtype: str) -> Any:
    a = relay.var("a", shape=(relay.Any("g"), relay.Any(), relay.Any()), dtype=dtype)
    b = relay.var("b", shape=(relay.Any("g"), relay.Any(), relay.Any()), dtype=dtype)
    call = relay.nn.batch_matmul(a, b, transpose_a=trans_a, transpose_b=trans_b)
    return relay.Function([a, b], call)


@pytest.mark.parametrize(
    ("trans_a", "trans_b", "dtype"),
    [(False, False, "float32"), (True, False, "float64"), (False, True, "float32"),
     (True, True, "float32")],
)  # fmt: skip
def test_every_operand_layout(trans_a: bool, trans_b: bool, dtype: str, tmp_path: Path) -> None:
    exe = by_blas(batched(trans_a, trans_b, dtype), tmp_path)
    assert "library=blas" in exe.explain()
    for m in ROWS:
        for n, k in ((1, 1), (5, 0), (17, 33), (64, 16)):
            a, b = normal(2, m, k, dtype=dtype), normal(2, k, n, dtype=dtype)
            got = exe(
                np.ascontiguousarray(a.swapaxes(1, 2)) if trans_a else a,
                np.ascontiguousarray(b.swapaxes(1, 2)) if trans_b else b,
            )
            exact = a.astype("float64") @ b.astype("float64")
            np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4, err_msg=f"{m} {n} {k}")


def dense(constant: np.ndarray) -> Any:
    x = relay.var("x", shape=(relay.Any(), constant.shape[1]), dtype="float32")
    return relay.Function([x], relay.nn.dense(x, relay.const(constant)))


def test_constant_weights_stay_as_they_are(tmp_path: Path) -> None:
    w = normal(100, 64)
    exe = by_blas(dense(w), tmp_path)
    for m in ROWS:
        x = normal(m, 64)
        np.testing.assert_allclose(exe(x), x @ w.T, rtol=1e-4, atol=1e-4)


def test_the_library_is_really_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_blas, "NAMES", ("no_{}gemm", "neither_{}gemm"))
    w = normal(40, 64)
    absent = by_blas(dense(w), tmp_path)
    x = normal(9, 64)
    np.testing.assert_allclose(absent(x), x @ w.T, rtol=1e-4, atol=1e-4)
    assert "no_sgemm" in absent.source("ll")
    # A function of another meaning: were it not called, the product would be right.
    monkeypatch.setattr(gemm_blas, "NAMES", ("getpid", "neither_{}gemm"))
    wrong = by_blas(dense(w), tmp_path)
    out = np.full((9, 40), 3.0, "float32")
    wrong(x, out=out)
    np.testing.assert_array_equal(out, 3.0)


def test_a_saved_program_finds_or_does_without(tmp_path: Path) -> None:
    w = normal(40, 64)
    path = tmp_path / "dense.so"
    by_blas(dense(w), tmp_path).save(path)
    x = normal(5, 64)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np, tvm\n"
        "module = tvm.runtime.load_module(sys.argv[1])\n"
        "x = tvm.runtime.tensor(np.load(sys.argv[2]))\n"
        "np.save(sys.argv[3], module['main'](x).numpy())\n"
    )
    args = [sys.executable, "-c", code, path, tmp_path / "x.npy", tmp_path / "y.npy"]
    subprocess.run([str(a) for a in args], check=True)
    for result in (np.load(tmp_path / "y.npy"), tvm_disc.load(path)(x)):
        np.testing.assert_allclose(result, x @ w.T, rtol=1e-4, atol=1e-4)


def test_what_the_interface_cannot_say_has_no_such_variant(tmp_path: Path) -> None:
    x = relay.var("x", shape=(relay.Any(), 64), dtype="float32")
    fused = relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(normal(40, 64)))))
    half = relay.var("x", shape=(relay.Any(), 64), dtype="float16")
    narrow = relay.nn.dense(half, relay.const(normal(40, 64, dtype="float16"), "float16"))
    for func in (fused, relay.Function([half], narrow)):
        with pytest.raises(tvm_disc.errors.BadInput, match=r"dispatch of .*library"):
            by_blas(func, tmp_path)


def test_it_takes_part_only_when_asked(tmp_path: Path) -> None:
    with pytest.raises(tvm_disc.errors.BadInput, match=r"dispatch of .*library"):
        by_blas(dense(normal(40, 64)), tmp_path, blas=False)
