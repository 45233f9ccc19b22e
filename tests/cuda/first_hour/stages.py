"""All that is asked of a GPU, in stages: ``python -m tests.cuda.first_hour --out FOLDER``.

    smoke       the driver, one program, one copy
    right       operator table and recorded models against the CPU's results, free memory poisoned
    sanitizer   NVIDIA's memcheck, racecheck and initcheck over recorded models
    launch      microseconds for a launch, for a call, with and without CUDA graphs
    bandwidth   memory-bound kernels beside a copy and PyTorch
    products    the variants of products and cuBLASLt, tuned over a grid of rows
    models      BERT, GPT-2, ResNet-50 and a decoder's step beside PyTorch

Every stage has a time limit and writes ``FOLDER/STAGE*.txt`` as it goes; ``FOLDER/summary.json`` is
written after each, so that results remain if a later one dies. Stages that only check results use
several processes at once and come first; those that time wait for them. A machine without a network
is enough; it needs this tree, TVM, NVRTC, and for some stages PyTorch and ``compute-sanitizer``.
``--emulated`` runs every stage that can on the emulated GPU, on a few operators.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODELS = (("bert",), ("bert", "--tf32"), ("gpt2",), ("resnet50",), ("decoder",))
SANITIZED = ("models/bert", "models/cnn", "relax/gpt2", "relax/crnn", "printed/lstm")
TOOLS = ("memcheck", "racecheck", "initcheck")
WRONG, BROKEN = 1, 3


@dataclass
class Run:
    """One process: its output goes to a file, and it is killed at its limit, children and all."""

    name: str
    command: Sequence[str]
    out: Path
    limit_s: float
    began: float = field(default_factory=time.monotonic)
    process: Any = None

    def start(self) -> Run:
        """Start it."""
        self.began = time.monotonic()
        with self.path.open("a", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                self.command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        return self

    @property
    def path(self) -> Path:
        """Its output."""
        return self.out / f"{self.name}.txt"

    def continued(self, name: str) -> Run:
        """Start it again behind a check, with what is left of the limit."""
        command = list(self.command)
        if "--after" in command:
            command = command[: command.index("--after")]
        again = Run(self.name, [*command, "--after", name], self.out, self.limit_s).start()
        again.began = self.began
        return again

    def text(self) -> str:
        """What it printed."""
        return self.path.read_text(encoding="utf-8", errors="replace")

    def wait(self) -> dict[str, Any]:
        """Wait for its end or its limit; return its exit code and seconds."""
        left = self.limit_s - (time.monotonic() - self.began)
        try:
            code: Any = self.process.wait(max(left, 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            code = "time limit"
        return {"code": code, "seconds": round(time.monotonic() - self.began, 1)}


class Hour:
    """The stages, with what they share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out = options.out
        self.summary: dict[str, Any] = {}
        self.lock = str(self.out / "timing.lock")

    def run(self, name: str, limit_s: float, *module: str) -> Run:
        """A process of a module of this tree."""
        command = [sys.executable, "-u", "-m", *module]
        if self.options.emulated:
            command = [sys.executable, "-u", "-m", "tests.cuda.first_hour.emulated", *module]
        return Run(name, command, self.out, limit_s * self.options.scale)

    def noted(self, name: str, found: dict[str, Any]) -> None:
        """Keep what was found, on disk too."""
        self.summary[name] = found
        text = json.dumps(self.summary, indent=1)
        (self.out / "summary.json").write_text(text, encoding="utf-8")
        print(f"{name}: {json.dumps(found)[:1500]}", flush=True)

    @property
    def target(self) -> tuple[str, str]:
        """The option that names the target."""
        return ("--target", self.options.target)

    def smoke(self) -> None:
        """The driver, a program, a copy."""
        card = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv"]
        if not self.options.emulated:
            self.noted("card", Run("card", card, self.out, 20.0).start().wait())
        run = self.run("smoke", 60, "tests.cuda.on_gpu", "--match", "operator add", *self.target)
        found = run.start().wait()
        self.noted("smoke", {**found, **_counts(run.text())})

    def right(self) -> None:
        """The table and the models, in several processes; one that was broken is continued."""
        parts = self.options.jobs
        match = self.options.match
        # The first kind of check to be killed by the limit is the last in the list.
        runs = {
            k: self.run(
                f"right{k}", 110, "tests.cuda.on_gpu", "--part", f"{k}/{parts}", "--match", match,
                *self.target,
            ).start()
            for k in range(1, parts + 1)
        }  # fmt: skip
        text, ended = "", []
        while runs:
            for k, run in list(runs.items()):
                if run.process.poll() is None and time.monotonic() - run.began < run.limit_s:
                    continue
                found = run.wait()
                begun = re.findall(r"^begin  (.*)$", run.text(), re.M)
                if found["code"] in (0, WRONG, "time limit") or not begun:
                    ended.append(found["code"])
                    text += run.text()
                    del runs[k]
                    continue
                with run.path.open("a", encoding="utf-8") as file:
                    file.write(f"ended  {begun[-1]} with {found['code']}\n")
                runs[k] = run.continued(begun[-1])
            time.sleep(0.2)
        self.noted("right", {"codes": ended, **_counts(text)})

    def sanitizer(self) -> None:
        """NVIDIA's checkers, on the smallest calls of a few models, all at once."""
        runs = {}
        for tool in TOOLS:
            for model in SANITIZED[: 2 if tool == "racecheck" else None]:
                name = f"sanitizer_{tool}_{model.replace('/', '_')}"
                run = self.run(
                    name, 80, "tests.cuda.on_gpu", "--match", model, "--calls", "2", *self.target
                )
                checker = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
                run.command = [*checker, *run.command]
                runs[name] = run.start()
            name = f"sanitizer_{tool}_tensor_cores"
            run = self.run(name, 80, "tests.cuda.tensor.on_gpu", *self.target)
            run.command = [
                "compute-sanitizer",
                "--tool",
                tool,
                "--error-exitcode",
                "9",
                *run.command,
            ]
            runs[name] = run.start()
        for name, run in runs.items():
            found = run.wait()
            says = [line for line in run.text().splitlines() if "SUMMARY" in line]
            self.noted(name, {**found, "says": says, **_counts(run.text())})

    def launch(self) -> None:
        """What a launch and a call cost."""
        self.timed("launch", 60, "benchmarks.cuda_launch", *self.target)
        self.timed("graphs", 60, "benchmarks.cuda_launch", "--graphs", *self.target)

    def bandwidth(self) -> None:
        """Memory-bound kernels."""
        peers = () if self.options.emulated else ("--torch",)
        sizes = "0" if self.options.emulated else "1,8,64,512"
        self.timed(
            "bandwidth", 100, "benchmarks.cuda_bandwidth", *peers, "--mib", sizes, *self.target
        )

    def products(self) -> None:
        """Variants of products."""
        peers = () if self.options.emulated else ("--torch",)
        records = str(self.out / "records.jsonl")
        few = ("--rows", "1") if self.options.emulated else ()
        self.timed(
            "products", 120, "benchmarks.cuda_products", "--records", records, *peers, *few,
            "--budget", "80", *self.target,
        )  # fmt: skip

    def timed(self, name: str, limit_s: float, *module: str) -> None:
        """One process that times, alone."""
        run = self.run(name, limit_s, *module)
        found = run.start().wait()
        self.noted(name, found)
        print(run.text()[-3000:], flush=True)

    def models(self) -> Callable[[], None]:
        """Start the compilation of the models; return what waits for their tables."""
        shared = ("--lock", self.lock, *self.target)
        runs = [
            self.run("_".join(("model", *words)), 280, "benchmarks.cuda_models", *words, *shared)
            for words in MODELS
            if not self.options.models or words[0] in self.options.models.split(",")
        ]
        for run in runs:
            run.start()

        def rest() -> None:
            for run in runs:
                found = run.wait()
                self.noted(run.name, found)
                print(run.text()[-3500:], flush=True)

        return rest


