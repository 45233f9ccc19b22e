"""The table of operators: complete, within ONNX's opsets, and as the documentation shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")

from tvm_disc.frontends.onnx import functions  # noqa: E402
from tvm_disc.frontends.onnx.listing import MISSING, markdown  # noqa: E402
from tvm_disc.frontends.onnx.rows import FAMILIES, ROWS, find, joined  # noqa: E402
from tvm_disc.frontends.onnx.table import Row  # noqa: E402


def newest() -> int:
    return int(onnx.defs.onnx_opset_version())


def test_every_operator_on_tensors_has_a_row_or_a_body() -> None:
    names = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    lost = {
        name
        for name in names
        if find("", name, newest()) is None
        and not functions.has_body(functions.schema_of("", name, newest()))
    }
    assert lost <= set(MISSING), "operators that the table should have"


@pytest.mark.parametrize("opset", range(7, newest() + 1))
def test_every_opset_is_covered(opset: int) -> None:
    """Whatever an opset has, a row or a body is for."""
    lost = []
    for schema in onnx.defs.get_all_schemas_with_history():
        live = functions.schema_of("", schema.name, opset) if schema.domain == "" else None
        if live is None or live.deprecated or schema.name in MISSING:
            continue
        if find("", schema.name, opset) is None and not functions.has_body(live):
            lost.append(schema.name)
    assert lost == []


def test_rows_are_of_operators_that_exist() -> None:
    known = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    # ONNX Runtime and converters from TensorFlow add these to ONNX's domain.
    own = {"Erfc", "SimplifiedLayerNormalization"}
    assert {name for domain, name in ROWS if domain == ""} <= known | own


def test_a_second_row_for_an_opset_is_refused() -> None:
    with pytest.raises(AssertionError, match="Relu has two rows since opset 1"):
        joined([*FAMILIES.values(), [Row("Relu", str)]])


def test_a_row_is_valid_up_to_the_next() -> None:
    rows = [
        Row("A B", str, since=3, until=5),
        Row("B", repr, since=8, domain="ai"),
        Row("A", repr, since=8),
    ]
    table = joined([rows])
    found = [find("", "A", v, table) for v in (2, 3, 5, 6, 8, 99)]
    assert [f and f.since for f in found] == [None, 3, 3, None, 8, 8]
    assert find("", "B", 8, table) is None and find("ai", "B", 8, table) is not None


def test_the_documentation_lists_it(root: Path) -> None:
    text = (root / "docs" / "onnx.md").read_text(encoding="utf-8")
    assert markdown() in text, "python -m tvm_disc.frontends.onnx.listing docs/onnx.md"


def test_the_documentation_lists_the_operators_without_a_converter(root: Path) -> None:
    """Otherwise: correct the list below the table of operators."""
    text = (root / "docs" / "onnx.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"have no converter, and(.*?)\n\n[A-Z]", text, re.S)
    names = set(re.findall(r"`(\w+)`", listed))
    schemas = onnx.defs.get_all_schemas()
    classic = {s.name for s in schemas if s.domain == "ai.onnx.ml"}
    have = {name for domain, name in ROWS if domain == "ai.onnx.ml"}
    assert names == set(MISSING) | (classic - have)
