"""The tests of a package are in the folder of the same name below ``tests/``."""

from __future__ import annotations

from pathlib import Path

# Packages whose tests are in a folder of another package, which uses them.
ELSEWHERE = {"graph": "relay_passes", "relay_api": "relay", "jax": "frontends"}
# Folders of tests of the whole program, or of several packages at once.
ACROSS = {
    "build": "programs from build to result",
    "cuda": "programs for GPUs",
    "data": "models and other inputs of tests",
    "emulation": "programs for other processors, in QEMU",
    "executors": "Relay's executors, part of relay_api",
    "files": "damaged files, in every format",
    "fuzz": "random programs",
    "limits": "builds that lack memory, threads or disk space",
    "meta": "the source tree and its documents",
    "refusals": "bad arguments of every public function",
    "semantics": "special values, against the source frameworks",
}


def folders(path: Path) -> set[str]:
    """Return the names of the folders that contain Python files."""
    return {p.name for p in path.iterdir() if p.is_dir() and any(p.rglob("*.py"))}


def test_every_package_has_a_folder_of_tests(root: Path) -> None:
    for package in folders(root / "tvm_disc"):
        place = root / "tests" / ELSEWHERE.get(package, package)
        assert any(place.rglob("test_*.py")), f"no tests of {package} in {place}"


def test_every_folder_of_tests_names_a_package_or_its_purpose(root: Path) -> None:
    unknown = folders(root / "tests") - folders(root / "tvm_disc") - set(ACROSS)
    assert not unknown, f"move these to the folder of a package: {sorted(unknown)}"
    assert set(ELSEWHERE) <= {p.stem for p in (root / "tvm_disc").iterdir()}
