"""Exported JAX functions, compiled once and compared with JAX at several shapes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

import jax

import tvm_disc
from tests.frontends.stablehlo.models import MODELS
from tests.frontends.stablehlo.programs import PROGRAMS, exported

ALL = {**PROGRAMS, **MODELS}


@pytest.mark.parametrize("name", ALL)
def test_results_are_those_of_jax(name: str) -> None:
    program = ALL[name]
    exe = tvm_disc.build(exported(program))
    reference = jax.jit(program.function)
    for seed, dims in enumerate(program.dims):
        arguments = program.arguments(dims, seed)
        wanted = jax.tree.leaves(reference(*arguments))
        made = exe(*arguments)
        found = list(made) if isinstance(made, list | tuple) else [made]
        for got, want in zip(found, wanted, strict=True):
            want = np.asarray(want)
            assert got.shape == want.shape, dims
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=str(dims))
    if program.kernels is not None:
        assert len(exe.kernels) == program.kernels
