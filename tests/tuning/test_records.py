"""The record database: what is written is read, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_disc.errors import BadInput
from tvm_disc.schedules.dispatch.records import Context, Journal, Record, read_records
from tvm_disc.support.processor import cpu_name

HERE = Context("cpu", "1.0", "abc")


def record(k: int, ns: float = 5.0) -> Record:
    return Record("group", '{"parts": 1}', (k, 2), ns)


def written(path: Path, *records: Record, context: Context = HERE) -> Path:
    journal = Journal(path, context)
    for r in records:
        journal.write(r)
    journal.close()
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", record(1), record(2), record(1, 7.0))
    times = read_records(path, HERE).times
    assert times == {
        ("group", '{"parts": 1}', (1, 2)): 7.0,
        ("group", '{"parts": 1}', (2, 2)): 5.0,
    }
    assert read_records(path, HERE).group("group")[1, 2] == {'{"parts": 1}': 7.0}


@pytest.mark.parametrize("other", [Context("x", "1.0", "abc"), Context("cpu", "2", "abc")])
def test_records_of_another_context_do_not_count(tmp_path: Path, other: Context) -> None:
    path = written(tmp_path / "r.jsonl", record(1), context=other)
    records = read_records(path, HERE)
    assert (len(records.times), records.others) == (0, 1)


def test_a_truncated_file_loses_only_its_last_line(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", *map(record, range(10)))
    whole = path.read_bytes()
    for cut in range(1, len(whole) // 10 - 2, 7):
        path.write_bytes(whole[:-cut])
        records = read_records(path, HERE)
        assert len(records.times) == (10 if cut == 1 else 9)
        expected = "" if cut == 1 else f"{path}: 1 damaged line was skipped (line 10); 9 records"
        assert records.problems(path).startswith(expected)
        written(path, record(99))
        assert len(read_records(path, HERE).times) == (11 if cut == 1 else 10)


def test_damage_in_the_middle_costs_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", *map(record, range(5)))
    lines = path.read_bytes().split(b"\n")
    for broken in (b"\xff\x00", b'{"cpu": "cpu"}', lines[2].replace(b"5.0", b"-1"), b"[]"):
        path.write_bytes(b"\n".join([*lines[:2], broken, *lines[3:]]))
        records = read_records(path, HERE)
        assert (len(records.times), records.damaged) == (4, [3])


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(BadInput, match="expected records, one JSON object per line"):
        read_records(path, HERE)


def test_a_missing_file_has_no_records(tmp_path: Path) -> None:
    assert not read_records(tmp_path / "none", HERE).times
    assert cpu_name()
