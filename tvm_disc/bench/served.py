"""Client of an engine's process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("server.py")
ROOT = Path(__file__).resolve().parents[2]  # folder from which tvm_disc is imported
OURS = ("tvm_disc", "relax_vm")  # engines that import tvm_disc
THREADS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class EngineRefused(Exception):
    """The engine is not installed, rejects the model or a call, or crashed."""


class Served:
    """An engine in its own process, so that threads and crashes do not affect others.

    Attributes:
        load_s: seconds to read and prepare the model.
        version: version of the engine.
    """

    def __init__(
        self,
        engine: str,
        model: Path,
        threads: int,
        python: str = sys.executable,
        limit_s: float = 600.0,
        root: Path = ROOT,
    ) -> None:
        self.engine, self.limit_s = engine, limit_s
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._rest = b""
        command = [python, str(SERVER), engine, str(model.resolve()), str(threads)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=self._said,
            env=_environment(engine, threads, root),
        )
        try:
            answer = self._answer()
        except EngineRefused:
            self.close()
            raise
        self.load_s, self.version = float(answer["seconds"]), str(answer["version"])

    def run(self, names: Sequence[str], inputs: Path, results: Path) -> None:
        """Set the inputs, call once, and write the results.

        Raises:
            EngineRefused: the call failed; the engine may accept other inputs.
        """
        self._ask(names=list(names), inputs=str(inputs), results=str(results))

    def seconds(self, turn_s: float) -> float:
        """Return the median time of calls during about ``turn_s`` seconds."""
        return float(self._ask(seconds=turn_s)["seconds"])

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the server crashed before it read the request
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._said.close()

    def _ask(self, **request: object) -> Mapping[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise EngineRefused(self._end()) from None
        return self._answer()

    def _answer(self) -> Mapping[str, Any]:
        line = self._line()
        answer: Mapping[str, object] = json.loads(line)
        for kind in ("absent", "error"):
            if kind in answer:
                raise EngineRefused(
                    f"not installed: {answer[kind]}" if kind == "absent" else answer[kind]
                )
        return answer

    def _line(self) -> bytes:
        """Return the next line of the process; raises EngineRefused after ``limit_s`` seconds."""
        assert self.process.stdout is not None
        pipe, end = self.process.stdout.fileno(), time.monotonic() + self.limit_s
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                self.process.kill()
                raise EngineRefused(f"no answer within {self.limit_s:g} s")
            more = os.read(pipe, 1 << 16)
            if not more:
                raise EngineRefused(self._end())
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self) -> str:
        """Return how the process ended, and the last line that it wrote to standard error."""
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f"{how}: {lines[-1].strip()[:200]}" if lines else how


def _environment(engine: str, threads: int, root: Path) -> dict[str, str]:
    found = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
    found.pop("PYTHONPATH", None)
    if engine in OURS:
        found["PYTHONPATH"] = str(root)
    return found


__all__ = ["EngineRefused", "Served"]
