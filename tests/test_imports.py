"""What an import brings: names when they are asked for, and of a saved program its runtime only."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_disc
from tests.models import TREES, mlp
from tvm_disc import paths, relay
from tvm_disc.abi import manifest
from tvm_disc.errors import DiscError

# The packages that a process has which loads and calls a saved program; all others belong to the
# compiler. Of other packages it has NumPy's and tvm_ffi's.
OF_A_LOADED_PROGRAM = {"abi", "errors", "options", "paths", "runtime", "support", "typing"}
FOREIGN = {"tvm", "scipy", "xgboost", "onnx", "torch", "tqdm", "matplotlib"}
CALL = """
import json, sys
import numpy as np
import tvm_disc

before = sorted(m for m in sys.modules if m.startswith("tvm"))
exe = tvm_disc.load(sys.argv[1])
for n in (1, 3000):
    x = np.ones((n, 16), "float32")
    if exe.signature[0][0] == "x":
        exe(x), exe(x=x), repr(exe), exe.profile(x, repeat=1)
    else:
        exe(("Node", ("Leaf", x[0, :4]), ("Leaf", x[0, :4])), x[0])
if len(exe.levels) == 1:  # what others lack of the processor is LLVM's to say
    exe.explain()
print(json.dumps([before, sorted(sys.modules)]))
"""


def python(program: str, *args: str) -> str:
    """What a program prints in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["tensors", "several levels", "data types"])
