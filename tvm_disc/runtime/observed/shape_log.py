"""Log of input shapes for tuning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tvm_disc.errors import BadInput
from tvm_disc.options import file_path
from tvm_disc.runtime.observed.entries import Entry, Main

#: The method `observed` of a program.
Observed: TypeAlias = Callable[[Entry], AbstractContextManager[None]]


@contextmanager
def shapes_of_calls(observed: Observed, names: Sequence[str], path: str | Path) -> Iterator[None]:
    """Count the input shapes of calls in this context, and append them to a file.

    Raises:
        BadInput: the file cannot be written.
    """
    path = file_path("record_shapes", path)
    try:
        path.open("a").close()  # fails before any call if the file cannot be written
    except OSError as error:
        raise BadInput(f"record_shapes: {path}: {error.strerror or error}") from None
    log = ShapeLog(names)
    try:
        with observed(log.counting):
            yield
    finally:
        try:
            log.write(path)
        except OSError as error:
            raise BadInput(f"record_shapes: {path}: {error.strerror or error}") from None


class ShapeLog:
    """Counts the shapes of a program's inputs."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.seen: Counter[tuple[tuple[int, ...], ...]] = Counter()

    def counting(self, main: Main) -> Main:
        """Return a function that calls ``main``, and counts calls that succeed."""

        def call(*args: Any) -> Any:
            result = main(*args)
            self.seen[tuple(tuple(a.shape) for a in args[: len(self.names)])] += 1
            return result

        return call

    def write(self, path: Path) -> None:
        """Append the counts, the most frequent first: one JSON object per line."""
        with path.open("a", encoding="utf-8") as file:
            for shapes, calls in self.seen.most_common():
                named = {n: [int(d) for d in s] for n, s in zip(self.names, shapes, strict=True)}
                file.write(json.dumps({"shapes": named, "calls": calls}) + "\n")
