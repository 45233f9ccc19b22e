"""The page of a program: whole, well formed, safe with any name, foldable, without a network."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.html_page import Page
from tests.models import function, mlp, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput
from tvm_disc.runtime.page import write_page
from tvm_disc.runtime.page.layers import layers
from tvm_disc.runtime.page.memory import memory_picture, placed
from tvm_disc.runtime.summary import sections

HOSTILE = "</script><script>alert('\"&x')</script><b>"


@pytest.fixture(scope="module")
def deep() -> Any:
    """Three equal layers, each with a product and a softmax, and a guard."""
    x, y = rows("n", 16), rows("m", 16, name="y")
    value: Any = relay.add(x, y)
    for seed in range(3):
        weight = np.random.default_rng(seed).standard_normal((16, 16)).astype("float32")
        value = relay.nn.softmax(relay.nn.dense(value, relay.const(weight)))
        value = relay.reshape(relay.transpose(relay.nn.softmax(relay.transpose(value))), (-1, 16))
    return tvm_disc.build(function(x, y, value), constraints=["n <= 512"])


@pytest.fixture(scope="module")
def page(deep: Any, tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("page") / "page.html"
    deep.explain_html(path, dims={"n": 8, "m": 8}, profile=True)
    return Page(path.read_text(encoding="utf-8"))


def test_every_call_kernel_guard_and_refusal_is_there(deep: Any, page: Page) -> None:
    for number in range(len(deep.launches)):
        assert f"call-{number}" in page.ids
    for kernel in deep.kernels:
        assert f"kernel-{kernel}" in page.ids
    found = sections(deep._manifest["shapes"])
    assert found["guards"]
    text = " ".join(page.text.split())
    for heading in ("symbols", "facts", "guards"):
        for item in found[heading]:
            assert " ".join(item[0].partition("  [")[0].split()) in text
    for refused in deep._manifest["refused"]:
        assert refused.partition(": ")[2] in page.text


def test_links_lead_somewhere_on_the_page(page: Page) -> None:
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)


def test_it_tells_numbers_for_the_dims_and_the_profile(page: Page) -> None:
    assert "Numbers on this page are for n=8, m=8" in " ".join(page.text.split())
    assert "Microseconds of a call" in page.text and "GFLOP/s" in page.text
    assert "Peak " in page.text and "rect" in page.tags


def test_trees_are_tables(tmp_path: Path) -> None:
    exe = tvm_disc.build(mlp(256))
    assert any("if" in k["choice"] for k in exe._manifest["kernels"] if k["choice"])
    exe.explain_html(tmp_path / "page.html")
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "the first row that matches applies" in text and "other sizes" in text


def test_the_page_names_model_machine_and_versions(deep: Any, tmp_path: Path) -> None:
    path = tmp_path / "layers.relay"
    module = mlp(hidden=64)
    path.write_text(module.astext(), encoding="utf-8")
    tvm_disc.build(str(path)).explain_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<title>layers, compiled for {deep.level}</title>" in text
    assert f"tvm_disc {tvm_disc.__version__}, TVM 0." in text
    assert "prefers-color-scheme: dark" in text


@pytest.fixture
def manifest() -> dict[str, Any]:
    """A description in which every text is hostile."""
    bad, kernel = HOSTILE, f"k{HOSTILE}"
    run = {"run": {"family": bad, "knobs": {bad: bad}, "parts": 2}}
    call = {"kernel": kernel, "function": bad, "kind": bad, "ops": [bad, bad], "bytes": bad}
    return {
        "model": bad,
        "levels": [{"name": bad}],
        "inputs": [(bad, [bad], bad)],
        "results": [([bad], bad)],
        "launches": [kernel],
        "calls": [{**call, "reads": [bad, "constant"]}],
        "kernels": [
            {
                "name": kernel,
                "kind": bad,
                "ops": [bad],
                "notes": {bad: bad},
                "choice": {"if": bad, "below": bad, "then": run, "else": run},
            }
        ],
        "memory": {
            "calls": 1,
            "steps": [],
            "slots": [
                {"of": bad, "scratch": True, "first": 0, "last": 0, "bytes": "64", "above": []}
            ],
        },
        "shapes": f"symbols\n  {bad}\nfacts\n  {bad}    [{bad}]\nguards\n  {bad}\n      {bad}",
        "premises": [f"{bad}    [{bad}]"],
        "general": {"launches": [kernel], "shapes": f"facts\n  {bad}"},
        "refused": [f"{bad}: {bad}"],
        "workspace_bytes": "64",
    }


def test_hostile_names_are_text(manifest: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(path, manifest, [HOSTILE], {}, None)
    text = path.read_text(encoding="utf-8")
    assert "<script>alert" not in text and text.count("<script>") == 1
    page = Page(text)
    assert page.tags.count("script") == 1 and page.tags.count("b") == 2
    assert page.text.count("alert(") > 20


def test_the_page_asks_no_network_for_anything(page: Page) -> None:
    folder = Path(tvm_disc.runtime.page.__file__).parent  # type: ignore[attr-defined]
    for kind in ("html", "css", "js"):
        text = (folder / f"page.{kind}").read_text(encoding="utf-8")
        found = set(re.findall(r"https?://[^\s\"'`]+|url\(|@import|fetch\(|XMLHttp", text))
        assert found <= {"http://www.w3.org/2000/svg"}
    assert "link" not in page.tags and "img" not in page.tags and "iframe" not in page.tags


def test_templates_are_in_the_wheel(root: Path) -> None:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    [data] = re.findall(r"^tvm_disc = \[(.*)\]$", text, re.MULTILINE)
    for kind in ("html", "css", "js"):
        assert f'"**/*.{kind}"' in data


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ("", [("", 0, 0)]),
        ("abc", [("", 0, 3)]),
        (
            "xabcabcabcy",
            [("", 0, 1), *((f"layer {k}", 1 + 3 * k, 4 + 3 * k) for k in range(3)), ("", 10, 11)],
        ),
        ("abcdabcd", [("layer 0", 0, 4), ("layer 1", 4, 8)]),
        ("aaaaaa", [("layer 0", 0, 3), ("layer 1", 3, 6)]),
    ],
)
def test_layers(kernels: str, expected: list[tuple[str, int, int]]) -> None:
    found = [(x.name, x.calls.start, x.calls.stop) for x in layers(list(kernels))]
    assert found == expected


def test_slots_lie_right_above_the_highest_below_them() -> None:
    slots = [
        {"of": "a", "scratch": False, "first": 0, "last": 1, "bytes": "_t0", "above": []},
        {"of": "b", "scratch": True, "first": 1, "last": 1, "bytes": "10", "above": [0]},
    ]
    memory = {"steps": ["_t0 = n * 4"], "calls": 2, "slots": slots}
    assert placed(memory, {"n": 100}) == [(0, 448), (448, 64)]
    picture = memory_picture(memory, {"n": 100})
    assert picture.count("<rect") == 2
    # a scale of bytes, from none to the peak, and of calls
    assert ">0 B</text>" in picture and ">512 B</text>" in picture and ">256 B</text>" in picture
    assert ">#0</text>" in picture
    assert "depends on run-time values" in memory_picture(memory, {})
    assert "depends on run-time values" in memory_picture(None, {})
    assert "needs no workspace" in memory_picture({**memory, "slots": []}, {})


def test_the_picture_of_memory_is_as_high_as_the_workspace(deep: Any) -> None:
    memory = deep._manifest["memory"]
    for n in (1, 8, 65):
        places = placed(memory, {"n": n, "m": n})
        top = max(offset + size for offset, size in places)
        if not deep._manifest["premises"]:
            assert top == deep.workspace_bytes({"x": (n, 16), "y": (n, 16)})


def test_refusals(deep: Any, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no dim q"):
        deep.explain_html(tmp_path / "a.html", dims={"q": 1})
    with pytest.raises(BadInput, match=r"explain_html: .*none.a.html: No such file"):
        deep.explain_html(tmp_path / "none" / "a.html")
    with pytest.raises(BadInput, match="explain_html: expected a path"):
        deep.explain_html(5)


HAS_BROWSER = importlib.util.find_spec("playwright") is not None


@pytest.mark.skipif(not HAS_BROWSER, reason="needs the package playwright, and Chromium")
def test_in_a_browser(deep: Any, tmp_path: Path) -> None:
    """No error of the script; arrows are drawn; the search hides what does not match."""
    from playwright.sync_api import Error, sync_playwright

    path = tmp_path / "page.html"
    deep.explain_html(path, dims={"n": 8, "m": 8})
    with sync_playwright() as play:
        try:
            own = shutil.which("chromium")  # of the system, else playwright's
            browser = play.chromium.launch(executable_path=own, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"no Chromium: {error}")
        tab = browser.new_page()
        errors: list[str] = []
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(path.as_uri())
        assert tab.locator("#arrows path").count() > 0
        tab.fill("#search", "softmax-that-is-not-there")
        assert tab.locator("details.call:visible").count() == 0
        tab.fill("#search", "")
        tab.click("#close")
        assert tab.locator("details[open]").count() == 0
        tab.click("#open")
        assert tab.locator("details:not([open])").count() == 0
        browser.close()
        assert errors == []
