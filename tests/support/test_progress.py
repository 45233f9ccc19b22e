"""The line that tells what a long build is at: when it is there, what it says, that it goes."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import rows
from tvm_disc import relay
from tvm_disc.codegen.plan import kernels
from tvm_disc.errors import BadOption, BuildTimeout
from tvm_disc.options import Options
from tvm_disc.support import deadline, progress

SHOWN = Options(progress=True, fuse=False)


class Terminal(io.StringIO):
    """What is written, and whether it is a terminal; somebody reads so many lines."""

    lines = 1 << 30

    def write(self, text: str) -> int:
        if text.strip():
            self.lines -= 1
        if self.lines < 0:
            raise BrokenPipeError
        return super().write(text)

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error; a line is drawn soon."""
    stream = Terminal()
    # pytest puts a stream of its own into `sys` before each test.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "DELAY_S", 0.1)
    monkeypatch.setattr(progress, "INTERVAL_S", 0.05)
    return stream


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that take their time."""
    make = kernels.make_kernel

    def slowly(*args: Any) -> Any:
        time.sleep(0.4)
        return make(*args)

    monkeypatch.setattr(kernels, "make_kernel", slowly)


def softmax() -> Any:
    x = rows("n", 8)
    return relay.Function([x], relay.nn.softmax(relay.exp(x)))


def is_clear(text: str) -> bool:
    """Whether the last thing written leaves an empty line, the cursor at its begin."""
    return text.endswith("\r") and not text.rpartition("\r")[0].rpartition("\r")[2].strip()


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "tvm_disc progress"]


@pytest.mark.usefixtures("slow")
def test_a_long_build_tells_stage_and_kernel_and_clears_the_line(terminal: Terminal) -> None:
    tvm_disc.build(softmax(), options=Options(fuse=False))
    text = terminal.getvalue()
    for number in range(1, 7):
        assert f"building, kernels (step 2 of 5), kernel {number} of 6 |" in text
    assert "of exp" in text and "\n" not in text
    assert is_clear(text) and threads() == []


def test_a_short_build_tells_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_S", 600)
    tvm_disc.build(softmax())
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("options", "tty"),
    [(Options(), False), (Options(progress=False), True), (Options(debug=1), True)],
    ids=["no terminal", "told not to", "other lines are printed"],
)
def test_no_line(
    options: Options, tty: bool, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "isatty", lambda: tty)
    tvm_disc.build(softmax(), options=options)
    assert "\r" not in terminal.getvalue()


@pytest.mark.usefixtures("slow")
def test_asked_for_it_is_written_to_a_file_too(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    tvm_disc.build(softmax(), options=SHOWN)
    assert "kernel 1 of 6" in terminal.getvalue()


@pytest.mark.usefixtures("slow")
def test_a_log_gets_lines_at_growing_intervals(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    monkeypatch.setattr(progress, "LOG_DELAY_S", 0.2)
    tvm_disc.build(softmax(), options=Options(fuse=False))
    lines = terminal.getvalue().splitlines()
    told = re.compile(
        r"tvm_disc: building, kernels \(step 2 of 5\), kernel \d of 6, kernel .*, \d+ s"
    )
    assert any(map(told.fullmatch, lines)), lines
    assert re.fullmatch(r"tvm_disc: the build ended, \d+ s", lines[-1])
    # 0.2, 0.4, 0.8 ... seconds, for at least 2.4: fewer lines than kernels.
    assert 4 <= len(lines) <= 10 and threads() == []


def test_a_short_build_writes_nothing_to_a_log(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    monkeypatch.setattr(progress, "LOG_DELAY_S", 600)
    tvm_disc.build(softmax())
    assert terminal.getvalue() == ""


def failing(*_: Any) -> Any:
    time.sleep(0.4)
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("make", "options", "error"),
    [
        (failing, SHOWN, KeyboardInterrupt),
        (lambda *_: time.sleep(2), Options(progress=True, time_limit=1.5), BuildTimeout),
    ],
    ids=["interrupted", "abandoned"],
)
def test_an_exception_clears_the_line(
    make: Callable[..., Any],
    options: Options,
    error: type[BaseException],
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "make_kernel", make)
    with pytest.raises(error):
        tvm_disc.build(softmax(), options=options)
    assert "building, kernels" in terminal.getvalue()
    assert is_clear(terminal.getvalue()) and threads() == []


def test_a_build_inside_another_shows_none(terminal: Terminal) -> None:
    with progress.shown(SHOWN):
        deadline.entered("outer")
        with progress.shown(SHOWN):
            assert threads() == ["tvm_disc progress"]
            time.sleep(0.3)
    assert "building, outer" in terminal.getvalue()
    assert not deadline.watched_by(progress.ProgressLine)


@pytest.mark.parametrize("lines", [0, 1])
def test_a_reader_that_is_gone_does_no_harm(terminal: Terminal, lines: int) -> None:
    """At its first line, or later."""
    terminal.lines = lines
    with progress.shown(SHOWN):
        time.sleep(0.3)
    assert threads() == []
    assert is_free(progress._Bar.get_lock())  # else the next build would wait for ever


def is_free(lock: Any) -> bool:
    """Whether a lock can be had, which is given back."""
    had = lock.acquire(timeout=5)
    if had:
        lock.release()
    return bool(had)


def test_a_child_of_a_fork_has_a_lock_of_its_own() -> None:
    lock, held, done = progress._Bar.get_lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal_after(10)
        os._exit(0 if is_free(progress._Bar.get_lock()) else 1)
    done.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.usefixtures("terminal")
def test_a_child_of_a_fork_waits_for_nobody() -> None:
    with progress.shown(SHOWN):
        time.sleep(0.2)
        child = os.fork()
        if child == 0:
            # As the end of the block does, with a limit.
            signal_after(5)
            deadline._watchers()[0].end()  # type: ignore[attr-defined]
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def signal_after(seconds: int) -> None:
    """End this process if it hangs."""
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def test_a_program_ends_while_a_thread_of_it_builds(root: Path) -> None:
    """The thread that draws keeps no interpreter alive."""
    code = (
        "import threading, time\n"
        "from tvm_disc import Options\nfrom tvm_disc.support import progress\n"
        "def build():\n"
        "    with progress.shown(Options(progress=True)): time.sleep(600)\n"
        "threading.Thread(target=build, daemon=True).start()\n"
        "time.sleep(0.5)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == ""


def test_on_a_terminal_the_line_fits_and_goes(root: Path) -> None:
    code = (
        "import time\n"
        "from tvm_disc import Options\nfrom tvm_disc.support import deadline, progress\n"
        "progress.DELAY_S = progress.INTERVAL_S = 0.1\n"
        "with progress.shown(Options()):\n"
        "    deadline.entered('kernels')\n"
        "    deadline.at('kernel ' + 'x' * 500, (3, 14))\n"
        "    time.sleep(1)\n"
    )
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    done = subprocess.run([sys.executable, "-c", code], cwd=root, stderr=theirs)
    os.close(theirs)
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0
    assert "building, kernels (step 2 of 5), kernel 3 of 14 |" in text and is_clear(text)
    assert max(map(len, text.split("\r"))) <= 60 and "\n" not in text


def test_bad_values_are_refused() -> None:
    with pytest.raises(BadOption, match="progress: expected True, False or None, found 'yes'"):
        Options(progress="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_process_without_standard_error_builds(
    stream: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", stream and closed)
    x = rows("n")
    for options in (Options(), Options(progress=True), Options(debug=1)):
        exe = tvm_disc.build(relay.Function([x], relay.exp(x)), options=options)
        assert exe(np.zeros(2, "float32")).tolist() == [1, 1]
