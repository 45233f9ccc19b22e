"""Support code in C: its LLVM IR is reproduced, and it passes tests under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegen.c_code import CORES, LOOP, SOURCES, Source, compiled, has_clang
from tvm_disc.codegen.threads.module import threads_code

TESTS = Path(__file__).parent / "c"
GCC = shutil.which("gcc")
needs_gcc = pytest.mark.skipif(GCC is None or sys.platform != "linux", reason="needs gcc on Linux")


@pytest.mark.skipif(not has_clang(), reason="needs ziglang")
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.path.name)
def test_the_ir_is_that_of_the_source(source: Source) -> None:
    written = source.path.with_suffix(".ll").read_text(encoding="utf-8")
    assert compiled(source) == written, "run: python -m tests.codegen.c_code --write"


@pytest.mark.parametrize(
    ("triple", "machine"), [("x86_64-linux-gnu", 62), ("aarch64-linux-gnu", 183)]
)
def test_every_architecture_contains_the_functions(triple: str, machine: int) -> None:
    code = b"".join(threads_code(triple, None).objects)
    assert code.startswith(b"\x7fELF") and int.from_bytes(code[18:20], "little") == machine
    assert b"sched_setaffinity" in code and b"/sys/fs/cgroup/cpu.max" in code
    assert b"disc.leave_core" not in code, "a function was not inlined"


def sanitized(
    source: Source, folder: Path, sanitizer: str, **changed: int
) -> subprocess.CompletedProcess[str]:
    """Compile the tests of a source with the system's compiler and a sanitizer, and run them."""
    tests = TESTS / f"{source.path.stem}_test.c"
    program = folder / tests.stem
    words = [f"-D{name}={value}" for name, value in {**source.definitions, **changed}.items()]
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-fsanitize={sanitizer}", "-pthread"]
    flags += ["-Wno-psabi", f"-I{source.path.parent}"]  # vectors are not passed between files
    command = [str(GCC), *flags, *words, str(tests), "-o", str(program), "-lm"]
    made = subprocess.run(command, capture_output=True, text=True)
    if "cannot find" in made.stderr:
        pytest.skip(f"the library of -fsanitize={sanitizer} is not installed")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not support the address layout of this kernel")
    return done


@needs_gcc
@pytest.mark.parametrize(
    ("source", "sanitizer"),
    [(CORES, "address,undefined"), (CORES, "thread"), (LOOP, "address,undefined")],
    ids=["cores-address", "cores-thread", "loop-address"],
)
def test_sanitizers_find_nothing(source: Source, sanitizer: str, tmp_path: Path) -> None:
    done = sanitized(source, tmp_path, sanitizer)
    assert (done.returncode, done.stderr) == (0, "")


@needs_gcc
@pytest.mark.parametrize(
    ("source", "sanitizer", "defect", "message"),
    [
        (CORES, "address,undefined", {"QUOTA": 64}, "global-buffer-overflow"),
        (CORES, "thread", {"RACE": 1}, "data race"),
        (LOOP, "address,undefined", {"SCRATCH_BYTES": 12}, "heap-buffer-overflow"),
    ],
)
def test_sanitizers_find_a_defect(
    source: Source, sanitizer: str, defect: dict[str, int], message: str, tmp_path: Path
) -> None:
    done = sanitized(source, tmp_path, sanitizer, **defect)
    assert done.returncode != 0 and message in done.stderr
