"""The C++ example, built with CMake against the installed packages, on saved programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import tvm_disc
from tests.language_step import step_of
from tests.models import function, mlp, mlp_reference, rows
from tests.processor import absent_for, needs
from tvm_disc import relay
from tvm_disc.abi import generation
from tvm_disc.codegen import export
from tvm_disc.support.processor import HIDDEN, PLAIN, architecture

MISSING = [tool for tool in ("cmake", "g++") if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")


def run(
    *command: Any, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    words, environment = [str(c) for c in command], {**os.environ, **variables}
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env=environment, cwd=cwd
    )


@pytest.fixture(scope="module")
def program(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpp")
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    for command in (
        ("cmake", "-S", root / "examples" / "cpp", "-B", folder, python),
        ("cmake", "--build", folder),
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run_program"


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved language model with 97 tokens."""
    options = tvm_disc.Options(state=["past_*"])
    path = tmp_path_factory.mktemp("language") / "lm.so"
    tvm_disc.build(step_of(97), options=options).save(path)
    return path


@pytest.mark.parametrize("most", [0, 1, 2, 90])
@pytest.mark.parametrize("prompt", [[5], [1, 2, 3, 4, 5, 6, 7]])
def test_generates_the_tokens_of_python(
    program: Path, language: Path, prompt: list[int], most: int
) -> None:
    done = run(program.with_name("generate_text"), language, most, ",".join(map(str, prompt)))
    assert done.returncode == 0, done.stderr
    lm = tvm_disc.language_model(tvm_disc.load(language))
    expected = [int(word[0]) for word in tvm_disc.generate(lm, [prompt], most)]
    assert list(map(int, done.stdout.split())) == expected


def test_samples_and_stops(program: Path, language: Path) -> None:
    def texts(*choice: Any) -> list[int]:
        done = run(program.with_name("generate_text"), language, 60, "3,4", *choice)
        assert done.returncode == 0, done.stderr
        return list(map(int, done.stdout.split()))

    first = texts(1.0, 0, 1.0, 1.0, 1)
    assert len(first) == 60 and first == texts(1.0, 0, 1.0, 1.0, 1)
    assert first != texts(1.0, 0, 1.0, 1.0, 2)
    assert texts(1.0, 1, 1.0, 1.0, 1) == texts(0.0, 0, 1.0, 1.0, 1)
    assert len(set(texts(0.0, 0, 1.0, 1e6, 0))) > 30
    at = first.index(first[20])
    assert texts(1.0, 0, 1.0, 1.0, 1, first[20]) == first[: at + 1]


def test_refusals_of_texts(program: Path, language: Path, saved: Path) -> None:
    generate = program.with_name("generate_text")
    for words, message in (
        ((language, 5, "97"), "prompt: expected tokens 0 .. 96, found 97"),
        ((language, -1, "1"), "expected a prompt of at least one token"),
        ((language, 5, "1", 1.0, 0, 1.5, 1.0, 0), "choice: expected temperature and top_k from 0"),
        ((saved, 5, "1"), "expected a language model, with inputs ids, mask and positions, found"),
    ):
        done = run(generate, *words)
        assert done.returncode == 1 and message in done.stderr


def test_the_header_has_the_layout_of_the_plan(root: Path) -> None:
    text = (root / "tvm_disc" / "cpp" / "tvm_disc_language.h").read_text()
    words = text.partition("enum Word {")[2].partition("}")[0].replace(",", " ").split()
    assert words.pop() == "kPlanWords" and len(words) == len(generation.PlanWord)
    for number, word in enumerate(words):
        name = "".join(f"_{c}" if c.isupper() else c.upper() for c in word[1:]).lstrip("_")
        assert generation.PlanWord[name] == number
    scratch = (
        f"kScratchBytes = {generation.SCRATCH_BYTES}, kScratchMore = 16 * {generation.BINS} + 64"
    )
    assert scratch in text and generation.SCRATCH_MORE == 16 * generation.BINS + 64


