"""The stage timer, the dumps, and the ladder."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_disc.support.debug import (
    CODE,
    FACTS,
    IR,
    SUMMARY,
    TIMINGS,
    Dumper,
    StageTimer,
    Trace,
    format_timings,
    text_of,
)


class Scripted:
    """Something with TVM's ``script`` method."""

    def script(self) -> str:
        return "class Module: ..."


def ticking(step: float = 1.0) -> Callable[[], float]:
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def test_stages_are_in_program_order_and_nest() -> None:
    timer = StageTimer(ticking())
    with timer.stage("import"):
        pass
    with timer.stage("fuse"), timer.stage("plan"):
        pass
    assert timer.timings == {"import": 1.0, "fuse": 3.0, "fuse/plan": 1.0}
    assert list(timer.timings) == ["import", "fuse", "fuse/plan"]


def test_a_repeated_stage_adds_up() -> None:
    timer = StageTimer(ticking())
    for _ in range(3):
        with timer.stage("kernel"):
            pass
    assert timer.timings == {"kernel": 3.0}


def test_a_failing_stage_is_timed_and_closed() -> None:
    timer = StageTimer(ticking())
    with pytest.raises(ZeroDivisionError), timer.stage("outer"), timer.stage("inner"):
        raise ZeroDivisionError
    with timer.stage("next"):
        pass
    assert list(timer.timings) == ["outer", "outer/inner", "next"]


def test_the_report_shows_milliseconds_and_percent() -> None:
    text = format_timings({"import": 0.003, "fuse": 0.001, "fuse/plan": 0.0005})
    assert text.splitlines() == [
        "import       3.00 ms  75.0 %",
        "fuse         1.00 ms  25.0 %",
        "  plan       0.50 ms  12.5 %",
        "total        4.00 ms 100.0 %",
    ]


def test_the_report_of_nothing() -> None:
    assert StageTimer().report() == "total       0.00 ms   0.0 %"


@pytest.mark.parametrize(
    ("thing", "text"), [("text", "text"), (Scripted(), "class Module: ..."), (12, "12")]
)
def test_readable_form(thing: object, text: str) -> None:
    assert text_of(thing) == text


def test_dumps_are_numbered_and_indexed(tmp_path: Path) -> None:
    dumper = Dumper(tmp_path / "new" / "dir")
    first = dumper.dump("imported.relax.py", Scripted())
    dumper.dump("groups.txt", "a\nb\n\n")
    assert first == tmp_path / "new" / "dir" / "00_imported.relax.py"
    assert first.read_text() == "class Module: ...\n"
    assert (first.parent / "01_groups.txt").read_text() == "a\nb\n"
    assert (first.parent / "index.txt").read_text() == "00_imported.relax.py\n01_groups.txt\n"


def test_a_second_build_removes_only_what_the_first_wrote(tmp_path: Path) -> None:
    first = Dumper(tmp_path)
    for name in ("a.txt", "b.txt", "c.txt"):
        first.dump(name, name)
    (tmp_path / "01_mine.txt").write_text("keep")
    Dumper(tmp_path).dump("z.txt", "z")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["00_z.txt", "01_mine.txt", "index.txt"]


def test_an_index_cannot_reach_outside_its_directory(tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("keep")
    inner = tmp_path / "dumps"
    inner.mkdir()
    (inner / "index.txt").write_text("../victim.txt\n\n")
    Dumper(inner).dump("a.txt", "a")
    assert victim.exists()


def test_no_directory_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Dumper(None).dump("a.txt", "a") is None
    assert list(tmp_path.iterdir()) == []


def everything(level: int) -> str:
    stream = io.StringIO()
    trace = Trace(level, stream=stream)
    with trace.stage("import"):
        trace.say(SUMMARY, "summary")
        trace.say(FACTS, lambda: "fact")
    trace.show("a.relax.py", Scripted())
    trace.show("a.ll", "define", level=CODE)
    assert list(trace.finish()) == ["import"]
    return stream.getvalue()


def test_the_ladder_is_cumulative() -> None:
    marks = ["total", "summary", "fact", "--- a.relax.py\nclass Module", "--- a.ll\ndefine"]
    assert [TIMINGS, SUMMARY, FACTS, IR, CODE] == [1, 2, 3, 4, 5]
    for level in range(6):
        text = everything(level)
        assert [mark in text for mark in marks] == [level > i for i in range(5)], level


def test_a_message_above_the_level_is_not_computed() -> None:
    Trace(FACTS - 1).say(FACTS, lambda: pytest.fail("computed"))


def test_messages_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Trace(SUMMARY).say(SUMMARY, "hello")
    assert capsys.readouterr() == ("", "hello\n")


def test_show_dumps_at_every_level(tmp_path: Path) -> None:
    Trace(0, tmp_path).show("a.ll", "define", level=CODE)
    assert (tmp_path / "00_a.ll").read_text() == "define\n"


def test_an_error_carries_its_stage_and_the_dumps(tmp_path: Path) -> None:
    trace = Trace(0, tmp_path)
    with pytest.raises(ValueError, match="bad") as caught, trace.stage("fuse"):
        raise ValueError("bad")
    notes = getattr(caught.value, "__notes__", None)
    if sys.version_info < (3, 11):  # exceptions have no notes
        assert notes is None
        return
    assert notes is not None and notes[0] == "in stage 'fuse' of the build"
    assert str(tmp_path) in notes[1]
