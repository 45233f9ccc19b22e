"""Fixtures that every test may use; runs before anything imports TVM."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.not_run import mark_optional, report
from tests.slow import Measurement, mark_slow

# Read once, when TVM's library loads; unset, every parallel launch is many times slower.
os.environ.setdefault("TVM_NUM_THREADS", "2")
# The developer's own switches must not change what tests see.
for _name in ("DISC_DEBUG", "DISC_DUMP", "DISC_THREADS"):
    os.environ.pop(_name, None)
# Code that is kept belongs to one run: workers, which inherit the folder's name, share it. A folder
# of the developer's own makes the next run compile only what has changed since.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _kept = os.environ.get("DISC_TEST_CACHE", "")
    if not _kept:
        _folder = tempfile.TemporaryDirectory(prefix="tvm_disc.tests.")
        _kept = _folder.name
    os.environ["DISC_CACHE"] = _kept

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, fresh for every test."""
    return np.random.default_rng(20240229)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The path of a small program in Relay text."""
    from tests.models import TINY  # imports TVM

    path = tmp_path / "tiny.relay"
    path.write_text(TINY)
    return str(path)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small program, compiled and saved once; nobody writes to it."""
    import tvm_disc
    from tests.models import mlp  # imports TVM

    path = tmp_path_factory.mktemp("saved") / "mlp.so"
    tvm_disc.build(mlp()).save(path)
    return path


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def data() -> Path:
    """Recorded inputs and expected outputs."""
    return ROOT / "tests" / "data"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, and those of optional packages, before ``-m`` selects."""
    mark_optional(items)
    mark_slow(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was not run, and the command that runs it."""
    skipped = terminalreporter.stats.get("skipped", ())
    lines = report(str(test.longrepr[2]) for test in skipped)
    if lines:
        terminalreporter.section("not run")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--guarded``: every call of a program between pages of memory that may not be touched.

    ``--measure-slow``: write the list of slow tests.
    """
    parser.addoption("--guarded", action="store_true", help="call programs between guard pages")
    parser.addoption("--measure-slow", action="store_true", help="write tests/slow.json")


def pytest_configure(config: pytest.Config) -> None:
    """Measure, if the option says so."""
    if config.getoption("--measure-slow"):
        config.pluginmanager.register(Measurement())


@pytest.fixture(scope="session", autouse=True)
def _guarded(request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.config.getoption("--guarded"):
        yield
        return
    from tests.guarded import Calls
    from tvm_disc.runtime.executable import Executable

    calls = Calls(Executable.__call__)
    patch = pytest.MonkeyPatch()
    patch.setattr(Executable, "__call__", lambda exe, *a, **k: calls.call(exe, *a, **k))
    yield
    patch.undo()
    print(f"\n{calls.count} calls between guard pages, {calls.empty} of at most one element")
