"""What a newcomer does: install a fresh copy, follow the README, bring a model. No network."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

LIMIT_SECONDS = 600
NOWHERE = "http://127.0.0.1:9"
OFFLINE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE")  # besides the package
SCRIPT = """#!{python}
import sys
from importlib.metadata import entry_points

(found,) = entry_points(group="console_scripts", name="tvm-disc")
sys.exit(found.load()())
"""
HAS_ONNX = importlib.util.find_spec("onnx") is not None


class Place:
    """A folder with the installed package, and a shell in it that finds nothing of the checkout."""

    def __init__(self, folder: Path, site: Path, programs: Path) -> None:
        self.folder = folder
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        self.env = {**os.environ, **OFFLINE, "PYTHONPATH": str(site), "PATH": path}

    def run(self, command: str) -> str:
        """The output of a command line, which must succeed."""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def place(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The package as its metadata installs it, and the command of its entry point."""
    folder = tmp_path_factory.mktemp("newcomer")
    clone, site, programs, here = (folder / n for n in ("clone", "site", "bin", "here"))
    for made in (clone, site, programs, here):
        made.mkdir()
    for name in NEEDED:
        shutil.copy(root / name, clone)
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "tvm_disc", clone / "tvm_disc", ignore=skip)
    steps = ["build_py", "--build-lib", str(site), "egg_info", "--egg-base", str(site)]
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", *steps],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    script = programs / "tvm-disc"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return Place(here, site, programs)


def commands(readme: str) -> Iterator[str]:
    """The lines of the README's shell blocks that call our program."""
    for block in re.findall(r"^```bash\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
        yield from (line for line in block.splitlines() if line.startswith("tvm-disc "))


def test_what_runs_is_what_was_installed(place: Place) -> None:
    where = place.run(f'{sys.executable} -c "import tvm_disc; print(tvm_disc.__file__)"').strip()
    assert where.startswith(place.env["PYTHONPATH"])
    assert "build|run|explain" in place.run("tvm-disc --help")


def test_commands_of_the_readme_word_for_word(place: Place, root: Path, data: Path) -> None:
    shutil.copy(data / "relay" / "models" / "bert.relay", place.folder)
    lines = list(commands((root / "README.md").read_text(encoding="utf-8")))
    assert [line.split()[1] for line in lines] == [
        *("build", "run", "explain", "bench", "report"),
    ]
    outputs = [place.run(line) for line in lines]
    assert "bert.so: (ids: int64[" in outputs[0] and "total" in outputs[0]
    assert "100 calls" in outputs[1]
    assert "kernel" in outputs[2]
    assert "over Relax VM: geometric mean" in outputs[3] and "DIFFERS" not in outputs[3]
    assert "wrote bert.report.html" in outputs[4]


@pytest.fixture
def layer(place: Place) -> Path:
    """A layer with a softmax as an ONNX file, with named axes."""
    from onnx import TensorProto, helper, numpy_helper, save

    weight = np.random.default_rng(0).standard_normal((16, 8)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y"], axis=-1),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "words", width])
        for name, width in (("x", 16), ("y", 8))
    )
    graph = helper.make_graph(nodes, "layer", [x], [y], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = place.folder / "layer.onnx"
    save(model, str(path))
    return path


@pytest.mark.skipif(not HAS_ONNX, reason="needs onnx")
def test_an_onnx_file(place: Place, layer: Path) -> None:
    made = place.run(f"tvm-disc build {layer.name} -o layer.so")
    assert "layer.so: (x: float32[batch, words, 16])" in made
    assert "float32[batch, words, 8]" in place.run("tvm-disc signature layer.so")
    for shape in ("1x1x16", "3x7x16", "0x5x16"):
        out = place.run(f"tvm-disc run layer.so --random x={shape}")
        assert f"output 0: float32[{shape.replace('x', ', ')[:-2]}8]" in out
    assert "matmul" in place.run(f"tvm-disc explain {layer.name} --shape x=2x7x16")
    place.run(f"tvm-disc explain {layer.name} --dims batch=2,words=7 --html page.html")
    assert "matmul" in (place.folder / "page.html").read_text(encoding="utf-8")
    bench = f"tvm-disc bench {layer.name} --dims batch=1,2 --dims words=1..9 --points 2"
    out = place.run(f"{bench} --rounds 2 --turn 0.01 --json bench.json --markdown bench.md")
    assert "over Relax VM: geometric mean" in out
    points = json.loads((place.folder / "bench.json").read_text())["points"]
    assert [list(p["point"].values()) for p in points] == [[1, 1], [1, 9], [2, 1], [2, 9]]
    assert all(p["differences"]["tvm_disc"] < 1e-4 for p in points)
    assert "| batch | words | tvm_disc ms |" in (place.folder / "bench.md").read_text()