def _counts(text: str) -> dict[str, Any]:
    """How many checks were right, and what was wrong."""
    wrong = re.findall(r"^(?:wrong|ended)  (.*)$", text, re.M)
    begun = set(re.findall(r"^begin  (.*)$", text, re.M))
    return {"begun": len(begun), "right": len(re.findall("^right", text, re.M)), "wrong": wrong}


STAGES = ("smoke", "right", "sanitizer", "launch", "bandwidth", "products", "models")


def main() -> int:
    """Run the stages that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--match", default="", help="only the checks with this in their names")
    parser.add_argument("--models", default="", help="only these, by commas")
    parser.add_argument("--scale", type=float, default=1.0, help="of the time limits")
    parser.add_argument("--emulated", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    named = options.stages.split(",")
    if unknown := set(named) - set(STAGES):
        parser.error(f"stages are {', '.join(STAGES)}; found {', '.join(sorted(unknown))}")
    hour = Hour(options)
    if "smoke" in named:
        hour.smoke()
        if hour.summary["smoke"]["code"] != 0:
            print((options.out / "smoke.txt").read_text()[-3000:])
            return 1
    with open(hour.lock, "a", encoding="utf-8") as lock:
        _run(hour, named, lock)
    return int(any(found.get("wrong") for found in hour.summary.values()))


def _run(hour: Hour, named: Sequence[str], lock: Any) -> None:
    """Checks first, at once with compilation; what times holds the lock."""
    import fcntl

    fcntl.flock(lock, fcntl.LOCK_EX)
    rest = hour.models() if "models" in named else None
    for stage in ("right", "sanitizer", "launch", "bandwidth", "products"):
        if stage in named:
            begin = time.monotonic()
            getattr(hour, stage)()
            print(f"-- {stage}: {time.monotonic() - begin:.0f} s", flush=True)
    fcntl.flock(lock, fcntl.LOCK_UN)
    if rest is not None:
        rest()
