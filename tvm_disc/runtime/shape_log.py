"""Log of input shapes for tuning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class ShapeLog:
    """Wraps a program's entry and counts the shapes of its inputs."""

    def __init__(self, main: Callable[..., Any], names: Sequence[str]) -> None:
        self.main, self.names = main, list(names)
        self.seen: Counter[tuple[tuple[int, ...], ...]] = Counter()

    def __call__(self, *args: Any) -> Any:
        """Call the program; only successful calls count."""
        result = self.main(*args)
        self.seen[tuple(tuple(a.shape) for a in args[: len(self.names)])] += 1
        return result

    def write(self, path: Path) -> None:
        """Append the counts, the most frequent first: one JSON object per line."""
        with path.open("a", encoding="utf-8") as file:
            for shapes, calls in self.seen.most_common():
                named = {n: [int(d) for d in s] for n, s in zip(self.names, shapes, strict=True)}
                file.write(json.dumps({"shapes": named, "calls": calls}) + "\n")
