"""Prints the table of semantics, or writes it: ``python -m tests.semantics --write``."""

from __future__ import annotations

import argparse

from tests.semantics.table import DOCUMENT, document


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/semantics.md")
    if parser.parse_args().write:
        DOCUMENT.write_text(document(), encoding="utf-8")
    else:
        print(document())


if __name__ == "__main__":
    main()
