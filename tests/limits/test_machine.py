"""Builds with a full disk, no threads and little memory: built, or refused by name, no crash.

Each case is a process of its own, which prints ``built`` or the class and text of what was raised.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BUILD = """
import os, resource, sys, threading
import numpy as np
import tvm_disc
from tvm_disc import relay, relay_passes
from tvm_disc.schedules import select

tvm_disc.build  # imports the compiler
x = relay.var("x", shape=(relay.Any(), 32))
f = relay.Function([x], relay.nn.softmax(relay.exp(x)))
cache, save = sys.argv[1], sys.argv[2]
options = tvm_disc.Options(cache=cache if cache else False, threads=2)
{}
try:
    exe = tvm_disc.build(f, options=options)
    found = exe(np.zeros((3, 32), "float32"))
    assert abs(found - 1 / 32).max() < 1e-6
    if save:
        exe.save(save)
        assert (tvm_disc.load(save)(np.zeros((3, 32), "float32")) == found).all()
    print("built")
except tvm_disc.DiscError as error:
    print(type(error).__name__, error)
"""
FILES = "resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"
MEMORY = """
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {0},) * 2)
"""
THREADS = """
def start(*_, **__):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = threading._start_joinable_thread = start
"""
NO_MEMORY_FILES = """
from tvm_disc.codegen import llvm_process
llvm_process._memory_file = lambda: None
llvm_process.LEAST_FREE_BYTES = 1 << 60
"""


def outcome(
    change: str, cache: Path | str = "", save: Path | str = "", temporary: Path | None = None
) -> str:
    """What the build of a process says, which must end by itself."""
    environment = dict(os.environ)
    if temporary is not None:
        environment["TMPDIR"] = str(temporary)
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(change), str(cache), str(save)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-3000:])
    return done.stdout.strip()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder without space: of a file system of its own, where this user may mount one."""
    folder = tmp_path / "full"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        folder = Path("/dev/full")  # every write to it fails for want of space
        yield folder
        return
    with (folder / "fill").open("wb", buffering=0) as file:
        while (free := os.statvfs(folder).f_bavail) > 4:
            file.write(bytes(min(free - 4, 16) * os.statvfs(folder).f_frsize))
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_folder_for_temporary_files_ends_no_process(full: Path, tmp_path: Path) -> None:
    assert outcome("", temporary=full) == "built"
    assert outcome("", cache=tmp_path / "cache", temporary=full) == "built"
    # Machine code is in memory; a file that is wanted on the full disk is refused by name.
    if full.is_dir():
        found = outcome("", save=full / "program.so", temporary=full)
        said = r"OutOfResources \S+: a file of \d+ bytes cannot be written: No space left on device"
        assert re.match(said, found)


@pytest.mark.parametrize("most", [4096, 10 << 20])
def test_a_limit_on_file_sizes(tmp_path: Path, most: int) -> None:
    found = outcome(FILES.format(most), cache=tmp_path / "cache")
    if most > 1 << 20:
        assert found == "built"
    else:
        assert found.startswith(
            "OutOfResources machine code: files of this process are limited to 4096"
        )
        assert found.endswith("raise the limit")


def test_a_full_disk_on_a_system_without_files_in_memory() -> None:
    found = outcome(NO_MEMORY_FILES)
    assert re.match(r"OutOfResources .*tvm_disc\.\w+: a file cannot be written: No space", found)
    assert "bytes are free); free space" in found


def test_no_thread_can_be_started(tmp_path: Path) -> None:
    assert outcome(THREADS) == "built"
    assert outcome(THREADS, cache=tmp_path / "cache") == "built"


def test_no_thread_for_what_needs_one() -> None:
    found = outcome(THREADS + "\noptions = tvm_disc.Options(cache=False, time_limit=600)")
    assert found.startswith("OutOfResources the build: the system cannot start more threads")


@pytest.mark.parametrize("megabytes", [4, 40, 90, 200])
def test_little_memory_is_refused(tmp_path: Path, megabytes: int) -> None:
    found = outcome(MEMORY.format(megabytes << 20), cache=tmp_path / "cache")
    said = r"OutOfMemory (the build: out of memory|machine code: LLVM may need \d+ bytes)"
    assert re.match(said, found) or (megabytes > 4 and found == "built")


def test_enough_memory_is_enough() -> None:
    assert outcome(MEMORY.format(1 << 30)) == "built"
