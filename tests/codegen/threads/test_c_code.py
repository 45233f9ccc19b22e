"""Support code in C: its LLVM IR is reproduced, and it passes tests under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegen.threads.c_code import SOURCE, compiled, definitions, has_clang
from tvm_disc.codegen.threads.module import threads_code

TESTS = Path(__file__).with_name("cores_test.c")
GCC = shutil.which("gcc")
needs_gcc = pytest.mark.skipif(GCC is None or sys.platform != "linux", reason="needs gcc on Linux")


@pytest.mark.skipif(not has_clang(), reason="needs ziglang")
def test_the_ir_is_that_of_the_source() -> None:
    written = SOURCE.with_suffix(".ll").read_text(encoding="utf-8")
    assert compiled() == written, "run: python -m tests.codegen.threads.c_code --write"


@pytest.mark.parametrize(
    ("triple", "machine"), [("x86_64-linux-gnu", 62), ("aarch64-linux-gnu", 183)]
)
def test_every_architecture_contains_the_functions(triple: str, machine: int) -> None:
    code = b"".join(threads_code(triple, None).objects)
    assert code.startswith(b"\x7fELF") and int.from_bytes(code[18:20], "little") == machine
    assert b"sched_setaffinity" in code and b"/sys/fs/cgroup/cpu.max" in code
    assert b"disc.leave_core" not in code, "a function was not inlined"


def sanitized(folder: Path, sanitizer: str, **changed: int) -> subprocess.CompletedProcess[str]:
    """Compile the tests with the system's compiler and a sanitizer, and run them."""
    program = folder / "cores_test"
    words = [f"-D{name}={value}" for name, value in {**definitions(), **changed}.items()]
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-fsanitize={sanitizer}", "-pthread"]
    command = [str(GCC), *flags, *words, f"-I{SOURCE.parent}", str(TESTS), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True)
    if "cannot find" in made.stderr:
        pytest.skip(f"the library of -fsanitize={sanitizer} is not installed")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not support the address layout of this kernel")
    return done


@needs_gcc
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(sanitizer: str, tmp_path: Path) -> None:
    done = sanitized(tmp_path, sanitizer)
    assert (done.returncode, done.stderr) == (0, "")


@needs_gcc
@pytest.mark.parametrize(
    ("sanitizer", "defect", "message"),
    [
        ("address,undefined", {"QUOTA": 64}, "global-buffer-overflow"),
        ("thread", {"RACE": 1}, "data race"),
    ],
)
def test_sanitizers_find_a_defect(
    sanitizer: str, defect: dict[str, int], message: str, tmp_path: Path
) -> None:
    done = sanitized(tmp_path, sanitizer, **defect)
    assert done.returncode != 0 and message in done.stderr
