"""The file of a saved program: whole or refused before the system maps it; replaced as a whole."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.abi import artifact
from tvm_disc.abi.manifest import ABI_VERSION, read_manifest, signature_text
from tvm_disc.errors import ArtifactError, BadInput


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "exp.so"
    x = rows("n")
    tvm_disc.build(function(x, relay.exp(x))).save(path)
    return path


def changed(saved: Path, tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / saved.name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("part", range(24))
def test_a_file_cut_short_is_refused(saved: Path, tmp_path: Path, part: int) -> None:
    data = saved.read_bytes()
    path = changed(saved, tmp_path, data[: len(data) * part // 24])
    with pytest.raises(ArtifactError, match=r"truncated.*save or copy it again"):
        tvm_disc.load(path)


@pytest.mark.parametrize("seed", range(48))
def test_a_damaged_file_is_refused(saved: Path, tmp_path: Path, seed: int) -> None:
    data, source = bytearray(saved.read_bytes()), random.Random(seed)
    for _ in range(source.choice([1, 1, 8])):
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    with pytest.raises(ArtifactError, match="save or copy it again"):
        tvm_disc.load(changed(saved, tmp_path, bytes(data)))


@pytest.mark.parametrize("behind", range(1, artifact.TRAILER_BYTES + 1))
def test_every_byte_of_the_trailer_counts(saved: Path, tmp_path: Path, behind: int) -> None:
    data = bytearray(saved.read_bytes())
    data[-behind] ^= 0x10
    with pytest.raises(ArtifactError, match=r"exp.so: .*(damaged|truncated)"):
        tvm_disc.load(changed(saved, tmp_path, bytes(data)))


def test_more_bytes_are_refused(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    with pytest.raises(ArtifactError, match="truncated"):
        tvm_disc.load(changed(saved, tmp_path, data + b"more"))
    with pytest.raises(ArtifactError, match=f"expected {len(data)} bytes, found {len(data) + 4}"):
        tvm_disc.load(changed(saved, tmp_path, b"more" + data))


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"not JSON", "description is not JSON"),
        (b"[" * 100_000, "description is not JSON"),
        (b"[]", "expected the program's description as an object, found list"),
        (b'{"tvm": "0.27.0"}', "description lacks inputs, outputs"),
    ],
)
def test_a_description_that_is_none(
    saved: Path, tmp_path: Path, manifest: bytes, message: str
) -> None:
    trailer = artifact.Trailer(ABI_VERSION, 0, 4, len(manifest))
    path = changed(saved, tmp_path, b"code" + manifest + trailer.pack(manifest))
    with pytest.raises(ArtifactError, match=message):
        tvm_disc.load(path)


def test_the_description_is_read_without_the_library(saved: Path, tmp_path: Path) -> None:
    data = bytearray(saved.read_bytes())
    data[18] = 183  # the processor that the library is for: aarch64
    path = changed(saved, tmp_path, bytes(data))
    assert signature_text(read_manifest(path)) == "(x: float32[n]) -> (float32[n])"


def test_a_library_for_another_processor(saved: Path, tmp_path: Path) -> None:
    with saved.open("rb") as file:
        _, trailer = artifact.read_description(saved, file)
    library = bytearray(saved.read_bytes()[: trailer.library_bytes])
    library[18] = 183
    path = changed(saved, tmp_path, bytes(library))
    artifact.append_manifest(path, read_manifest(saved), ABI_VERSION)
    with pytest.raises(ArtifactError, match=r"saved for aarch64, this machine is"):
        tvm_disc.load(path)


def test_a_name_that_no_file_has(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="load: expected a valid path"):
        tvm_disc.load(tmp_path / "zero\0byte")


@pytest.mark.parametrize("name", ["folder", "pipe"])
def test_what_is_no_plain_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArtifactError, match=r"a folder or a device|cannot be read"):
        tvm_disc.load(tmp_path / name)


def test_a_program_is_replaced_as_a_whole(tmp_path: Path) -> None:
    x, path = rows("n"), tmp_path / "model.so"
    one, two = (
        tvm_disc.build(function(x, relay.add(x, relay.const(np.float32(k))))) for k in (1, 2)
    )
    one.save(path)
    old = path.read_bytes()
    with pytest.raises(ArtifactError, match="needs a C compiler"):
        two.save(path, compiler="no-such-compiler")
    assert path.read_bytes() == old and os.listdir(tmp_path) == ["model.so"]
    link = tmp_path / "link.so"
    link.symlink_to(path)
    two.save(link)
    assert link.is_symlink() and path.read_bytes() != old
    assert sorted(os.listdir(tmp_path)) == ["link.so", "model.so"]


def test_where_nothing_can_be_saved(tmp_path: Path) -> None:
    exe = tvm_disc.build(function(x := rows("n"), relay.exp(x)))
    for path, message in (
        (tmp_path / "none" / "model.so", "there is no folder"),
        (tmp_path, "expected the name of a file, found a folder or a device"),
        (Path("/dev/null"), "expected the name of a file"),
        (Path("/proc/model.so"), "cannot be written"),
    ):
        with pytest.raises(ArtifactError, match=message):
            exe.save(path)
