"""Import of TensorFlow's SavedModels through ONNX, by the converter `tf2onnx`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tvm_disc.errors import BadInput
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.onnx.model import from_onnx
from tvm_disc.relay.module import IRModule

OPSET = 18  # the newest that tf2onnx writes


def from_saved_model(folder: str | os.PathLike[str]) -> IRModule:
    """Return the Relay module of the signature ``serving_default`` of a SavedModel.

    A separate process converts the model, so that this process does not load TensorFlow.

    Raises:
        Unsupported: `tf2onnx` or TensorFlow is not installed, or an operator cannot be imported.
        BadInput: the converter failed; the message has the last line of its output.
    """
    require("tf2onnx", "tensorflow", "a SavedModel")
    require("tensorflow", "tensorflow", "a SavedModel")
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model.onnx"
        command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", os.fspath(folder)]
        command += ["--signature_def", "serving_default", "--opset", str(OPSET)]
        done = subprocess.run(
            [*command, "--output", str(model)],
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not model.is_file():
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise BadInput(f"{os.fspath(folder)!r}: tf2onnx cannot convert it: {said[-1][:400]}")
        return from_onnx(model)


__all__ = ["from_saved_model"]
