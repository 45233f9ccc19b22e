"""A few operators of every kind in the emulator; ``python -m tests.cuda.operators`` has all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build.cases import COMPILED
from tests.cuda import operators
from tvm_disc.errors import Unsupported

NAMES = (
    "cast", "floor_divide", "floor_mod", "layout_transform", "nn.pad", "strided_slice",
    "variance", "all", "argmax", "nn.batch_matmul", "nn.conv2d_transpose", "nn.avg_pool2d",
    "image.resize2d", "gather_nd", "unique", "topk", "cumprod", "random.uniform",
    "vision.non_max_suppression", "qnn.dense", "nn.sparse_dense", "dyn.strided_slice",
)  # fmt: skip
ROWS = {row.name: row for row in COMPILED}


@pytest.mark.parametrize("name", NAMES)
def test_as_the_processor_runs_it(name: str) -> None:
    assert operators.run(ROWS[name]) > 2


def test_what_was_found_is_a_table(tmp_path: Path) -> None:
    lines = [
        {"name": "abs", "crashed": "the process ended"},
        {"name": "abs", "ran": 5},
        {"name": "sort", "refused": "no | code"},
        {"name": "topk", "crashed": "the process ended"},
    ]
    path = tmp_path / "found.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = operators.table(operators.read(path))
    assert f"Of {len(COMPILED)} operators that compile for the processor, 1 (" in text
    assert "| sort | refused: no / code |" in text and "| topk | crashed" in text


def test_what_goes_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(row: object) -> int:
        raise Unsupported("no code")

    monkeypatch.setattr(operators, "run", refuse)
    assert operators.examined(ROWS["abs"])["refused"] == "no code"
