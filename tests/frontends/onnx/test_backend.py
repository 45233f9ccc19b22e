"""A short sample of ONNX's own backend tests, as given and with every dim of the inputs dynamic.

All of them: ``python -m tests.frontends.onnx.backend``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")

from tests.frontends.onnx.backend import __main__ as command  # noqa: E402
from tests.frontends.onnx.backend.cases import collected, left_out  # noqa: E402
from tests.frontends.onnx.backend.judge import judge, reason_class  # noqa: E402

# By the file that they are in: what real models need, and what is hard.
CASES = {
    "slice": ["slice_neg_steps"],
    "reshape": ["reshape_zero_and_negative_dim"],
    "gathernd": ["gathernd_example_int32_batch_dim1"],
    "expand": ["expand_dim_changed"],
    "topk": ["top_k_smallest"],
    "unique": ["unique_sorted_with_axis_3d"],
    "reducesum": ["reduce_sum_negative_axes_keepdims_example"],
    "scan": ["scan9_sum"],
    "loop": ["loop11"],
    "rotaryembedding": ["rotary_embedding_3d_input"],
    "convtranspose": ["convtranspose_group_2"],
    "cast": ["cast_FLOAT_to_FLOAT16"],
    "spacetodepth": ["spacetodepth_crd_mode_example"],
}
# The rank of a result is the length of an input: it must be known, or the rank declared.
FIXED = ("reshape", "expand", "gathernd")


def case_of(module: str, name: str) -> Any:
    return collected(module)[name]


@pytest.mark.parametrize("mode", ["given", "dynamic"])
@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in CASES.items() for n in names])
def test_backend(module: str, name: str, mode: str) -> None:
    declared = mode == "dynamic" and module in FIXED
    record = judge(case_of(module, name), "declared" if declared else mode)
    assert record["status"] == "passed", record


# -- the command -------------------------------------------------------------------------------


def test_training_and_strings_are_left_out() -> None:
    cases = collected("dropout") | collected("string_concat") | collected("adam")
    assert left_out(cases["training_dropout"]) == "training"
    assert left_out(cases["adam"]) == "training"
    assert left_out(cases["string_concat"]) == "strings"
    assert not left_out(cases["dropout_default"])


def test_what_is_not_right_is_told() -> None:
    case = case_of("topk", "top_k_smallest")
    inputs, (values, places) = case.data_sets[0]
    for other, words in ((values + 1, "Not equal to tolerance"), (values[:1], "shape (3, 3)")):
        judged = judge(replace(case, data_sets=[(inputs, (other, places))]), "given")
        assert judged["status"] == "wrong"
        assert words in judged["reason"]
    refused = judge(case_of("expand", "expand_dim_changed"), "dynamic")
    assert refused["status"] == "refused"
    assert reason_class(refused).startswith("Expand: the number of elements of the shape")


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    done = {"case": "abs", "mode": "given", "kind": "tensors", "status": "refused", "reason": "|"}
    results.write_text(json.dumps(done) + "\n")
    records = command.read(results)
    assert records == {("abs", "given"): done}
    assert not command._due(records, ("abs", "given"), None)
    assert command._due(records, ("abs", "given"), "refused")
    passed = {("abs", "dynamic"): {**done, "status": "passed"}}
    assert not command._due(passed, ("abs", "declared"), "all")
    assert command._due(records, ("abs", "declared"), None)
    command.write(results, {**done, "status": "passed"})
    assert command.read(results)["abs", "given"]["status"] == "passed"
    shown = command.table(records)
    assert "| given | tensors | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 0.0 |" in shown
    assert "| refused | 1 | \\| | abs |" in shown
