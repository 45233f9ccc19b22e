"""Functions on arrays of symbolic shape: every fifth; the campaign compares all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from tests.frontends.stablehlo.campaign import NoExport, check_case
from tests.frontends.stablehlo.polymorphic import CASES
from tvm_disc.errors import Unsupported

REFUSED = {"schur"}
NOT_EXPORTED = {
    "squeeze",
    "cov",
    "corrcoef",
    "take and wrap",
    "searchsorted",
    "choose",
    "convolve",
    "scan of a dim",
    "permutation",
    "gradient of prod",
}
OTHERS = REFUSED | NOT_EXPORTED
# functions that were compiled wrongly
REGRESSIONS = ["slice with a step of a dim", "take_along_axis of one column"]
CHOSEN = [n for n in CASES if n not in OTHERS][::5]


@pytest.mark.parametrize("name", dict.fromkeys([*CHOSEN, *REGRESSIONS]))
def test_beside_jax(name: str) -> None:
    check_case(name, 3)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    with pytest.raises(Unsupported, match="lapack"):
        check_case(name, 1)


@pytest.mark.parametrize("name", sorted(NOT_EXPORTED))
def test_not_exported(name: str) -> None:
    with pytest.raises(NoExport):
        check_case(name, 1)
