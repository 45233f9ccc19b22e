"""The name of a model, for descriptions of its program."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any

import pytest

import tvm_disc
from tests.models import mlp
from tvm_disc.frontends.sources import model_name


class Encoder:
    """What a PyTorch module looks like."""

    def named_parameters(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (pathlib.Path("some/bert.onnx"), "bert"),
        (SimpleNamespace(graph=SimpleNamespace(name="main_graph")), "main_graph"),
        (SimpleNamespace(fun_name="loss"), "loss"),
        (Encoder(), "Encoder"),
        ('#[version = "0.0.5"]\ndef @main() { 1 }', ""),
        ("no file.relay", ""),
        (b"\0", ""),
        (mlp(hidden=4), ""),
        (SimpleNamespace(graph=3), ""),
    ],
)
def test_names(source: Any, name: str) -> None:
    assert model_name(source) == name


def test_a_saved_program_keeps_the_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "layers.relay"
    path.write_text(mlp(hidden=64).astext(), encoding="utf-8")
    exe = tvm_disc.build(path)
    exe.save(tmp_path / "x.so")
    for found in (exe, tvm_disc.load(tmp_path / "x.so")):
        assert found.explain().startswith(f"layers, compiled for {exe.level} (tvm_disc ")
