"""A program of dims that nearly always agree: one version for that, one for every legal call."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.build.cases import assert_same
from tests.relay.helpers import DATA, run
from tvm_disc import Options, relay
from tvm_disc.codegen.build import emit_tir
from tvm_disc.compile import compile_counter, prepare
from tvm_disc.errors import BadInput, GuardFailed
from tvm_disc.relay_passes.versions import import_versions
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.support.debug import Trace


def bert() -> relay.IRModule:
    return relay.parse((DATA / "models" / "bert.relay").read_text())


@cache
def compiled() -> Any:
    with compile_counter() as count:
        executable = tvm_disc.build(bert())
    assert count == [1]
    return executable


def test_bert_has_two_symbols_and_one_range() -> None:
    special, general = import_versions(bert(), None, (), True)
    bindings = [b for block in special.mod["main"].body.blocks for b in block.bindings]
    types = [p.ty for p in special.mod["main"].params] + [b.var.ty for b in bindings]
    dims = [d for t in types for d in t.shape.values]
    assert {str(v.name) for v in free_symbols(dims)} == {"ids_0", "ids_1"}
    assert [p.text for p in special.premises] == ["ids_0 == mask_0", "ids_1 == mask_1"]
    assert [str(g) for g in special.solver.guards] == [
        "input 'ids' axis 1 (ids_1) must be at most 64"
    ]
    assert general.premises == () and len(general.solver.guards) == 3


def test_the_masks_gather_is_gone() -> None:
    def gathers(launches: list[str]) -> int:
        kernels = compiled()._manifest["kernels"]
        return sum(k["ops"].count("take") for k in kernels if k["name"] in launches)

    general = compiled()._manifest["general"]["launches"]
    assert gathers(compiled().launches) < gathers(general)
    assert len(compiled().launches) < len(general)


@pytest.mark.parametrize(
    ("ids", "mask"),
    [((2, 5), (2, 5)), ((2, 5), (3, 5)), ((2, 5), (2, 1)), ((3, 1), (3, 1)), ((1, 64), (1, 64)),
     ((2, 1), (5, 1)), ((2, 5), (7, 1)), ((16, 13), (16, 13))],
)  # fmt: skip
def test_every_legal_call_is_served(ids: tuple[int, int], mask: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(ids) + sum(mask))
    given = {"ids": rng.integers(0, 50, ids), "mask": rng.integers(0, 2, mask)}
    given["mask"][:, :1] = 1
    assert_same(compiled()(**given), run(bert()["main"], given), f"{ids} with {mask}")


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        ((2, 5), (2, 4), r"axis 1 \(ids_1\) must equal input 'mask' axis 1 \(mask_1\), or one"),
        ((1, 65), (1, 65), r"input 'ids' axis 1 \(ids_1\) must be at most 64"),
        ((2, 65), (3, 65), r"input 'ids' axis 1 \(ids_1\) must be at most 64"),
    ],
)
def test_what_neither_version_serves_is_refused(
    ids: tuple[int, int], mask: tuple[int, int], message: str
) -> None:
    with pytest.raises(GuardFailed, match=message):
        compiled()(np.zeros(ids, "int64"), np.ones(mask, "int64"))


def test_a_wrong_rank_is_refused() -> None:
    with pytest.raises(BadInput, match="input 'mask': expected 2 dims"):
        compiled()(np.zeros((2, 5), "int64"), np.ones(5, "int64"))


def test_explain_tells_both_versions() -> None:
    text = compiled().explain()
    assert "runs the special version if all of these hold (2 comparisons):" in text
    assert "input 'ids' axis 1 equals input 'mask' axis 1" in text
    calls = len(compiled()._manifest["general"]["launches"])
    assert f"Otherwise the call runs the general version, with {calls} kernel" in text
    assert re.search(r"input 'ids' axis 1 \(ids_1\) must be at most 64    \[dyn.broadcast_to", text)
    mask, ids = "input 'mask' axis 1 (mask_1)", "input 'ids' axis 1 (ids_1)"
    assert f"  if ids_1 == 1, {mask} must equal {ids}    [nn.batch_matmul" in text
    assert "A call of the special version runs 15 kernels" in text
    assert "kernel calls of the special version in order" in text


def test_the_workspace_formula_is_wrapped() -> None:
    lines = compiled().explain(full=True).splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("workspace in bytes"))
    formula = lines[first + 1 : lines.index("", first)]
    assert len(formula) > 20 and max(map(len, formula)) <= 100
    assert all(re.match(r"  \S|      \S", line) for line in formula)
    whole = compiled()._manifest["workspace_bytes"].replace(";", "").split()
    assert " ".join(formula).split() == whole


def test_the_workspace_is_that_of_the_version_that_runs() -> None:
    alike = compiled().workspace_bytes({"ids": (2, 5), "mask": (2, 5)})
    other = compiled().workspace_bytes({"ids": (2, 5), "mask": (3, 5)})
    general = tvm_disc.build(bert(), options=Options(versions=False))
    assert other == general.workspace_bytes({"ids": (2, 5), "mask": (3, 5)})
    assert alike > 0
    assert len(general.kernels) < len(compiled().kernels)
    assert "special version" not in general.explain()


def test_constraints_make_the_general_version_unnecessary() -> None:
    told = tvm_disc.build(bert(), constraints=["ids.0 == mask.0", "ids.1 == mask.1"])
    assert "special version" not in told.explain()
    assert told.launches == compiled().launches
    with pytest.raises(GuardFailed, match=r"ids_0 == mask_0 must hold .*input 'mask' axis 0"):
        told(np.zeros((2, 5), "int64"), np.ones((3, 5), "int64"))


def test_a_version_that_saves_no_kernel_is_not_compiled() -> None:
    x, y = (relay.var(n, shape=(relay.Any(), relay.Any()), dtype="float32") for n in "xy")
    exe = tvm_disc.build(relay.Function([x, y], relay.exp(relay.add(x, y))))
    assert len(exe.kernels) == 1 and "special version" not in exe.explain()
    for a, b in (((2, 3), (2, 3)), ((1, 3), (4, 3)), ((4, 1), (1, 5)), ((1, 1), (0, 7))):
        p, q = np.ones(a, "float32"), np.full(b, 0.5, "float32")
        np.testing.assert_allclose(exe(p, q), np.exp(p + q), rtol=1e-6)


def test_a_saved_program_keeps_both_versions(tmp_path: Path) -> None:
    compiled().save(tmp_path / "bert.so")
    loaded = tvm_disc.load(tmp_path / "bert.so")
    ids = np.ones((2, 5), "int64")
    for mask in (np.ones((2, 5), "int64"), np.tri(3, 5, 2, dtype="int64")):
        np.testing.assert_array_equal(loaded(ids, mask), compiled()(ids, mask))


def test_what_the_general_version_refuses_it_releases_nothing_of_the_special_one_for() -> None:
    """Its results are another list, which only a call that it serves has made."""
    x, y = (relay.var(n, shape=(relay.Any(), 4)) for n in "xy")
    function = relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.exp(x)]))
    prepared = prepare(function, None, None, (), Options(), Trace())
    assert len(prepared.programs) == 2
    emitted, _ = emit_tir(prepared.programs, prepared.machine)
    module = emitted.module
    # A handle that nothing binds where it is used is printed as one of its own.
    assert re.findall(r"^ +\w+ = T\.handle\(\)$", module["main"].script(), re.MULTILINE) == []
