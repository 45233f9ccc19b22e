"""Code that LLVM does not optimise, for tests of what a program computes.

Front ends, operators and passes decide which kernels there are; what LLVM makes of kernels is for
the tests of those. Without its optimisations LLVM takes a fifth of the time.
"""

from __future__ import annotations

import json

import pytest


@pytest.fixture(autouse=True)
def quick_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are built so in every test of a folder whose ``conftest.py`` imports this."""
    from tvm_disc.codegen.target import host_target  # imports TVM

    monkeypatch.setenv("DISC_TARGET", json.dumps({**host_target(), "opt-level": 0}))
