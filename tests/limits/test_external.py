"""External data of ONNX models: every hostile file is refused by name, and none is read."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

import tvm_disc  # noqa: E402
from tvm_disc.errors import BadInput  # noqa: E402
from tvm_disc.frontends.detect import files_of  # noqa: E402
from tvm_disc.frontends.onnx import external  # noqa: E402

WEIGHTS = np.arange(128 * 256, dtype="float32").reshape(128, 256)


def tensor(dims: Any = WEIGHTS.shape, dtype: int = TensorProto.FLOAT, **told: Any) -> Any:
    made = TensorProto(name="w", data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", **told}.items():
        made.external_data.add(key=key, value=str(value))
    return made


def saved(folder: Path, weights: Any) -> Path:
    """A model whose weights are in a file beside it."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 128])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 256])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def build(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tvm_disc.build(path, options=tvm_disc.Options(cache=str(path.parent / "cache")))


def sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            os.truncate(file.fileno(), size)

    return make


def plain(path: Path) -> None:
    path.write_bytes(WEIGHTS.tobytes())


def link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def nothing(path: Path) -> None:
    pass


MANY = (1 << 20, 1 << 19)  # 2 TiB of float32
HOSTILE: list[tuple[str, Callable[[Path], None], Any, str]] = [
    ("pipe", os.mkfifo, tensor(), r"w\.bin', which is a pipe, expected a regular file"),
    ("folder", Path.mkdir, tensor(), "which is a folder, expected a regular file"),
    ("device", link("/dev/zero"), tensor(), "is '/dev/zero', outside of the model's folder"),
    ("device, absolute", nothing, tensor(location="/dev/zero"), "expected a name relative to the"),
    ("link to a secret", link("/etc/passwd"), tensor(), "outside of the model's folder"),
    ("link in a circle", link("w.bin"), tensor(), "cannot be read: Too many levels"),
    ("above the folder", nothing, tensor(location="../w.bin"), "outside of the model's folder"),
    ("proc", nothing, tensor(location="../../../../proc/self/mem"), "outside of the model's"),
    ("no name", nothing, tensor(location=""), "expected a name relative to the model's folder"),
    ("zero byte", nothing, tensor(location="w\0.bin"), "expected a name relative to the model's"),
    ("long name", nothing, tensor(location="w" * 5000), "cannot be read: File name too long"),
    ("not there", nothing, tensor(), "which does not exist; keep it beside the model"),
    ("empty", sparse(0), tensor(), "which has 0 bytes; expected at least 131072"),
    ("short", sparse(131071), tensor(), "which has 131071 bytes; expected at least 131072"),
    ("offset", plain, tensor(offset=4), r"expected at least 131076, .* 131072 from byte 4 on"),
    ("sparse, whole", sparse(1 << 41), tensor(MANY), "the tensors have 2199023255552 bytes"),
    ("dims beyond 64 bits", sparse(9), tensor([1 << 40] * 3), "has 9 bytes; expected at least"),
    ("negative dim", plain, tensor((-128, 256)), r"expected dims of at least 0, found \[-128"),
    ("negative offset", plain, tensor(offset=-4), "expected the offset of its .* found '-4'"),
    ("offset of text", plain, tensor(offset="zero"), "expected the offset of its .* found 'zero'"),
    ("other length", plain, tensor(length=8), "need 131072 bytes, found a length of 8"),
    ("huge length", plain, tensor(length="9" * 30), "expected the length of its external data as"),
    ("text", plain, tensor(dtype=TensorProto.STRING), "element type STRING"),
]


@pytest.mark.parametrize(
    ("make", "weights", "message"), [h[1:] for h in HOSTILE], ids=[h[0] for h in HOSTILE]
)
def test_hostile_files_are_refused_unread(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], None],
    weights: Any,
    message: str,
) -> None:
    monkeypatch.setattr(external, "read_elements", lambda *_: pytest.fail("the file was read"))
    make(tmp_path / "w.bin")
    path = saved(tmp_path, weights)
    with pytest.raises(tvm_disc.DiscError, match=message) as caught:
        build(path)
    assert isinstance(caught.value, BadInput) or "element type" in message


def test_many_tensors_of_one_file_are_bounded_together(tmp_path: Path) -> None:
    """Each fits into memory, all of them do not."""
    most = external.memory_bytes()
    assert most is not None
    sparse(1 << 30)(tmp_path / "w.bin")
    path = saved(tmp_path, tensor((1 << 14, 1 << 14)))
    made = onnx.load(path, load_external_data=False)
    for k in range(most // (1 << 30) + 1):
        made.graph.initializer.add().CopyFrom(tensor((1 << 14, 1 << 14)))
        made.graph.initializer[-1].name = f"w{k}"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(
        BadInput, match=rf"the tensors have \d+ bytes in total .* this machine has {most} bytes"
    ):
        build(path)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, link("/dev/zero"), sparse(1 << 41)])
def test_a_model_that_is_no_regular_file_is_refused(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "m.onnx")
    with pytest.raises(
        BadInput, match=r"expected a regular file, .* is a|protobuf's limit is 2147483647"
    ):
        build(tmp_path / "m.onnx")


def right(path: Path) -> None:
    x = np.ones((3, 128), "float32")
    np.testing.assert_allclose(build(path)(x), x @ WEIGHTS, rtol=1e-5)


def test_a_file_with_a_tail_is_read_as_far_as_needed(tmp_path: Path) -> None:
    """2 TiB of which the tensor needs 128 KiB: only those are read, and no cache compares it."""
    plain(tmp_path / "w.bin")
    os.truncate(tmp_path / "w.bin", 1 << 41)
    path = saved(tmp_path, tensor(offset=0))
    assert files_of(path) is None
    right(path)


def test_links_within_the_folder_and_of_a_cache_of_downloads(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    plain(blobs / "1")
    saved(blobs, tensor()).rename(blobs / "2")
    (snapshot / "m.onnx").symlink_to("../blobs/2")
    (snapshot / "w.bin").symlink_to("../blobs/1")
    right(snapshot / "m.onnx")


@pytest.mark.parametrize("kind", ["int8", "float16", "int64", "float64", "uint8", "int32"])
def test_every_type_is_read(tmp_path: Path, kind: str) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    values = np.arange(40000).reshape(200, 200).astype(kind)
    (tmp_path / "w.bin").write_bytes(bytes(7) + values.tobytes())
    found = external.read_elements(tensor(values.shape, code, offset=7), str(tmp_path))
    if isinstance(found, bytes):
        assert found == values.tobytes()
    else:
        assert re.fullmatch(kind, str(found.dtype)) and np.array_equal(found, values)
