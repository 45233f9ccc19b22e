"""Small models of transformers through ``build(nn.Module)`` and ``torch.compile(dynamic=True)``.

``python -m benchmarks.zoo`` runs the whole table, ONNX included; these are a fast choice from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import tvm_disc  # noqa: E402
from benchmarks.zoo import causal, varied  # noqa: E402, F401
from benchmarks.zoo.check import largest_error  # noqa: E402
from benchmarks.zoo.row import ROWS, Row, first_tensors  # noqa: E402
from tvm_disc import dynamo  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def made(row: Row) -> Any:
    torch.manual_seed(0)
    return row.make().eval()


def arrays(result: Any) -> list[Any]:
    return [t.numpy() for t in first_tensors(result)]


@pytest.mark.parametrize("name", ["gemma3", "mixtral", "modernbert"])
def test_compiled_graphs(name: str) -> None:
    row = ROWS[name]
    model = made(row)
    fast = torch.compile(model, backend=dynamo.backend, dynamic=True)
    with torch.no_grad(), dynamo.reporting() as report:
        for dims in ({"b": 2, "s": 13}, {"b": 3, "s": 31}, {"b": 5, "s": 7}):
            given = row.at(dims)
            assert largest_error(arrays(fast(*given)), arrays(model(*given))) < 1e-4, dims
    assert report.share >= 0.95 and report.fallbacks == 0, report


@pytest.mark.parametrize("name", ["qwen3", "patchtst"])
def test_built_modules(name: str) -> None:
    row = ROWS[name]
    model = made(row)
    exe = tvm_disc.build(model, example_inputs=row.at(row.example))
    with torch.no_grad():
        for dims in row.combinations[:4]:
            given = row.at(dims)
            assert largest_error(arrays(exe(*given)), arrays(model(*given))) < 1e-4, dims


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss", "rt_detr"])
def test_selections_do_not_depend_on_rounding(name: str) -> None:
    """Rows that select by score (experts, queries) must select the same in float64.

    Otherwise two correct programs give different results, and the row tests nothing.
    """
    row = ROWS[name]
    model, exact = made(row), made(row).double()
    if hasattr(exact.model.config, "_experts_implementation"):
        exact.model.config._experts_implementation = "eager"  # grouped_mm has no float64
    with torch.no_grad():
        for dims in row.combinations:
            if 0 in dims.values():  # PyTorch does not run these models on empty inputs
                continue
            given = row.at(dims)
            wide = [t.double() if t.is_floating_point() else t for t in given]
            assert largest_error(arrays(model(*given)), arrays(exact(*wide))) < 1e-4, dims
