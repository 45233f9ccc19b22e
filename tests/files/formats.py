"""What is read of files, format by format: recorded seeds, damage, and the reader on trial."""

from __future__ import annotations

import json
import os
import random
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tvm_disc
from tests.files.mutations import Mutation, mutate_bytes, mutate_json, mutate_tokens, nested
from tests.files.protos import models, mutate_model
from tests.models import mlp
from tests.relay.helpers import DATA, JSONS, TEXTS
from tvm_disc import relay
from tvm_disc.abi import artifact
from tvm_disc.abi.manifest import checked_manifest
from tvm_disc.compile import prepare
from tvm_disc.errors import ParseError
from tvm_disc.frontends import from_onnx, sources
from tvm_disc.options import Options
from tvm_disc.relay_passes.versions import import_versions
from tvm_disc.schedules.dispatch import records
from tvm_disc.schedules.dispatch.learn import import_choice
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.tree import read_trees
from tvm_disc.schedules.select import variant_space
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace

LONGEST_SEED = 70_000  # bytes; longer ones make few cases a second
IMPORTED = 4_000  # bytes; modules up to this length are imported too


@dataclass(frozen=True)
class Format:
    """Seeds, what happens to them, and what must give a value or a ``DiscError``."""

    seeds: Callable[[], Sequence[bytes]]
    mutations: Sequence[Mutation]
    read: Callable[[bytes], object]

    def case(self, seed: str) -> bytes:
        """A damaged file; equal seeds give equal ones."""
        rng = random.Random(seed)
        data = rng.choice(self.seeds())
        return rng.choice(self.mutations)(data, rng)


class Unlocated(Exception):
    """An error of the right class that does not say where."""


class Accepted(Exception):
    """A damaged file that was taken for a good one."""


@cache
def _texts() -> list[bytes]:
    found = [p.read_bytes() for p in TEXTS if p.stat().st_size < LONGEST_SEED]
    cut = [t.partition(b"#[metadata]") for t in found]
    return [*found, *(b"".join(c) for c in cut if c[1]), *nested(2000)]


@cache
def _jsons() -> list[bytes]:
    return [*(p.read_bytes() for p in JSONS if p.stat().st_size < LONGEST_SEED), *nested(100_000)]


def _params() -> list[bytes]:
    return [p.read_bytes() for p in sorted(DATA.glob("printed/*.params"))]


@cache
def _programs() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mlp.so"
        tvm_disc.build(mlp()).save(path)
        return [path.read_bytes()]


@cache
def _groups() -> dict[str, Any]:
    """The groups of a program by key, each with its variants."""
    front = prepare(mlp(), None, None, (), Options(), Trace(0, None))
    groups = [k.group for k in front.library.kernels() if k.group is not None]
    spaces = ((g, variant_space(g, Solver(), front.machine).variants) for g in groups)
    return {group_key(g): (g, variants) for g, variants in spaces}


@cache
def _trees() -> list[bytes]:
    exe = tvm_disc.build(mlp())
    _groups()
    return [json.dumps({group: tree}).encode() for group, tree in exe.dispatch.items()]


@cache
def _records() -> list[bytes]:
    context = {"cpu": "c", "version": "1", "template": "t", "group": "dot"}
    variant = {"family": "f", "knobs": {"m": 4}, "parts": 1}
    lines = [{**context, "variant": variant, "dims": [m, 8], "ns": 5.0} for m in range(8)]
    return [b"".join(json.dumps(line).encode() + b"\n" for line in lines)]


@cache
def _onnx() -> list[bytes]:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    w = numpy_helper.from_array(np.ones((8, 4), "float32"), "w")
    shape = numpy_helper.from_array(np.array([-1, 2]), "shape")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [w, shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return [*[model.SerializeToString()] * 200, *models()]


def _file(suffix: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of paths as one of bytes."""

    def of_bytes(data: bytes) -> object:
        handle, name = tempfile.mkstemp(suffix=suffix)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            return read(Path(name))
        finally:
            os.unlink(name)

    return of_bytes


def _module(path: Path) -> object:
    """A file of text or JSON, imported if it is short; errors of parsing must say where."""
    try:
        found = sources.read(path)
    except ParseError as error:
        if not error.line and "node" not in str(error) and "graph" not in str(error):
            raise Unlocated(str(error)) from None
        raise
    if path.stat().st_size < IMPORTED:
        import_versions(found, None, (), False)
    return found


def _library(path: Path) -> object:
    with artifact.opened(path) as file:
        manifest, trailer = checked_manifest(path, file)
        artifact.check_library(path, file, trailer)
    if path.read_bytes() not in _programs():
        raise Accepted("a damaged library")
    return manifest


def _measured(path: Path) -> object:
    context = records.Context("c", "1", "t")
    found = records.read_records(path, context)
    return [found.group("dot"), found.problems(path)]


def _dispatch(path: Path) -> object:
    groups = _groups()
    return [
        import_choice(*groups[key], Solver(), data)
        for key, data in read_trees(path).items()
        if key in groups
    ]


def _model(path: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_onnx(path)


_TOKENS = (mutate_tokens, mutate_tokens, mutate_bytes)
_VALUES = (mutate_json, mutate_json, mutate_tokens, mutate_bytes)

FORMATS: dict[str, Format] = {
    "text": Format(_texts, _TOKENS, _file(".relay", _module)),
    "json": Format(_jsons, _VALUES, _file(".json", _module)),
    "params": Format(_params, (mutate_bytes,), relay.load_param_dict),
    "library": Format(_programs, (mutate_bytes,), _file(".so", _library)),
    "records": Format(_records, _VALUES, _file(".jsonl", _measured)),
    "dispatch": Format(_trees, _VALUES, _file(".json", _dispatch)),
    "onnx": Format(_onnx, (mutate_bytes, mutate_model, mutate_model), _file(".onnx", _model)),
}
