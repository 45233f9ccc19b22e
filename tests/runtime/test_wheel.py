"""A wheel, installed into a fresh environment: it is complete without the source tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tvm_disc

NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "tvm_disc")
PROGRAM = """
import numpy as np
import tvm_disc
from tvm_disc import relay

x = relay.var("x", shape=(relay.Any("rows"), 4), dtype="float32")
exe = tvm_disc.build(relay.Function([x], relay.nn.softmax(x)))
assert exe(np.ones((3, 4), "float32")).shape == (3, 4)
exe.save("model.so")
assert tvm_disc.load("model.so")(np.ones((5, 4), "float32")).shape == (5, 4)
print(tvm_disc.__file__)
print(tvm_disc.cmake_dir())
"""


def run(*command: Any, cwd: Path) -> str:
    """The output of a command, which must succeed."""
    words = [str(c) for c in command]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the package."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in NEEDED:
        if (root / name).is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / name, folder / name, ignore=skip)
        else:
            shutil.copy(root / name, folder)
    run(sys.executable, "setup.py", "-q", "bdist_wheel", cwd=folder)
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = folder / "lib" / version / "site-packages"
    found = folder / "bin" / "python"
    run(found, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def test_the_wheel_has_what_other_languages_need(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"tvm_disc/py.typed", "tvm_disc/cpp/tvm_disc.h"} <= names
    assert "tvm_disc/cpp/tvm_disc-config.cmake" in names
    assert not [name for name in names if not name.startswith("tvm_disc")]


def test_the_metadata_is_what_an_index_shows(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as found:
        (name,) = (n for n in found.namelist() if n.endswith("/METADATA"))
        lines = found.read(name).decode().partition("\n\n")[0].splitlines()
    assert "License-Expression: Apache-2.0" in lines
    assert not [x for x in lines if x.startswith(("License:", "Classifier: License"))]
    needed = [x.split()[1] for x in lines if x.startswith("Requires-Dist") and "extra" not in x]
    names = sorted(re.split("[<>=!]", x)[0] for x in needed)
    assert names == ["apache-tvm", "apache-tvm-ffi", "numpy", "tqdm"]
    assert wheel.stat().st_size < 4 << 20


def test_it_compiles_runs_and_is_consistent(
    python: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    place, cmake_dir = run(python, "program.py", cwd=tmp_path).split()
    assert Path(place).is_relative_to(python.parents[1])
    command = run(python.parent / "tvm-disc", "--version", cwd=tmp_path)
    assert command.split() == ["tvm-disc", tvm_disc.__version__]
    if shutil.which("cmake") and shutil.which("g++"):
        shutil.copytree(root / "examples" / "cpp", tmp_path / "cpp")
        options = (f"-Dtvm_disc_DIR={cmake_dir}", f"-DPython3_EXECUTABLE={python}")
        run("cmake", "-S", "cpp", "-B", "built", *options, cwd=tmp_path)
        run("cmake", "--build", "built", cwd=tmp_path)
        assert "7x4 -> 7 4, sum 7" in run("built/run_program", "model.so", 4, 7, cwd=tmp_path)
    # Of the environment that this one extends, only the packages that tvm_disc needs count.
    broken = [x for x in check(python, tmp_path) if x.startswith(("tvm_disc ", "tvm-disc "))]
    assert broken == []


def check(python: Path, folder: Path) -> list[str]:
    """The complaints of ``pip check``."""
    command = [str(python), "-m", "pip", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0 or "requires" in done.stdout or "requirement" in done.stdout, (
        done.stdout + done.stderr
    )
    return done.stdout.splitlines()
