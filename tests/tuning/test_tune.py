"""Tuning: what is measured, what is kept, and what a build makes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import mlp, mlp_reference
from tvm_disc import Options, relay
from tvm_disc.errors import BadInput
from tvm_disc.tuning import tune
from tvm_disc.tuning.measure import Effort

QUICK = Effort(rounds=1, round_ns=1e3, most_rounds=1, wait_s=0.0)


def tuned(path: Path, **kwargs: Any) -> Any:
    arguments = {"shapes": {"x.0": range(1, 65)}, "points": 6, "effort": QUICK, **kwargs}
    return tune(mlp(), records=path, progress=False, **arguments)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "records.jsonl"
    assert tuned(path).measured > 0
    return path


def test_a_second_run_measures_nothing(records: Path) -> None:
    size = records.stat().st_size
    again = tuned(records)
    assert (again.measured, again.left) == (0, 0) and again.reused > 0
    assert records.stat().st_size == size


def test_a_tuned_program_is_right_inside_and_outside_the_region(records: Path) -> None:
    exe = tvm_disc.build(mlp(), options=Options(records=records))
    for n in (1, 7, 63, 64, 65, 1000, 0):
        x = np.random.default_rng(n).standard_normal((n, 16)).astype("float32")
        np.testing.assert_allclose(exe(x), mlp_reference(x), rtol=1e-5, atol=1e-6)


def test_the_same_records_give_the_same_program(records: Path, tmp_path: Path) -> None:
    lines = records.read_text().splitlines()
    shuffled = tmp_path / "shuffled.jsonl"
    shuffled.write_text("\n".join(reversed(lines)) + "\n")
    dumps = []
    for k, path in enumerate((records, records, shuffled)):
        options = Options(records=path, dump_dir=tmp_path / str(k))
        tvm_disc.build(mlp(), options=options)
        dumps.append(next((tmp_path / str(k)).glob("*program.tir.py")).read_bytes())
    assert dumps[0] == dumps[1] == dumps[2]


def test_trees_go_out_and_in_as_json(records: Path, tmp_path: Path) -> None:
    tuned_exe = tvm_disc.build(mlp(), options=Options(records=records))
    path = tmp_path / "trees.json"
    path.write_text(json.dumps(tuned_exe.dispatch))
    again = tvm_disc.build(mlp(), options=Options(dispatch=path))
    assert again.dispatch == tuned_exe.dispatch and len(again.dispatch) > 1
    x = np.ones((70, 16), "float32")
    np.testing.assert_allclose(again(x), mlp_reference(x), rtol=1e-5)


LEAF = {"run": {"family": "row", "knobs": {}, "parts": 1}}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"run": {"family": "x"}}, "unknown variant"),
        ({"if": "x_9", "below": 1, "then": LEAF, "else": LEAF}, "unknown quantity 'x_9'"),
    ],
)
def test_trees_of_something_else_are_refused(tree: Any, message: str, tmp_path: Path) -> None:
    keys = tvm_disc.build(mlp()).dispatch
    path = tmp_path / "trees.json"
    path.write_text(json.dumps(dict.fromkeys(keys, tree)))
    with pytest.raises(BadInput, match=message):
        tvm_disc.build(mlp(), options=Options(dispatch=path))


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trees.json"
    path.write_text("if n < 3")
    with pytest.raises(BadInput, match=r"dispatch: .*trees\.json"):
        tvm_disc.build(mlp(), options=Options(dispatch=path))


def test_a_budget_is_kept_and_the_rest_follows_later(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first = tuned(path, budget_s=0.0)
    assert first.measured == 0 and first.left > 0
    assert tuned(path).left == 0


def test_a_truncated_file_is_continued(records: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(records.read_bytes()[:-20])
    result = tuned(path)
    assert 0 < result.measured <= 12 and "1 damaged line was skipped" in result.warning
    with pytest.warns(UserWarning, match="1 damaged line was skipped"):
        tvm_disc.build(mlp(), options=Options(records=path))


SCRIPT = """
import sys
from tests.models import mlp
from tvm_disc.tuning import tune
tune(mlp(), records=sys.argv[1], shapes={"x.0": range(1, 65)}, points=40, progress=False)
"""


def test_a_killed_run_continues(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], env=env, cwd=root)
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.stat().st_size > 2000:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.02)
    assert process.wait() == -signal.SIGKILL
    whole = path.read_bytes().count(b"\n")
    result = tuned(path, points=40)
    assert result.reused >= whole - 1 and result.left == 0
    assert tuned(path, points=40).measured == 0


def test_a_log_of_shapes_is_tuned_for(tmp_path: Path) -> None:
    exe = tvm_disc.build(mlp())
    log = tmp_path / "shapes.jsonl"
    with exe.record_shapes(log):
        for n in (5, 5, 9):
            exe(np.zeros((n, 16), "float32"))
        with pytest.raises(tvm_disc.DiscError):
            exe(np.zeros((5, 17), "float32"))
    exe(np.zeros((77, 16), "float32"))
    assert log.read_text().splitlines()[0] == '{"shapes": {"x": [5, 16]}, "calls": 2}'
    path = tmp_path / "r.jsonl"
    tuned(path, shapes=log)
    dims = {line.partition('"dims": ')[2].partition("]")[0] for line in path.open()}
    assert dims == {"[5", "[9"}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": [1]}, "there is no dim 'y'; dynamic dims: x.0, x_0"),
        ({"x.0": [0]}, "x.0: expected a list of integers of at least 1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(tmp_path: Path, shapes: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        tuned(tmp_path / "r.jsonl", shapes=shapes)


def test_a_log_of_something_else_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("hello\n")
    with pytest.raises(BadInput, match="expected recorded shapes, one JSON object a line"):
        tuned(tmp_path / "r.jsonl", shapes=log)


def test_records_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no file"):
        tvm_disc.build(mlp(), options=Options(records=tmp_path / "none"))


def test_weights_must_fit(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="weights: x_0: expected a list of 2 numbers"):
        tuned(tmp_path / "r", shapes={"x_0": [1, 2]}, weights={"x_0": [1.0]})


def test_dims_that_must_agree_are_tuned_together(tmp_path: Path) -> None:
    a = relay.var("a", shape=(relay.Any(), 8), dtype="float32")
    b = relay.var("b", shape=(relay.Any(), 8), dtype="float32")
    body = relay.nn.relu(relay.add(a, b))
    path = tmp_path / "r.jsonl"
    result = tune(
        relay.Function([a, b], body),
        records=path,
        shapes={"a.0": [7], "b.0": [7]},
        constraints=["a.0 == b.0"],
        effort=QUICK,
        progress=False,
    )
    assert result.left == 0 and result.measured > 0
