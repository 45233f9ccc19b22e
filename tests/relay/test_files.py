"""Modules read from files, by ``build`` and by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import ArtifactError, BadInput, ParseError
from tvm_disc.relay.files import load_file

DATA = Path(__file__).resolve().parents[1] / "data" / "relay" / "printed"
ROWS = (1, 7, 64)


@pytest.mark.parametrize("name", ["dense_bias_relu.relay", "dense_bias_relu.json"])
@pytest.mark.parametrize("kind", [Path, str])
def test_build_takes_the_path_of_a_module(name: str, kind: type) -> None:
    exe = tvm_disc.build(kind(DATA / name), options=tvm_disc.Options(load=False))
    assert [dtype for _, _, dtype in exe.signature] == ["float32"] * len(exe.signature)
    assert repr(exe).startswith(f"<tvm_disc program ({exe.signature[0][0]}: float32[")


def test_errors_name_the_file(tmp_path: Path) -> None:
    bad = tmp_path / "bad.relay"
    bad.write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?), float32]) { nn.relux(%x) }')
    with pytest.raises(ParseError, match=rf"{bad}:2:\d+: "):
        load_file(bad)
    binary = tmp_path / "model.relay"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="expected Relay text or JSON, found a binary file"):
        tvm_disc.build(binary)
    with pytest.raises(BadInput, match=r"nowhere\.relay: No such file"):
        tvm_disc.build("nowhere.relay")


def test_a_program_is_saved_into_a_folder_that_exists(tmp_path: Path) -> None:
    exe = tvm_disc.build(DATA / "dense_bias_relu.relay", options=tvm_disc.Options(load=False))
    with pytest.raises(ArtifactError, match="there is no folder"):
        exe.save(tmp_path / "missing" / "model.so")


def test_objects_are_no_numbers() -> None:
    x = tvm_disc.relay.var("x", shape=(tvm_disc.relay.Any(),), dtype="float32")
    exe = tvm_disc.build(tvm_disc.relay.Function([x], tvm_disc.relay.nn.relu(x)))
    with pytest.raises(BadInput, match="input 'x': expected dtype float32, found object"):
        exe(np.array([object()]))
    for n in ROWS:
        assert exe(np.ones(n, "float32")).shape == (n,)


def test_params_are_taken_from_a_file(tmp_path: Path) -> None:
    x, w = (relay.var(name, shape=(3, 4), dtype="float32") for name in "xw")
    weight, path = np.full((3, 4), 2, "float32"), tmp_path / "weights.params"
    path.write_bytes(relay.save_param_dict({"w": weight}))
    exe = tvm_disc.build(relay.Function([x, w], relay.add(x, w)), params=path)
    assert [name for name, _, _ in exe.signature] == ["x"]
    np.testing.assert_array_equal(exe(np.ones((3, 4), "float32")), weight + 1)
    with pytest.raises(BadInput, match=r"none\.params: No such file"):
        tvm_disc.build(relay.Function([x, w], relay.add(x, w)), params=tmp_path / "none.params")
    path.write_bytes(b"words")
    with pytest.raises(ParseError, match=rf"{path}: a parameter file is truncated or damaged"):
        tvm_disc.build(relay.Function([x, w], relay.add(x, w)), params=str(path))
