"""Comments, docstrings and documents use standard terms, and refer to things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.texts import Text, dead_links, stale, texts

# Former private terms of this project, and the standard term for each. Write the term; a term that
# is no better known than the old one does not help. The words keep their ordinary meaning.
GLOSSARY = {
    r"\b(?:lies|lay|lain)\b": "is placed, is stored, is at",
    r"\b(?:told|tells? (?:it|which|what|of))\b": "reads, receives, is given",
    r"\b(?:is asked|asks?) (?:for|ahead)\b": "prefetches, requires, requests",
    r"\b(?:in turn|takes? turns)\b": "alternate, one after another",
    r"\bstands? (?:for|in|apart)\b": "denotes, replaces, is separate",
    r"\bas (?:it|they) stands?\b": "unchanged, as written",
    r"\bof (?:its|their) own\b(?! tensors| results| elements)": "separate, another, private",
    r"\bby (?:itself|themselves)\b": "alone, automatically",
    r"\bwhole numbers?\b": "integer",
    r"\btruth values?\b": "bool",
    r"\bpast the caches\b": "non-temporal",
    r"\b(?:gives?|given|giving) back\b": "frees, returns",
    r"\bstrangers?\b": "untrusted, independent",
    r"\b(?:who|what|when|where)ever (?:has|is|survives|comes)\b": "any thread that, if",
    r"\b(?:for ever|at hand|gives? way|comes? apart)\b": "without limit, available, yields, splits",
    r"\b(?:doors?|rooms?)\b": "entry point, package, space",
    r"(?<!nearest )(?<!nearest-)\bneighbours?\b": "adjacent elements, next",
    r"\b(?:goes|go) by\b": "depends on",
    r"\bof such\b": "of these",
    r"\bno friend\b": "untrusted",
}


def private(text: Text) -> list[str]:
    """Return the private terms of a text, each with the standard one."""
    return [
        f"{text.path}:{text.line + text.text.count(chr(10), 0, m.start())}: {m[0]!r}: {plain}"
        for pattern, plain in GLOSSARY.items()
        for m in re.finditer(pattern, text.text, re.IGNORECASE)
    ]


def test_texts_use_standard_terms(root: Path) -> None:
    assert [found for text in texts(root) for found in private(text)] == []


def test_references_exist(root: Path) -> None:
    assert [found for text in texts(root) for found in stale(text, root)] == []


def test_links_lead_somewhere(root: Path) -> None:
    documents = [text for text in texts(root) if text.path.endswith(".md")]
    assert [found for text in documents for found in dead_links(text, root)] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The operand lies in registers.", 1),
        ("Each engine is called in turn.", 1),
        ("Sums of its own elements.", 0),
        ("A kernel\nof its own; None stands for both.", 2),
        ("The thread asks for the next line.", 1),
        ("Nearest-neighbour upsampling.", 0),
        ("A cache line that the core prefetches.", 0),
    ],
)
def test_private_terms_are_found(text: str, count: int) -> None:
    assert len(private(Text("a.py", 1, text))) == count


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see `shape/solver.py` and `docs/shape.md`", []),
        ("see `shape/budgets.py`", ["shape/budgets.py"]),
        ("``tests/meta/test_texts.py::test_references_exist``", []),
        ("`tests/meta/test_texts.py::test_absent`", ["tests/meta/test_texts.py::test_absent"]),
        ("``codegen.threads`` and :class:`Solver`", []),
        ("``codegen.spools`` and :class:`Absentee`", ["Absentee", "codegen.spools"]),
        ("`tvm_disc.build`, `tvm.relax`, `exe.load`", []),
        ("`tvm_disc.bulid`", ["tvm_disc.bulid"]),
        ("python -m tests.meta.packages, python -m tests.absent", ["tests.absent"]),
        ("writes `index.txt` and `00_propagate.relax.py`", []),
    ],
)
def test_stale_references_are_found(root: Path, text: str, found: list[str]) -> None:
    assert stale(Text("docs/a.md", 1, text), root) == [f"docs/a.md:1: {name}" for name in found]


def test_dead_links_are_found(root: Path) -> None:
    text = "[a](shape.md) [b](absent.md) [c](shape.md#laws) [d](shape.md#lows) [e](https://x.y/z)"
    assert dead_links(Text("docs/a.md", 1, text), root) == [
        "docs/a.md: absent.md#",
        "docs/a.md: shape.md#lows",
    ]
