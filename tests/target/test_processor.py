"""The description of a machine: what the system reports, what a table knows, what is left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tvm_disc.codegen.target import host_cpu, resolve_target
from tvm_disc.target.isa import Isa, features_of, isa_of
from tvm_disc.target.known import Caches, caches_of_level, known_caches
from tvm_disc.target.processor import Processor, processor_of
from tvm_disc.target.report import caches_here, cores_here

K, M = 1 << 10, 1 << 20
DEFAULT = Caches(32 * K, 256 * K, 8 * M, 4)


@pytest.mark.parametrize(
    ("mcpu", "mattr", "expected"),
    [
        ("x86-64", "", (4, 16, False, False)),
        ("haswell", "", (8, 16, True, False)),
        ("znver3", "", (8, 16, True, False)),
        ("bdver4", "", (8, 16, True, False)),
        ("lunarlake", "", (8, 16, True, True)),
        ("knl", "", (8, 16, True, False)),  # AVX-512 without what our kernels take of it
        ("skx", "", (16, 32, True, False)),
        ("znver4", "", (16, 32, True, True)),
        ("diamondrapids", "", (16, 32, True, True)),
        ("x86-64", "+avx2,+fma", (8, 16, True, False)),
        ("x86-64", "+avx2", (8, 16, False, False)),
        ("cascadelake", "-avx512vnni", (16, 32, True, False)),
        ("cascadelake", "-avx512f", (8, 16, True, False)),
        ("cascadelake", "-avx", (4, 16, False, False)),
        ("x86-64-v4", "+avx512vnni", (16, 32, True, True)),
    ],
)
def test_registers_by_what_llvm_says_of_a_processor(
    mcpu: str, mattr: str, expected: tuple[Any, ...]
) -> None:
    words = f"llvm -mcpu={mcpu}" + (f" -mattr={mattr}" if mattr else "")
    isa = isa_of(resolve_target(words))
    assert (isa.lanes_f32, isa.registers, isa.fma, "vpdpbusd" in isa.dots) == expected
    assert isa.vector_bytes == 4 * isa.lanes_f32 and isa.masks == (isa.lanes_f32 == 16)


def test_other_architectures_have_registers_too() -> None:
    target = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1")
    assert isa_of(target) == Isa(4, 32, True)
    assert processor_of(target).caches == known_caches("neoverse-n1")
    assert "neon" in features_of(resolve_target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon"))


def listed(
    folder: Path, caches: Mapping[str, tuple[int, str, str, str]], cpu: str = "cpu0"
) -> Path:
    """Files as Linux has them: name -> (level, type, size, cores)."""
    for name, (level, kind, size, cores) in caches.items():
        index = folder / cpu / "cache" / name
        index.mkdir(parents=True)
        values = {"level": level, "type": kind, "size": size, "shared_cpu_list": cores}
        for key, value in {**values, "coherency_line_size": 64}.items():
            (index / key).write_text(f"{value}\n")
    return folder


def nobody(name: str) -> int:
    return 0


@pytest.fixture(autouse=True)
def on_the_first_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_disc.target.report._allowed", lambda: {0, 1})


ZEN = {
    "index0": (1, "Data", "32K", "0"),
    "index1": (1, "Instruction", "64K", "0"),
    "index2": (2, "Unified", "512K", "0"),
    "index3": (3, "Unified", "32768K", "0-7"),
}


def test_caches_as_linux_lists_them(tmp_path: Path) -> None:
    found = caches_here(DEFAULT, files=listed(tmp_path, ZEN), ask=nobody)
    assert found == Caches(32 * K, 512 * K, 32 * M, 8)
    assert found.share_bytes == 4 * M


def test_threads_of_a_core_are_one_core(tmp_path: Path) -> None:
    files = listed(tmp_path, {
        "index0": (1, "Data", "48K", "0,32"),
        "index2": (2, "Unified", "2048K", "0,32"),
        "index3": (3, "Unified", "60M", "0-63"),
    })  # fmt: skip
    assert caches_here(DEFAULT, files=files, ask=nobody) == Caches(48 * K, 2 * M, 60 * M, 32)


def test_a_second_level_that_cores_share_is_the_last(tmp_path: Path) -> None:
    files = listed(tmp_path, {
        "index0": (1, "Data", "64K", "0"),
        "index1": (2, "Unified", "4M", "0-3"),
    })  # fmt: skip
    assert caches_here(DEFAULT, files=files, ask=nobody) == Caches(64 * K, 1 * M, 4 * M, 4)


def test_the_core_is_one_that_we_may_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(tmp_path, ZEN)
    listed(tmp_path, {**ZEN, "index2": (2, "Unified", "1M", "9")}, "cpu9")
    monkeypatch.setattr("tvm_disc.target.report._allowed", lambda: {9, 10})
    assert caches_here(DEFAULT, files=tmp_path, ask=nobody).l2_bytes == 1 * M
    assert cores_here() == 2


ANSWERS = {
    "SC_LEVEL1_DCACHE_SIZE": 48 * K,
    "SC_LEVEL2_CACHE_SIZE": 1 * M,
    "SC_LEVEL3_CACHE_SIZE": 256 * M,
    "SC_LEVEL1_DCACHE_LINESIZE": 128,
}


def test_where_files_are_hidden_the_c_library_is_asked(tmp_path: Path) -> None:
    def ask(name: str) -> int:
        return ANSWERS[name]

    assert caches_here(DEFAULT, files=tmp_path, ask=ask) == Caches(48 * K, 1 * M, 256 * M, 4, 128)
    # It counts all last levels of a socket as one.
    assert caches_here(DEFAULT, True, tmp_path, ask) == Caches(48 * K, 1 * M, 8 * M, 4, 128)


@pytest.mark.parametrize("answer", [0, -1, 1, 1 << 50])
def test_what_nobody_tells_is_as_by_name(tmp_path: Path, answer: int) -> None:
    assert caches_here(DEFAULT, files=tmp_path, ask=lambda name: answer) == DEFAULT


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"index0": (1, "Data", "32K", "0")},
        {**ZEN, "index0": (1, "Data", "", "0")},
        {**ZEN, "index0": (1, "Data", "0K", "0")},
        {**ZEN, "index0": (1, "Data", "32K", "")},
        {**ZEN, "index0": (1, "Data", "32K", "0-x")},
        {**ZEN, "index0": (1, "Data", "32Q", "0")},
    ],
)
def test_files_that_say_nothing_are_left_alone(tmp_path: Path, broken: Any) -> None:
    assert caches_here(DEFAULT, files=listed(tmp_path, broken), ask=nobody) == DEFAULT


def test_here_is_what_the_system_says_and_elsewhere_what_the_table_says() -> None:
    other = "znver4" if host_cpu() != "znver4" else "haswell"
    target = resolve_target(f"llvm -mcpu={other} -num-cores=6")
    there = processor_of(target)
    assert there == Processor(other, isa_of(target), known_caches(other), 6)  # type: ignore[arg-type]
    here = processor_of(resolve_target(f"llvm -mcpu={host_cpu()}"), here=True)
    assert here.caches == caches_here(known_caches(host_cpu()) or caches_of_level(here.isa),
                                      known_caches(host_cpu()) is not None)  # fmt: skip
    assert here.cores == cores_here()
    assert processor_of(resolve_target("llvm -mcpu=x86-64-v2")).cores > 0


@pytest.mark.parametrize("name", ["znver1", "znver3", "skylake", "skylake-avx512", "icelake-server",
                                  "icelake-client", "graniterapids"])  # fmt: skip
def test_caches_grow_with_their_level(name: str) -> None:
    caches = known_caches(name)
    assert caches is not None
    assert caches.l1_bytes < caches.l2_bytes < caches.last_bytes and caches.line_bytes == 64


def test_a_level_is_no_processor() -> None:
    assert known_caches("") is None and known_caches("x86-64-v3") is None
    assert known_caches("skylake") != known_caches("skylake-avx512")
