"""A build imports the packages that its model and its target use, and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.imports import modules

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 64), float32], %w: Tensor[(128, 64), float32]) {
  nn.softmax(nn.dense(%x, %w, units=128))
}"""
BUILD = """
import json, sys
import tvm_disc
tvm_disc.build(sys.argv[1])
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "tvm_disc"]))
"""
# Lower it when fewer modules are needed. A test of time would depend on the machine.
MOST = 299
NOT_IMPORTED = (
    "bench",
    "codegen.cuda",
    "codegen.export",
    "dynamo",
    "frontends.onnx",
    "frontends.stablehlo",
    "frontends.torch",
    "jax",
    "relay.builder",
    "relay.inference",
    "relay.importer.lowering.index",
    "relay.importer.lowering.qnn",
    "relay.importer.lowering.window",
    "relay.json",
    "relay.text.printer",
    "relay.ops.qnn",
    "relay.ops.references.nn",
    "relay.ops.vision",
    "relay_api",
    "relay_passes.hoist",
    "relay_passes.layout",
    "relay_passes.own_state",
    "relay_passes.ragged",
    "runtime.device",
    "runtime.page",
    "runtime.picture",
    "runtime.profile",
    "runtime.state",
    "runtime.summary",
    "schedules.attention",
    "schedules.cuda",
    "schedules.opaque",
    "tuning",
)


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The modules of ours in a process after a build of dense and softmax from Relay text."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DISC_")}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, TEXT],
        env={**env, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_small_build_imports_few_modules(imported: set[str]) -> None:
    assert len(imported) <= MOST


@pytest.mark.parametrize("package", NOT_IMPORTED)
def test_a_build_imports_only_what_it_uses(package: str, imported: set[str], root: Path) -> None:
    prefix = f"tvm_disc.{package}"
    inside = {m for m, _ in modules(root) if m == prefix or m.startswith(f"{prefix}.")}
    assert inside, f"there is no package {prefix}"
    assert sorted(inside & imported) == []
