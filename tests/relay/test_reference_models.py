"""The NumPy references together: whole recorded models against their recorded outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tvm_disc import relay

from .helpers import DATA, run

MODELS = ["bert", "cnn", "dlrm"]
PRINTED = ["dense_bias_relu", "broadcast_any", "encoder_layer_dyn", "cnn_dyn_hw", "size_var"]


@pytest.mark.parametrize("name", MODELS)
def test_imported_models(name: str) -> None:
    mod = relay.parse((DATA / "models" / f"{name}.relay").read_text())
    data = np.load(DATA / "models" / f"{name}.npz")
    cases = sorted({key.split(".")[0] for key in data.files})
    assert cases
    for case in cases:
        inputs = {p.name_hint: data[f"{case}.{p.name_hint}"] for p in mod["main"].params}
        out = run(mod["main"], inputs)
        np.testing.assert_allclose(out, data[f"{case}.y"], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", PRINTED)
def test_recorded_relay_runs(name: str) -> None:
    path: Path = DATA / "printed" / f"{name}.npz"
    mod = relay.load_json(path.with_suffix(".json").read_text())
    params = path.with_suffix(".params")
    weights = relay.load_param_dict(params.read_bytes()) if params.exists() else {}
    data = np.load(path)
    free = [p.name_hint for p in mod["main"].params if p.name_hint not in weights]
    cases = sorted({key.rsplit("_", 1)[0] for key in data.files if "_in" in key})
    assert cases, data.files
    for case in cases:
        inputs = {n: data[f"{case}_in{i}"] for i, n in enumerate(free)}
        out = run(mod["main"], {**weights, **inputs})
        np.testing.assert_allclose(out, data[f"{case}_out0"], rtol=2e-4, atol=2e-5)
