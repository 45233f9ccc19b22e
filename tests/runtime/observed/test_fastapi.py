"""``examples/fastapi_server.py``: many clients at once, health, metrics, refusals."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient

import tvm_disc
from tests.models import mlp

SIZES = (0, 1, 7, 64, 331)


@pytest.fixture(scope="module")
def exe() -> Any:
    return tvm_disc.build(mlp())


@pytest.fixture
def client(exe: Any, root: Path, tmp_path: Path) -> Iterator[Any]:
    exe.save(tmp_path / "mlp.so")
    server = runpy.run_path(str(root / "examples" / "fastapi_server.py"))["server"]
    with TestClient(server(tmp_path / "mlp.so", tmp_path / "seen.jsonl")) as client:
        yield client


def test_many_clients_at_once(
    client: Any, exe: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    given = [rng.standard_normal((n, 16)).astype("float32") for n in SIZES[1:]] * 8

    def ask(x: Any) -> Any:
        answer = client.post("/predict", json={"inputs": {"x": x.tolist()}})
        assert answer.status_code == 200, answer.text
        return answer.json()["results"][0]

    with ThreadPoolExecutor(8) as pool:
        for x, found in zip(given, pool.map(ask, given), strict=True):
            np.testing.assert_allclose(found, exe(x), rtol=1e-5, atol=1e-6)
    text = client.get("/metrics").text
    assert f'tvm_disc_call_seconds_count{{program="mlp"}} {len(given)}' in text
    client.__exit__(None, None, None)  # the shapes are written at the end
    seen = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert {s["shapes"]["x"][0]: s["calls"] for s in seen} == dict.fromkeys(SIZES[1:], 8)
    client.__enter__()


def test_health(client: Any) -> None:
    found = client.get("/health").json()
    assert found["status"] == "ok" and found["inputs"]["x"][1] == "16"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": [[1.0, 2.0]]}, "input 'x' axis 1"),
        ({"y": [[1.0]]}, "unknown input y"),
        ({}, "expected 1 input"),
        ({"x": "text"}, "could not convert"),
        ({"x": [[1.0], [1.0, 2.0]]}, "inhomogeneous"),
    ],
)
def test_requests_that_do_not_fit(client: Any, inputs: Any, message: str) -> None:
    answer = client.post("/predict", json={"inputs": inputs})
    assert answer.status_code == 422 and message in answer.json()["detail"]
    fine = client.post("/predict", json={"inputs": {"x": [[0.0] * 16]}})
    assert fine.status_code == 200
