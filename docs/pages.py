"""Pages of the site that are not Markdown files in this folder; MkDocs calls these functions.

Three kinds: documents in the root of the repository, the tutorials, and the parts of reference
pages that ``<!-- generated: NAME -->`` marks, which are made from the package.
"""

from __future__ import annotations

import argparse
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Files of the repository that have a page, and its address.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",
    "tutorials": "tutorials.md",
    "examples/cpp": "reference/cpp.md",
    "tvm_disc/cpp/tvm_disc.h": "reference/cpp.md",
    "tvm_disc/cpp/tvm_disc_language.h": "reference/cpp.md",
}
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
MARK = re.compile(r"<!-- generated: (\w+) -->")
# A role of reStructuredText in a docstring, after Markdown made code of its target.
ROLE = re.compile(r":(?:mod|class|func|meth|attr|data):<code>[~!]?([\w.]+)</code>")


def tutorials() -> list[Path]:
    """Return the scripts, in the order of their numbers."""
    return sorted((ROOT / "tutorials").glob("[0-9]*.py"))


def cells(path: Path) -> Iterator[str]:
    """Yield the cells of a tutorial as Markdown."""
    for cell in re.split(r"^# %% ?", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        kind, _, body = cell.partition("\n")
        if kind == "[markdown]":
            yield re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip()
        else:
            yield f"```python\n{body.strip()}\n```"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the root, and a page for each tutorial."""
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        files.append(File.generated(config, PAGES[name], content=(ROOT / name).read_text("utf-8")))
    lines = ["# Tutorials", "", "Scripts that run as they are, in `tutorials/`.", ""]
    for path in tutorials():
        place, text = f"tutorials/{path.stem}.md", "\n\n".join(cells(path))
        PAGES[f"tutorials/{path.name}"] = place
        lines.append(f"{int(path.stem[:2])}. [{text[2 : text.index(chr(10))]}]({place})")
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, "tutorials.md", content="\n".join(lines)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the generated parts, and lead links to files of the repository to their pages."""
    markdown = MARK.sub(lambda m: "\n".join(PARTS[m[1]]()), markdown)
    source = page.file.src_uri
    outside = source in ("contributing.md", "changelog.md")
    place = posixpath.dirname(source) if outside else posixpath.join("docs", source, "..")

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(place, match[1]))
        found = PAGES.get(target, target.removeprefix("docs/") if target[:5] == "docs/" else None)
        if found is None:
            return match[1]
        return posixpath.relpath(found, posixpath.dirname(source) or ".")

    return LINK.sub(link, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the target of a role in a docstring as code."""
    return ROLE.sub(r"<code>\1</code>", html)


def _block(path: Path) -> str:
    language = {".py": "python", ".h": "cpp", ".cc": "cpp"}.get(path.suffix, "cmake")
    return f"```{language}\n{path.read_text('utf-8').strip()}\n```\n"


# --- generated parts -------------------------------------------------------------------------


def operators() -> Iterator[str]:
    """Yield a table of all operators with their operands and attributes."""
    from tvm_disc.relay.ops.refused import REFUSED
    from tvm_disc.relay.ops.row import REQUIRED
    from tvm_disc.relay.ops.table import OPS

    yield "| operator | operands | attributes |\n|---|---|---|"
    for name, row in sorted(OPS.items()):
        if name not in REFUSED:
            operands = ", ".join(f"`{arg}`" for arg in row.args)
            attrs = (f"`{k}`" if v is REQUIRED else f"`{k}={v!r}`" for k, v in row.attrs.items())
            yield f"| `{name}` | {operands} | {_cell(', '.join(attrs))} |"


def environment() -> Iterator[str]:
    """Yield a table of the environment variables that set options."""
    from tvm_disc.options import Options

    yield "| variable | field of `Options` |\n|---|---|"
    for field in fields(Options):
        if "env" in field.metadata:
            yield f"| `{field.metadata['env']}` | `{field.name}` |"


def commands() -> Iterator[str]:
    """Yield a section for each command, with a table of its options."""
    from tvm_disc.__main__ import _parser

    parser = _parser()
    (group,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help for action in group._choices_actions}
    for name, command in group.choices.items():
        positional = [a.metavar or a.dest.upper() for a in command._positionals._group_actions]
        usage = " ".join(["tvm-disc", name, *positional, "[options]"])
        yield f"\n## {name}\n\n`{usage}`: {helps[name]}.\n"
        yield "| argument | meaning |\n|---|---|"
        for action in command._actions:
            if not isinstance(action, argparse._HelpAction):
                yield f"| `{_written(action)}` | {_cell(_meaning(action))} |"


def _written(action: argparse.Action) -> str:
    metavar = action.metavar or action.dest.upper()
    if not action.option_strings:
        return str(metavar)
    return action.option_strings[-1] + ("" if action.nargs == 0 else f" {metavar}")


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default))
    default: Any = action.default
    if isinstance(default, int | float) and not isinstance(default, bool):
        return f"{text} (default {default})".strip()
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def cpp() -> Iterator[str]:
    """Yield the headers, the examples and their build file."""
    for name in ("tvm_disc/cpp/tvm_disc.h", "tvm_disc/cpp/tvm_disc_language.h",
                 "tvm_disc/cpp/tvm_disc-config.cmake", "examples/cpp/run_program.cc",
                 "examples/cpp/generate_text.cc", "examples/cpp/CMakeLists.txt"):  # fmt: skip
        yield f"## {Path(name).name}\n\n{_block(ROOT / name)}"


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "cpp": cpp,
    "environment": environment,
    "operators": operators,
}
