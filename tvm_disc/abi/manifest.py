"""Manifest of a saved program, and the check whether this package can load it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, TypeAlias

from tvm_disc.abi.artifact import Trailer, opened, read_description
from tvm_disc.errors import ArtifactError

Manifest: TypeAlias = Mapping[str, Any]

ABI_VERSION = 5
# keys that the runtime requires in every manifest
_REQUIRED = (
    *("inputs", "outputs", "results", "direct", "kernels", "launches"),
    *("calls", "shapes", "levels", "threads"),
)


@cache
def tvm_version() -> str:
    """Return the installed version of TVM, without importing it.

    Raises:
        ArtifactError: TVM is not installed.
    """
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        raise ArtifactError(
            "expected the package 'apache-tvm', whose runtime library runs saved programs, but it "
            "is not installed"
        ) from None


def signature_text(manifest: Mapping[str, Any]) -> str:
    """Return a string like ``(x: float32[n, 16]) -> (float32[n, 10])``."""
    inputs = ", ".join(f"{name}: {dtype}[{', '.join(d)}]" for name, d, dtype in manifest["inputs"])
    results = ", ".join(f"{dtype}[{', '.join(dims)}]" for dims, dtype in manifest["results"])
    return f"({inputs}) -> ({results})"


def read_manifest(path: Path) -> dict[str, object]:
    """Return the manifest of a saved program, for any processor, without loading the program.

    Raises:
        ArtifactError: the file is missing, not a saved program, damaged, or of a different version
            of the ABI or of TVM.
    """
    with opened(path) as file:
        return checked_manifest(path, file)[0]


def checked_manifest(path: Path, file: IO[bytes]) -> tuple[dict[str, object], Trailer]:
    """Return the manifest and the trailer of a file that this package can load."""
    manifest, trailer = read_description(path, file)
    if trailer.abi != ABI_VERSION:
        raise ArtifactError(
            f"{path}: saved with ABI version {trailer.abi}, this package reads "
            f"version {ABI_VERSION}; compile the model again"
        )
    missing = [key for key in ("tvm", *_REQUIRED) if key not in manifest]
    if missing:
        raise ArtifactError(
            f"{path}: the program's description lacks {', '.join(missing)}; compile the model again"
        )
    saved, found = str(manifest["tvm"]), tvm_version()
    if saved.split(".")[:2] != found.split(".")[:2]:
        raise ArtifactError(
            f"{path}: saved for apache-tvm {saved}, this process has {found}; compile the model "
            "again, or install the version it was saved for"
        )
    return manifest, trailer