def test_cmake_accepts_a_relative_python(root: Path, tmp_path: Path) -> None:
    """A relative path of the command line starts at the directory where cmake runs."""
    (tmp_path / "venv").symlink_to(sys.prefix)
    python = f"-DPython3_EXECUTABLE=venv/bin/{Path(sys.executable).name}"
    done = run("cmake", "-S", root / "examples" / "cpp", "-B", "built", python, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cached = (tmp_path / "built" / "CMakeCache.txt").read_text()
    assert f"Python3_EXECUTABLE:FILEPATH={tmp_path}/venv/bin/" in cached


def test_cmake_names_a_python_without_tvm(root: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = f"-DPython3_EXECUTABLE={tmp_path}/bare/bin/python"
    done = run("cmake", "-S", root / "examples" / "cpp", "-B", tmp_path / "built", python)
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert f"expected a Python with the package tvm, found {tmp_path}/bare/bin/python" in message


def test_runs_every_shape(program: Path, saved: Path) -> None:
    done = run(program, saved, 16, 1, 7, 64, 1000, 0)
    assert done.returncode == 0, done.stderr
    signature, *lines = done.stdout.splitlines()
    assert signature == "(x: float32[x_0, 16]) -> (float32[x_0, 10])"
    assert len(lines) == 5
    for n, line in zip((1, 7, 64, 1000, 0), lines, strict=True):
        head, _, total = line.partition(", sum ")
        assert head == f"{n}x16 -> {n} 10"
        x = (np.arange(n * 16) % 7 - 3).astype("float32").reshape(n, 16)
        np.testing.assert_allclose(float(total), mlp_reference(x).sum(), rtol=1e-4)


def test_a_name_without_a_folder_is_a_file_here(
    program: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    done = run(program, saved.name, 16, 7)
    assert "7x16 -> 7 10" in done.stdout, done.stderr


def test_a_failed_guard_is_an_exception(program: Path, tmp_path: Path) -> None:
    x = rows("n", "m")
    path = tmp_path / "guarded.so"
    constraints = ["n % 4 == 0"]
    tvm_disc.build(function(x, relay.exp(x)), constraints=constraints).save(path)
    done = run(program, path, 3, 8, 6)
    assert done.returncode == 1 and "8x3 -> 8 3" in done.stdout
    assert "error:" in done.stderr and "n" in done.stderr


def test_other_files_and_versions_are_refused(
    program: Path, saved: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert "error:" in run(program, text, 16, 1).stderr
    other = Path(tvm_ffi.__file__).parent / "lib" / "libtvm_ffi.so"
    assert "not a program saved by tvm_disc" in run(program, other, 16, 1).stderr
    part = tmp_path / "part.so"
    part.write_bytes(saved.read_bytes()[:-1000])
    assert "or truncated; save or copy it again" in run(program, part, 16, 1).stderr
    assert "No such file" in run(program, tmp_path / "none.so", 16, 1).stderr
    header = (root / "tvm_disc" / "cpp" / "tvm_disc.h").read_text()
    assert f"kAbiVersion = {export.ABI_VERSION};" in header
    monkeypatch.setattr(export, "ABI_VERSION", 9)
    x = rows("n", 4)
    tvm_disc.build(function(x, relay.exp(x))).save(tmp_path / "new.so")
    found = run(program, tmp_path / "new.so", 4, 1).stderr
    assert "saved with ABI version 9, this header reads version" in found


@pytest.mark.skipif(architecture() != "x86_64", reason="about x86-64")
def test_another_processor_is_refused(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "v3.so"
    tvm_disc.build(mlp(), target="llvm -mcpu=x86-64-v3").save(path)
    found = run(program, path, 16, 1, **{HIDDEN: "avx*,fma"})
    assert found.returncode == 1
    assert found.stdout == ""
    assert found.stderr.startswith(f"error: {path}: this processor lacks avx, ")
    assert '(for x86-64-v3); build the program with target="llvm -mcpu=x86-64' in found.stderr


@needs(*PLAIN["x86_64"]["x86-64-v2"])
def test_several_levels(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "levels.so"
    tvm_disc.build(mlp(), target=["x86-64", "x86-64-v2", "x86-64-v4"]).save(path)
    best = "x86-64-v2" if absent_for("x86-64-v4") else "x86-64-v4"
    results = []
    for level, words in ((best, []), ("x86-64", ["--level", "x86-64"])):
        done = run(program, *words, path, 16, 1, 7)
        assert done.returncode == 0, done.stderr
        _, name, *lines = done.stdout.splitlines()
        assert name == f"level {level}"
        results.append([float(line.partition(", sum ")[2]) for line in lines])
    np.testing.assert_allclose(*results, rtol=1e-4)
    found = run(program, "--level", "znver9", path, 16, 1)
    assert found.stderr == f"error: {path}: has no level called znver9\n"
    found = run(program, "--level", "x86-64-v4", path, 16, 1, **{HIDDEN: "avx512*"})
    assert "this processor lacks avx512f" in found.stderr
