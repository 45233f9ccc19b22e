"""Whoever calls a public function with what it cannot take is told so, in the package's words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.refusals.__main__ import KEPT
from tests.refusals.entries import LEFT_OUT, MODULES, entries

Told = dict[str, dict[str, str]]
SAFE = ("NotEqual", "accepted")


@pytest.fixture(scope="module")
def told(root: Path) -> Told:
    """What every public function says now; called in a process of its own, which may crash."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.refusals"]
    env = {**os.environ, "PYTHONPATH": str(root), "DISC_CACHE": "off"}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=900)
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    after = list(found)[-1] if found else "the first"
    assert done.returncode in (0, 1), f"crash after {after}: {done.stderr[-2000:]}"
    return found


def test_every_public_function_has_rows(told: Told) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    missing = sorted(set(entries()) - set(kept))
    assert not missing, f"python -m tests.refusals --write, and look at what is said: {missing}"
    assert sorted(kept) == sorted(told)
    assert len(kept) > 200 and sum(map(len, kept.values())) > 2500


def test_errors_are_the_package_s_own(told: Told) -> None:
    raw = [
        f"{name}({case}): {said}"
        for name, rows in told.items()
        for case, said in rows.items()
        if said.startswith("RAW")
    ]
    assert not raw, "\n".join(raw)


def test_what_is_said_is_what_was_written_down(told: Told) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    changed = [
        f"{name}({case}): {said}; it was {kept.get(name, {}).get(case)}"
        for name, rows in told.items()
        for case, said in rows.items()
        if kept.get(name, {}).get(case) != said
    ]
    assert not changed, "\n".join(changed[:40])


def test_most_of_it_is_refused(told: Told) -> None:
    """A table of what is accepted would tell nothing."""
    said = [s for rows in told.values() for s in rows.values()]
    refused = [s for s in said if not s.startswith(SAFE)]
    assert len(refused) > 0.6 * len(said)
    assert all(len(s.split(": ", 1)[1]) > 8 for s in refused), "a message says something"


def test_what_is_left_out_is_there() -> None:
    places = {m.removeprefix("tvm_disc.") for m in MODULES}
    assert all(name.rsplit(".", 1)[0] in places and why for name, why in LEFT_OUT.items())