def test_a_loaded_program_needs_nothing_of_the_compiler(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    if kind == "several levels":
        tvm_disc.build(mlp(), target=["x86-64", "x86-64-v2"]).save(path)
    else:
        tvm_disc.build(mlp() if kind == "tensors" else relay.parse(TREES)).save(path)
    before, after = json.loads(python(CALL, str(path)))
    assert before == ["tvm_disc", "tvm_disc.paths"]
    packages = {m.split(".")[1] for m in after if m.startswith("tvm_disc.")}
    assert packages == OF_A_LOADED_PROGRAM
    # tvm_ffi imports PyTorch where that is installed.
    theirs = python("import sys, tvm_ffi; print(*{m.partition('.')[0] for m in sys.modules})")
    assert not (FOREIGN - {*theirs.split()}) & {m.split(".")[0] for m in after}


def test_the_command_line_runs_a_library_without_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    tvm_disc.build(mlp()).save(path)
    found = python(
        "import sys; from tvm_disc.__main__ import main\n"
        "main(['run', sys.argv[1], '--random', 'x=3x16']); main(['signature', sys.argv[1]])\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] == 'tvm'))\n"
        "print(sorted({m.split('.')[1] for m in sys.modules if m.startswith('tvm_disc.')}))",
        str(path),
    )
    *_, foreign, packages = found.splitlines()
    assert foreign == "[]"
    # Of `bench` the file of its options, which imports the rest when the command is run.
    shell = {"__main__", "bench"}
    wanted = sorted({*OF_A_LOADED_PROGRAM, *shell})
    assert packages == str(wanted)


def test_public_names_are_listed_before_they_are_imported() -> None:
    listed, packages, told = json.loads(
        python(
            "import json, pydoc, sys, tvm_disc\n"
            "listed = dir(tvm_disc)\n"
            "packages = [m for m in sys.modules if m.startswith('tvm_disc.')]\n"
            "print(json.dumps([listed, packages, pydoc.plain(pydoc.render_doc(tvm_disc))]))"
        )
    )
    assert packages == ["tvm_disc.paths"]
    assert set(tvm_disc.__all__) <= set(listed)
    classes = ("class Executable", "class Options", "class DiscError")
    assert [name for name in ("build(", "load(", "tune(", *classes) if name not in told] == []


def test_a_star_brings_all_names() -> None:
    found = python(
        "from tvm_disc import *\n"
        "print(build.__module__, tune.__module__, Options().fuse, relay.__name__)"
    )
    assert found.split() == ["tvm_disc.compile", "tvm_disc.tuning.tune", "True", "tvm_disc.relay"]


def test_no_package_takes_the_place_of_a_function() -> None:
    found = python(
        "import tvm_disc.tuning.tune, tvm_disc.compile\n"
        "print(callable(tvm_disc.tune), callable(tvm_disc.build), callable(tvm_disc.load))"
    )
    assert found.split() == ["True"] * 3


def seen_by_type_checkers(path: Path) -> dict[str, str | None]:
    """The module of each name that a file imports for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    [block] = [n for n in tree.body if isinstance(n, ast.If)]
    assert ast.unparse(block.test).lstrip("_") == "TYPE_CHECKING"
    return {
        alias.name: ("tvm_disc.relay." if node.level else "") + (node.module or alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_the_names_of_relay(root: Path) -> None:
    seen = seen_by_type_checkers(root / "tvm_disc" / "relay" / "__init__.py")
    modules = {name: place for name, place in seen.items() if name not in relay._LAZY}
    assert {name: seen[name] for name in relay._LAZY} == relay._LAZY
    assert {paths.RELAY[name] for name in modules} == {f"{p}.{n}" for n, p in modules.items()}


@pytest.mark.parametrize("path", paths.PATHS)
def test_a_public_path_leads_to_its_module(path: str) -> None:
    target, _, member = paths.PATHS[path].partition(":")
    module = importlib.import_module(path)
    if not member:
        assert module is importlib.import_module(target)
    else:
        with pytest.raises(DiscError, match=re.escape(f"relay.{member}.run: ")):
            module.run()


def test_submodules_of_a_public_path_are_the_same_modules() -> None:
    from tvm_disc.relay.transform import recast

    from tvm_disc.relay_api.transform import recast as same

    assert recast is same


@pytest.mark.parametrize(
    "path", ["relay.transform.recat", "relay.quantize.other", "relay.op.nm", "contrib.rpc"]
)
def test_a_public_path_that_does_not_exist(path: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^No module named 'tvm_disc.{path}'"):
        importlib.import_module(f"tvm_disc.{path}")


def test_type_checkers_see_what_the_table_says(root: Path) -> None:
    seen = seen_by_type_checkers(root / "tvm_disc" / "__init__.py")
    for name in tvm_disc.__all__:
        place = tvm_disc._PLACES[name]
        assert place in (seen[name], f"{seen[name]}.{name}")
        assert getattr(tvm_disc, name) is not None


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'tvm_disc' has no attribute 'compiled'"):
        tvm_disc.compiled  # noqa: B018


@pytest.mark.parametrize("name", ["from_onnx", "from_pytorch"])
def test_importers_are_found_by_the_first_who_asks(name: str) -> None:
    """Nothing else of the compiler has been loaded before."""
    code = f"from tvm_disc import relay; print(relay.frontend.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == name, done.stderr
    code = "from tvm_disc import relay; relay.frontend.from_nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "no importer 'from_nothing'; it has from_onnx, from_pytorch" in done.stderr


def test_without_tvm_a_public_name_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['tvm'] = None\n"
        "import tvm_disc\n"
        "try: tvm_disc.build\n"
        "except ImportError as error: print(error)\n"
    )
    assert python(program).startswith("tvm_disc.build: expected the package 'apache-tvm', which")


def test_a_saved_program_without_tvm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tvm_disc.build(mlp()).save(tmp_path / "model.so")

    def missing(name: str) -> str:
        raise manifest.PackageNotFoundError(name)

    monkeypatch.setattr(manifest, "version", missing)
    manifest.tvm_version.cache_clear()
    with pytest.raises(DiscError, match="expected the package 'apache-tvm', whose runtime library"):
        tvm_disc.load(tmp_path / "model.so")


def test_tuning_without_xgboost_is_refused_before_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(DiscError, match=r"tune: expected the package 'xgboost'.*tvm_disc\[tune\]"):
        tvm_disc.tune(mlp(), shapes={"n": [1, 8]}, records=tmp_path / "records.json")
    assert tvm_disc.build(mlp(), options=tvm_disc.Options(cache=tmp_path)).inputs


def test_expressions_are_printed_before_anything_else_is_imported() -> None:
    code = "from tvm_disc import relay; print(relay.var('x', shape=(1,)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("\n%x\n"), done.stderr
