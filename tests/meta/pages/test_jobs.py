"""Jobs of a newcomer: the code of one page, run in order in an empty folder, does each of them."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from tests import not_run
from tests.meta.pages.page_code import check, program, written


def matrix_model(folder: Path) -> None:
    """A model of one matrix with any number of rows, as an ONNX file."""
    _onnx_layer(folder / "model.onnx", ["rows"])


def sequence_model(folder: Path) -> None:
    """A model of a batch of sequences, as an ONNX file."""
    _onnx_layer(folder / "model.onnx", ["batch", "words"])


def _onnx_layer(path: Path, dims: Sequence[str]) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    weight = np.full((16, 8), 0.5, "float32")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [*dims, width])
        for name, width in (("x", 16), ("y", 8))
    )
    graph = helper.make_graph(nodes, "layer", [x], [y], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, str(path))


@dataclass(frozen=True)
class Job:
    """What a newcomer wants, and the page for it.

    Attributes:
        needs: packages beyond our dependencies.
        tools: programs.
        given: writes the files that the newcomer brings.
        made: files that the page makes, each with text that it contains; "" for any.
    """

    name: str
    page: str
    needs: Sequence[str] = ()
    tools: Sequence[str] = ()
    given: Callable[[Path], None] | None = None
    made: Sequence[tuple[str, str]] = ()

    @property
    def missing(self) -> list[str]:
        """The packages and programs that are not installed."""
        packages = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return packages + [name for name in self.tools if shutil.which(name) is None]


JOBS = (
    Job("first program", "start/first.md", made=[("page.html", "Kernel calls"), ("model.so", "")]),
    Job(
        "BERT and eight threads",
        "guides/bert.md",
        ("torch", "transformers"),
        made=[("bert.so", "")],
    ),
    Job(
        "ONNX model to C++",
        "guides/cpp.md",
        ("onnx",),
        ("cmake", "g++"),
        matrix_model,
        [("output.txt", "64 x 8, first element 8\n")],
    ),
    Job("generate text", "guides/generate.md", ("torch", "transformers")),
    Job(
        "why is it not faster",
        "guides/profile.md",
        ("onnx",),
        (),
        sequence_model,
        [("model.report.html", "Why is it not faster"), ("model.report.html", "a call takes")],
    ),
    Job("a pass", "guides/pass.md"),
    Job("a Relay script of 2022", "migration.md"),
)


def case(job: Job) -> ParameterSet:
    """The test case of a job, marked if `make test` does not install what it needs."""
    marks = [getattr(pytest.mark, not_run.MARK)] if {*job.needs} & {*not_run.OPTIONAL} else []
    return pytest.param(job, id=job.name.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("job", [case(job) for job in JOBS])
def test_the_page_does_the_job(job: Job, root: Path, tmp_path: Path) -> None:
    if job.missing:
        pytest.skip(f"needs {' and '.join(job.missing)}")
    text = (root / "docs" / job.page).read_text(encoding="utf-8")
    for name, body in written(text).items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    if job.given is not None:
        job.given(tmp_path)
    script, expected = program(text, shell=True)
    assert script
    output = check(script, expected, root, tmp_path)
    (tmp_path / "output.txt").write_text(output, encoding="utf-8")
    for name, part in job.made:
        assert part.encode() in (tmp_path / name).read_bytes(), output


@pytest.mark.frontends
def test_examples_of_frameworks(root: Path, tmp_path: Path) -> None:
    if lacks := Job("", "", ("jax", "torch")).missing:
        pytest.skip(f"needs {' and '.join(lacks)}")
    page = root / "docs" / "reference" / "examples-frameworks.md"
    script, expected = program(page.read_text(encoding="utf-8"))
    assert expected
    check(script, expected, root, tmp_path)


def test_files_of_a_page_are_found() -> None:
    text = "Save it. In `a.cc`:\n\n```cpp\nint x;\n```\n\nNot in `b.cc` but:\n\n```cpp\ny\n```\n"
    assert written(text) == {"a.cc": "int x;\n"}


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_first_page_links_to_each_job(job: Job, root: Path) -> None:
    """A newcomer finds the page from the site's first page, which links to it."""
    assert f"]({job.page})" in (root / "docs" / "index.md").read_text(encoding="utf-8")
