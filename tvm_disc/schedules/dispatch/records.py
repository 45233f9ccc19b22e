"""The record database: one measured time per line, JSON, append-only.

    {"cpu": ..., "version": ..., "template": ..., "group": ..., "variant": {...}, "dims": [8, 128],
     "ns": 1234.5}

A build uses a line if the first three fields equal those of the build. A truncated or damaged
line affects no other line.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from tvm_disc.errors import BadInput

_FIELDS = ("cpu", "version", "template", "group", "variant", "dims", "ns")


@dataclass(frozen=True)
class Context:
    """The conditions under which a measured time is valid.

    Attributes:
        cpu: the processor and the target.
        version: the version of this library.
        template: a hash of the source of all templates.
    """

    cpu: str
    version: str
    template: str


@dataclass(frozen=True)
class Record:
    """The time of one variant of a group at one point of its dims."""

    group: str
    variant: str  # :attr:`Variant.key`
    dims: tuple[int, ...]
    ns: float


@dataclass
class Records:
    """The records of one context.

    Attributes:
        times: (group, variant, dims) -> nanoseconds; the last line of a key is used.
        others: number of lines of other processors, versions or templates.
        damaged: line numbers of unreadable lines.
    """

    context: Context
    times: dict[tuple[str, str, tuple[int, ...]], float] = field(default_factory=dict)
    others: int = 0
    damaged: list[int] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Add one record."""
        self.times[record.group, record.variant, record.dims] = record.ns

    def group(self, key: str) -> dict[tuple[int, ...], dict[str, float]]:
        """Return the measured times of one group, as dims -> variant -> nanoseconds."""
        found: dict[tuple[int, ...], dict[str, float]] = {}
        for (group, variant, dims), ns in self.times.items():
            if group == key:
                found.setdefault(dims, {})[variant] = ns
        return found

    def problems(self, path: Path) -> str:
        """Return a one-line description of damaged lines; empty if there are none."""
        if not self.damaged:
            return ""
        shown = ", ".join(map(str, self.damaged[:5])) + (", ..." if len(self.damaged) > 5 else "")
        kept = len(self.times)
        one = len(self.damaged) == 1
        damaged = "1 damaged line was" if one else f"{len(self.damaged)} damaged lines were"
        read = "1 record was" if kept == 1 else f"{kept} records were"
        return f"{path}: {damaged} skipped (line{'' if one else 's'} {shown}); {read} read"


def read_records(path: Path, context: Context, *others: Context) -> Records:
    """Return the valid records of a context, or of equivalent ``others``.

    If the file does not exist, there are no records.

    Raises:
        BadInput: the file cannot be read, or no line of it is a record.
    """
    records = Records(context)
    if not path.exists():
        return records
    wanted = [asdict(c) for c in (context, *others)]
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"records: {path}: {error.strerror or error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        data = _parse(line)
        if data is None:
            records.damaged.append(number)
        elif {k: data[k] for k in wanted[0]} in wanted:
            variant = json.dumps(data["variant"], sort_keys=True)
            records.add(Record(data["group"], variant, tuple(data["dims"]), float(data["ns"])))
        else:
            records.others += 1
    if records.damaged and not records.times and not records.others:
        raise BadInput(f"{path}: expected records, one JSON object per line, found none")
    return records


def records_path(given: str | Path) -> Path:
    """Return ``given`` as the path of an existing file of records.

    Raises:
        BadInput: the file does not exist.
    """
    path = Path(given)
    if not path.is_file():
        raise BadInput(f"records: there is no file {path}")
    return path


def warned_records(path: Path, context: Context, *others: Context) -> Records:
    """Return the result of :func:`read_records`, and warn about damaged lines."""
    records = read_records(path, context, *others)
    if problem := records.problems(path):
        warnings.warn(problem, stacklevel=5)
    return records


def processors_in(path: Path) -> list[str]:
    """Return the processors for which a file contains times, without duplicates.

    Raises:
        BadInput: the file cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"records: {path}: {error.strerror or error}") from None
    return list(dict.fromkeys(str(data["cpu"]) for line in lines if (data := _parse(line))))


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, Mapping) or any(k not in data for k in _FIELDS):
        return None
    dims, ns = data["dims"], data["ns"]
    good = isinstance(dims, list) and all(isinstance(d, int) for d in dims)
    good = good and isinstance(ns, int | float) and math.isfinite(ns) and ns > 0
    return dict(data) if good else None


class Journal:
    """Appends records to a file; each record is flushed when :meth:`write` returns."""

    def __init__(self, path: Path, context: Context) -> None:
        self._context = asdict(context)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise BadInput(f"records: {path}: {error.strerror or error}") from None
        if self._file.tell() and not _ends_line(path):
            # complete the truncated last line, so that it damages no new record
            self._file.write(b"\n")

    def write(self, record: Record) -> None:
        """Append one record."""
        data = {
            **self._context,
            "group": record.group,
            "variant": json.loads(record.variant),
            "dims": list(record.dims),
            "ns": round(record.ns, 1),
        }
        self._file.write(json.dumps(data).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Flush to disk and close the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
