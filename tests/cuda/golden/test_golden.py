"""Device functions against the kept texts, and what must hold of the texts."""

from __future__ import annotations

import pytest

from tests.cuda.golden.cases import CASES, FOLDER, Case, path, readable, text

WRITE = "`python -m tests.cuda.golden --write`, and read the difference"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_function_is_as_it_was(case: Case) -> None:
    assert path(case).is_file(), f"{case.name} has no text: {WRITE}"
    assert text(case) == path(case).read_text(encoding="utf-8"), WRITE


def test_every_text_has_a_case() -> None:
    assert {p.stem for p in FOLDER.glob("*.cu")} == {case.name for case in CASES}


def kept(name: str) -> str:
    """The text of a case."""
    return (FOLDER / f"{name}.cu").read_text(encoding="utf-8")


def test_no_division_in_a_loop() -> None:
    """A thread divides for where it is; its loops add."""
    for name in ("softmax", "softmax_held", "matmul", "conv_channels_last", "attention"):
        body = kept(name)
        loops = body[body.index("for (", body.index("for (") + 1) :]
        assert "disc_div" not in loops, name


def test_accesses_are_wide() -> None:
    for case in CASES:
        wide = any(word in kept(case.name) for word in ("float4", "disc_tensor_copy"))
        assert wide == (case.name != "pool"), case.name


def test_barriers() -> None:
    found = {c.name: kept(c.name).count("__syncthreads()") for c in CASES}
    none = ("relu", "bias", "pool")
    assert all(found[name] == 0 for name in none)
    assert found["matmul"] == found["conv_channels_last"] == 2


def test_texts_are_made_readable() -> None:
    source = "alignas(64) float v_ptr[1];\nv_ptr[(int64_t)0] = a;\nfloat v = v_ptr[(int64_t)0];\n"
    assert readable(source) == "float v = a;\n"
