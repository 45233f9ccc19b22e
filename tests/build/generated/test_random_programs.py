"""Random programs: compiled and interpreted agree."""

from __future__ import annotations

import pytest

from tests.build.generated.random_programs import Writer, failure


@pytest.mark.parametrize("seed", [3, 11, 20, 31, 100_017, 100_089])
def test_programs_agree(seed: int) -> None:
    assert failure(seed) is None


def test_programs_are_reproducible() -> None:
    assert Writer(5).program() == Writer(5).program() != Writer(6).program()
