"""A build with a limit of time ends on time, wherever it is, and says where."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import rows
from tvm_disc import compile as compiler
from tvm_disc import relay
from tvm_disc.codegen.plan import kernels
from tvm_disc.errors import BadOption, BuildTimeout, TypeMismatch
from tvm_disc.options import Options
from tvm_disc.support import deadline

LIMIT_S = 2.0
SLACK_S = 5.0  # on a machine with other work


def softmax() -> Any:
    x = rows("n", 8)
    return relay.Function([x], relay.nn.softmax(relay.exp(x)))


def timed_out(work: Callable[[], Any]) -> str:
    """The message of a build that takes too long, which comes on time."""
    begin = time.monotonic()
    with pytest.raises(BuildTimeout) as caught:
        work()
    assert time.monotonic() - begin < LIMIT_S + SLACK_S
    return str(caught.value)


def test_a_build_within_its_limit_is_the_build() -> None:
    x = np.ones((3, 8), "float32")
    limited = tvm_disc.build(softmax(), options=Options(time_limit=600))
    np.testing.assert_array_equal(limited(x), tvm_disc.build(softmax())(x))


def test_what_a_build_refuses_is_refused_with_a_limit_too() -> None:
    with pytest.raises(TypeMismatch, match="source: expected a Relay module"):
        tvm_disc.build(5, options=Options(time_limit=600))


def test_a_kernel_without_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    make = kernels.make_kernel
    stop = threading.Event()

    def slow(*args: Any) -> Any:
        stop.wait(60)
        return make(*args)

    monkeypatch.setattr(kernels, "make_kernel", slow)
    message = timed_out(lambda: tvm_disc.build(softmax(), options=Options(time_limit=LIMIT_S)))
    stop.set()
    assert "longer than time_limit=2 s; it was in stage 'kernels' at kernel 'row_" in message
    assert "' of exp, " in message


def test_code_generation_without_end_names_the_slowest_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = threading.Event()
    monkeypatch.setattr(compiler, "compile_program", lambda *_: stop.wait(60))
    # A kernel that another test compiled would not be emitted.
    options = Options(time_limit=LIMIT_S, cache=False)
    message = timed_out(lambda: tvm_disc.build(softmax(), options=options))
    stop.set()
    assert "it was in stage 'machine code', after" in message
    assert "s for kernel '" in message


def test_an_abandoned_build_ends_at_its_next_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[threading.Thread] = []
    make = kernels.make_kernel

    def slow(*args: Any) -> Any:
        begun.append(threading.current_thread())
        time.sleep(LIMIT_S + 0.5)
        return make(*args)

    monkeypatch.setattr(kernels, "make_kernel", slow)
    options = Options(time_limit=LIMIT_S, fuse=False)
    assert "stage 'kernels'" in timed_out(lambda: tvm_disc.build(softmax(), options=options))
    begun[0].join(60)
    assert not begun[0].is_alive() and len(begun) == 1


def test_a_thread_without_a_limit_is_asked_nothing() -> None:
    deadline.entered("kernels")
    deadline.at("kernel 'f'")


def test_a_process_ends_well_after_a_build_was_abandoned(root: Path) -> None:
    code = (
        "import tvm_disc, numpy as np\n"
        "from tvm_disc import relay\n"
        "x = relay.var('x', shape=(relay.Any(), 64)); y = x\n"
        "for k in range(6):\n"
        "    w = relay.const(np.full((64, 64), k, 'float32'))\n"
        "    y = relay.nn.dense(relay.nn.softmax(y), w)\n"
        "f = relay.Function([x], y)\n"
        "for limit in (0.3, 1.5, 4.0):\n"
        "    try: tvm_disc.build(f, options=tvm_disc.Options(time_limit=limit))\n"
        "    except tvm_disc.errors.BuildTimeout as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "time_limit: expected more than 0 and at most 1000000 s, found 0"),
        (-1.5, "found -1.5"),
        (float("nan"), "found nan"),
        (float("inf"), "found inf"),
        ("5", "time_limit: expected seconds, found '5'"),
        (True, "time_limit: expected seconds, found True"),
    ],
)
def test_bad_limits_are_refused(value: Any, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        Options(time_limit=value)
