"""``examples/ray_serve.py``: requests of different lengths become ragged batches of a replica."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray")
serve = pytest.importorskip("ray.serve")

import tvm_disc  # noqa: E402
from tests.models import function  # noqa: E402
from tvm_disc import relay  # noqa: E402

LENGTHS = (1, 7, 3, 20, 64)


@pytest.fixture(scope="module")
def handle(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A replica of a program that pools over the elements of each request."""
    x = relay.var("x", shape=(relay.Any(), relay.Any(), 16), dtype="float32")
    path = tmp_path_factory.mktemp("ray") / "pooled.so"
    model = function(x, relay.mean(relay.tanh(x), axis=1))
    tvm_disc.build(model, ragged={"x": 1}).save(path)
    sys.path.insert(0, str(root / "examples"))
    try:
        import ray_serve

        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)
        yield serve.run(ray_serve.Model.bind(str(path)), route_prefix="/")
        serve.shutdown()
        ray.shutdown()
    finally:
        sys.path.remove(str(root / "examples"))


def test_requests_become_batches(handle: Any, rng: np.random.Generator) -> None:
    given = [rng.standard_normal((n, 16)).astype("float32") for n in LENGTHS] * 8
    answers = [handle.predict.remote({"x": x}) for x in given]
    for x, answer in zip(given, answers, strict=True):
        np.testing.assert_allclose(answer.result(), np.tanh(x).mean(0), rtol=1e-4, atol=1e-6)
    assert 1 < handle.largest_batch.remote().result() <= 16


def test_a_bad_request_does_not_affect_its_batch(handle: Any) -> None:
    requests = [{"x": np.ones((3, 16), "float32")}, {"x": [[1.0]]}, {"y": [[1.0]]}] * 4
    found = [a.result() for a in [handle.predict.remote(r) for r in requests]]
    for fine, wrong, unknown in zip(found[::3], found[1::3], found[2::3], strict=True):
        np.testing.assert_allclose(fine, np.tanh(np.ones(16)), rtol=1e-4)
        assert "expected 16" in wrong["error"] and "unknown input y" in unknown["error"]
