"""Export a row with PyTorch's exporters."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim

from benchmarks.zoo.row import Row
from tvm_disc.frontends.torch import exported

KEPT = Path("build/zoo")  # exported files, which later runs reuse: weights are always the same


class ExporterFailed(Exception):
    """Raised if none of PyTorch's exporters can export the model."""


def dynamic_shapes(row: Row) -> tuple[dict[int, Any], ...]:
    """Return the dims of every input in the form that ``torch.export`` requires."""
    names = sorted(row.combinations[0])
    bounds = {n: row.limits.get(n, (0, None)) for n in names}
    dims = {n: Dim(n, min=lo, max=hi) for n, (lo, hi) in bounds.items()}
    return tuple(
        {k: eval(a, {}, dict(dims)) for k, a in i.dynamic.items()} for i in row.inputs.values()
    )


def any_dims(row: Row) -> tuple[dict[int, Any], ...]:
    """Return unnamed dynamic dims: the exporter infers which dims depend on others."""
    return tuple(dict.fromkeys(i.dynamic, Dim.AUTO) for i in row.inputs.values())


def to_torch(row: Row, module: Any) -> tuple[Any, str]:
    """Return the exported program, with recurrent layers as one operator, and the exporter's
    options.
    """
    ways = (("named dims", dynamic_shapes), ("Dim.AUTO", any_dims))
    example = row.at(row.example)
    return first_of([(how, partial(exported, module, example, dims(row))) for how, dims in ways])


def to_onnx(row: Row, module: Any) -> tuple[Any, str]:
    """Return the ONNX model, and the exporter that wrote it."""
    import onnx

    use_plain_experts(module)

    def dynamo() -> Any:
        return torch.onnx.export(
            module, row.at(row.example), dynamic_shapes=dynamic_shapes(row), dynamo=True,
            input_names=list(row.inputs), verbose=False,
        ).model_proto  # fmt: skip

    def tracing() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            torch.onnx.export(
                module, row.at(row.example), str(path), dynamo=False, input_names=list(row.inputs),
                dynamic_axes={n: i.dynamic for n, i in row.inputs.items() if i.dynamic},
            )  # fmt: skip
            return onnx.load(str(path))

    ways = [("dynamo=True", dynamo), ("dynamo=False", tracing)]
    return first_of(ways[1:] if row.legacy else ways)


def use_plain_experts(module: Any) -> None:
    """Make mixtures of experts in transformers multiply batches of matrices.

    Their default, ``grouped_mm``, is an operator that neither of PyTorch's ONNX exporters supports.
    """
    for layer in module.modules():
        config = getattr(layer, "config", None)
        if hasattr(config, "_experts_implementation"):
            config._experts_implementation = "batched_mm"


def kept_onnx(row: Row, module: Any) -> tuple[Any, str]:
    """Return the ONNX model of an earlier run, or export it and save it for later runs."""
    import onnx

    file, said = KEPT / f"{row.name}.onnx", KEPT / f"{row.name}.txt"
    if file.exists() and said.exists():
        return onnx.load(str(file)), said.read_text()
    model, how = to_onnx(row, module)
    KEPT.mkdir(parents=True, exist_ok=True)
    file.write_bytes(model.SerializeToString())
    said.write_text(how)
    return model, how


def first_of(ways: list[tuple[str, Callable[[], Any]]]) -> tuple[Any, str]:
    """Return the result of the first exporter that succeeds, and its name with the earlier
    errors.
    """
    said = []
    for how, way in ways:
        try:
            with quiet(), torch.no_grad():
                return way(), "; ".join([how, *said])
        except Exception as error:  # exporters run the model, which can raise any class
            text = " ".join(str(error).split())
            said.append(f"{how}: {type(error).__name__}: {text[:300]}")
    raise ExporterFailed("; ".join(said))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the output of the exporters."""
    logging.disable(logging.WARNING)
    try:
        said = io.StringIO()
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


__all__ = ["ExporterFailed", "kept_onnx", "quiet", "to_onnx", "to_torch"]
