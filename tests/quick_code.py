"""Code that LLVM does not optimise, for tests of what a program computes.

Front ends, operators and passes decide which kernels there are; what LLVM makes of kernels is for
the tests of those. Without its optimisations LLVM takes a fifth of the time.
"""

from __future__ import annotations

import json

import pytest


def quick_target() -> str:
    """This machine without LLVM's optimisations, as ``DISC_TARGET`` has it."""
    from tvm_disc.codegen.target import host_target  # imports TVM

    return json.dumps({**host_target(), "opt-level": 0})


@pytest.fixture(autouse=True)
def quick_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are built so in every test of a folder whose ``conftest.py`` imports this."""
    monkeypatch.setenv("DISC_TARGET", quick_target())
