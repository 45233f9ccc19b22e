"""The classes of docs/guides/deploy.md, with stubs of Triton's and KServe's interfaces."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import mlp

SIZES = (0, 1, 7, 64, 331)


@pytest.fixture(scope="module")
def exe() -> Any:
    return tvm_disc.build(mlp())


def stubs() -> tuple[ModuleType, ModuleType]:
    """The parts of both packages that the page uses."""
    triton: Any = ModuleType("triton_python_backend_utils")
    triton.get_input_tensor_by_name = lambda request, name: request[name]
    triton.TritonError = lambda message: message
    triton.Tensor = lambda name, array: SimpleNamespace(name=name, array=array)

    def response(output_tensors: Any = (), error: Any = None) -> Any:
        return SimpleNamespace(tensors=output_tensors, error=error)

    triton.InferenceResponse = response
    kserve: Any = ModuleType("kserve")
    kserve.Model = type("Model", (), {"__init__": lambda self, name: None, "ready": False})
    return triton, kserve


@pytest.fixture
def page(exe: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page's code defines; the library is in a folder of Triton's form."""
    (tmp_path / "1").mkdir()
    exe.save(tmp_path / "1" / "model.so")
    for stub in stubs():
        monkeypatch.setitem(sys.modules, stub.__name__, stub)
    text = (root / "docs" / "guides" / "deploy.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.setenv("MODELS", str(tmp_path / "1"))
    code = "\n".join(blocks)
    found: dict[str, Any] = {}
    exec(compile(code, "deploy.md", "exec"), found)
    return found


def test_triton(page: dict[str, Any], exe: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    model = page["TritonPythonModel"]()
    model.initialize({"model_repository": str(tmp_path), "model_version": "1"})
    given = [rng.standard_normal((n, 16)).astype("float32") for n in SIZES]
    requests = [{"x": SimpleNamespace(as_numpy=lambda x=x: x)} for x in given]
    for x, answer in zip(given, model.execute(requests), strict=True):
        assert answer.error is None and answer.tensors[0].name == "result_0"
        np.testing.assert_array_equal(answer.tensors[0].array, exe(x))


def test_triton_answers_a_bad_request(page: dict[str, Any], tmp_path: Path) -> None:
    model = page["TritonPythonModel"]()
    model.initialize({"model_repository": str(tmp_path), "model_version": "1"})
    wrong = SimpleNamespace(as_numpy=lambda: np.zeros((3, 5), "float32"))
    fine = SimpleNamespace(as_numpy=lambda: np.zeros((3, 16), "float32"))
    first, second = model.execute([{"x": wrong}, {"x": fine}])
    assert "input 'x' axis 1: expected 16" in first.error and second.error is None


def test_kserve(page: dict[str, Any], exe: Any, rng: np.random.Generator) -> None:
    model = page["Encoder"]("encoder")
    model.load()
    assert model.ready
    for n in SIZES:
        x = rng.standard_normal((n, 16)).astype("float32")
        tensor = {"name": "x", "shape": [n, 16], "data": x.reshape(-1).tolist()}
        found = model.predict({"inputs": [tensor]})["predictions"]
        np.testing.assert_allclose(np.reshape(found, (n, 10)), exe(x), rtol=1e-6)
