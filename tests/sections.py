"""Sections of documents that a command writes, between two comments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Section:
    """The section of a document that ``python -m MODULE --write`` replaces.

    Attributes:
        path: the document, from the project's root.
        label: what the section contains.
    """

    path: str
    module: str
    label: str

    @property
    def begin(self) -> str:
        """The line before the section."""
        return f"<!-- begin: python -m {self.module} --write -->"

    @property
    def end(self) -> str:
        """The line after the section."""
        return f"<!-- end: {self.label} -->"

    def split(self, text: str) -> tuple[str, str, str]:
        """Return the text before the section, the section, and the text after it."""
        before, begin, rest = text.partition(f"{self.begin}\n")
        inside, end, after = rest.partition(f"\n{self.end}")
        assert begin and end, f"expected the lines {self.begin!r} and {self.end!r}"
        return before + begin, inside, end + after

    def read(self, root: Path = ROOT) -> str:
        """Return the section of the document."""
        return self.split((root / self.path).read_text(encoding="utf-8"))[1]

    def command(self, about: str | None, make: Callable[[], str]) -> None:
        """Run the command: print what ``make`` returns, or write it into the document."""
        parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
        parser.add_argument("--write", action="store_true", help=f"into {self.path}")
        if parser.parse_args().write:
            self.write(make())
        else:
            print(make())

    def write(self, text: str, root: Path = ROOT) -> None:
        """Replace the section of the document."""
        path = root / self.path
        before, _, after = self.split(path.read_text(encoding="utf-8"))
        path.write_text(before + text + after, encoding="utf-8")
