"""First screen of a report: is the program slower than other engines, what limits it, advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_disc.abi.manifest import Manifest
from tvm_disc.bench.compare import NAMES, OURS, ComparisonRow
from tvm_disc.bench.page.curves import Measured
from tvm_disc.bench.points import Point
from tvm_disc.errors import counted
from tvm_disc.runtime.calls import readable
from tvm_disc.runtime.profile import LIMITS, Line, Profile
from tvm_disc.runtime.summary import number_of

EQUAL = 0.97  # ratio of times above which a peer counts as equally fast
LARGE = 0.15  # least share of a call's time that is reported
NEAR, FAR = 0.7, 0.6  # of a roofline limit: at least NEAR is near, below FAR is far
NO_GAIN = 1.02  # a call below this multiple of its least time needs no advice
LISTED = 3  # maximum number of kernels that a sentence lists


@dataclass(frozen=True)
class Advice:
    """A recommended action, and the reason for it; ``document`` describes the action."""

    why: str
    do: str
    document: str


def at_text(point: Point) -> str:
    """Return the sizes of a point as text."""
    return ", ".join(f"{name}={size}" for name, size in point.items()) or "its one shape"


def verdict(found: Measured) -> str:
    """Return one sentence that says whether the program is slower than other engines."""
    peers = [e.name for e in found.engines if e.name != OURS and not e.reason]
    rows = [r for r in found.rows.values() if r.best_gain(peers)]
    if not rows:
        reasons = "; ".join(f"{label(e.name)}: {e.reason}" for e in found.engines if e.reason)
        return f"No other engine ran this model. {reasons or 'None was requested'}."
    slower = [(gain, r) for r in rows if (gain := r.best_gain(peers) or 1.0) < EQUAL]
    if not slower:
        names = " and ".join(label(p) for p in peers)
        verb, sizes = "is" if len(peers) == 1 else "are", counted(len(rows), "measured size")
        return f"It is not slower: {names} {verb} faster at none of {sizes}."
    gain, row = min(slower, key=lambda pair: pair[0])
    return (
        f"Another engine is faster at {len(slower)} of {counted(len(rows), 'measured size')}: at "
        f"worst {_fastest(row, peers)}, which takes {gain:.2f} of the time at {at_text(row.point)}."
    )


def label(engine: str) -> str:
    """Return the name of an engine."""
    return NAMES.get(engine, engine)


def _fastest(row: ComparisonRow, peers: Sequence[str]) -> str:
    return label(min(peers, key=lambda p: row.gain(p) or float("inf")))


def duration(seconds: float) -> str:
    """Return a time with three digits, in the largest unit in which it is at least one."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if scale * seconds >= 1:
            return f"{scale * seconds:.3g} {unit}"
    return f"{1e6 * seconds:.3g} us"


def findings(found: Measured) -> Iterator[str]:
    """Yield the findings about a call at the base sizes, the most important first."""
    yield _times(found)
    profile = found.at_base
    if profile is None:
        yield f"No call was profiled: {next(iter(found.refused.values()), 'no size was given')}."
        return
    if profile.peaks is None:
        yield "The limits of this machine are not known, so no kernel is compared with them."
    else:
        yield from _limits(profile, found.manifest)
    yield from (_cliff_text(found) if found.cliffs else ())
    peak = number_of(found.manifest["workspace_bytes"], found.base)
    yield f"A call needs {readable(peak)} of temporary memory at {at_text(found.base)}."


def _times(found: Measured) -> str:
    row = found.row(found.base)
    others = [e.name for e in found.engines if e.name != OURS]
    own = row.median(OURS)
    if own is None:
        return f"The program refuses {at_text(found.base)}: {row.failed.get(OURS, '')}."
    peers = [f"{label(n)} {duration(t)}" for n in others if (t := row.median(n)) is not None]
    said = f"; {', '.join(peers)}" if peers else ""
    threads = counted(found.threads, "thread")
    return f"At {at_text(found.base)} a call takes {duration(own)} on {threads}{said}."


def _limits(profile: Profile, manifest: Manifest) -> Iterator[str]:
    for name, share, reached in profile.limits():
        near = "" if name == "launch" else f", at {100 * reached:.0f} % of that limit"
        yield f"{100 * share:.0f} % of the time is in kernels limited by {LIMITS[name]}{near}."
    total, least = profile.split()["total_us"], least_us(profile)
    if total < NO_GAIN * least:
        yield "No kernel is far from its limit: faster kernels would not shorten the call."
    elif least:
        yield (
            f"If every kernel reached its limit, a call would take {duration(least / 1e6)} "
            f"instead of {duration(total / 1e6)}: at most {total / least:.2f} times "
            "faster, with these data types on this machine."
        )
    if lost := [line for line in by_loss(profile) if _loss(line) > LARGE / 2 * total][:LISTED]:
        ops = {k["name"]: " + ".join(k["ops"][:LISTED]) for k in manifest["kernels"]}
        named = ", ".join(
            f"{line.kernel} ({ops[line.kernel]}; {duration(line.us / 1e6)}, at "
            f"{100 * line.of_limit:.0f} % of {line.limit})"
            for line in lost
        )
        yield f"Most of the difference is in {named}."


def least_us(profile: Profile) -> float:
    """Return the duration in us of a call if every kernel ran at its roofline limit.

    Launch-bound kernels and host time are unchanged.
    """
    split = profile.split()
    around = split["host_us"] + split["python_us"]
    return around + sum(line.us - _loss(line) for line in profile.lines())


def by_loss(profile: Profile) -> list[Line]:
    """Return the kernels, sorted by their time in excess of the roofline limit, largest first."""
    return sorted(profile.lines(), key=lambda line: -_loss(line))


def _loss(line: Line) -> float:
    if not line.limit or line.limit == "launch":
        return 0.0
    return line.us * max(0.0, 1.0 - line.of_limit)


def _cliff_text(found: Measured) -> Iterator[str]:
    worst = max(found.cliffs, key=lambda c: c.jump)
    yield (
        f"{counted(len(found.cliffs), 'cliff')}: at worst, a call with {worst.dim}={worst.size} "
        f"takes {duration(worst.us / 1e6)} and one with {worst.dim}={worst.size + 1} "
        f"{duration(worst.next_us / 1e6)}."
    )


# --- advice ----------------------------------------------------------------------------------


def advice(found: Measured) -> Iterator[Advice]:
    """Yield recommended actions: for time around kernels, for the limits, for kernels far from
    their limits, for cliffs, and for disturbed measurements.
    """
    profile = found.at_base
    if profile is None:
        return
    split = profile.split()
    total = split["total_us"] or 1.0
    if (around := (split["python_us"] + split["host_us"]) / total) > LARGE:
        yield Advice(
            f"{100 * around:.0f} % of a call is around the kernels",
            "Pass contiguous arrays of the right dtype, or bind them once with exe.bind; call from "
            "C++; give one call more work.",
            "docs/guides/serve.md",
        )
    yield from _by_limit(found, profile)
    yield from _by_kernel(found, profile, total)
    if found.cliffs:
        yield _tune(found, "Time jumps between adjacent sizes")
    disturbed = sum(p.disturbed > 0 for p in found.profiles.values())
    if profile.warnings() or disturbed:
        said = [*profile.warnings()]
        if disturbed:
            every = counted(len(found.profiles), "profile")
            said.append(
                f"Other processes disturbed {disturbed} of {every}, whose points are uncertain."
            )
        yield Advice(" ".join(said), "Repeat the report on an idle machine.", "")


def _by_limit(found: Measured, profile: Profile) -> Iterator[Advice]:
    for name, share, reached in profile.limits():
        if share < LARGE:
            continue
        if name == "launch":
            yield Advice(
                f"{100 * share:.0f} % of the time is in kernels with little work",
                "Use larger batches, or ragged batches of requests of several lengths.",
                "docs/ragged.md",
            )
        elif reached >= NEAR:
            cores = profile.peaks.cores if profile.peaks else found.threads
            more = f" There are {cores} cores: use more threads." if found.threads < cores else ""
            yield Advice(
                f"Kernels limited by {LIMITS[name]} are near this machine's limit",
                f'Only smaller types or less work help: Options(weights="int8").{more}',
                "docs/quantization.md",
            )


def _by_kernel(found: Measured, profile: Profile, total: float) -> Iterator[Advice]:
    far = [line for line in by_loss(profile) if line.limit and line.of_limit < FAR]
    lost = sum(map(_loss, far)) / total
    if lost > LARGE:
        yield _tune(found, f"Kernels far from their limit lose {100 * lost:.0f} % of the time")
    refused = found.manifest["refused"]
    if refused and any(line.limit == "memory" for line in far):
        yield Advice(
            f"{counted(len(refused), 'fusion')} refused, so values pass through memory",
            "Relate dims by constraints where that is the reason: explain lists each with its "
            "reason.",
            "docs/guides/profile.md",
        )


def _tune(found: Measured, why: str) -> Advice:
    model = found.manifest.get("model") or "MODEL"
    dims = "".join(
        f" --dims {c.dim}={min(c.values)}..{max(c.values)}" for c in found.curves if c.values
    )
    command = f"tvm-disc tune {model} --records records.jsonl{dims}"
    return Advice(why, f"Measure variants on this machine: {command}", "docs/guides/tune.md")


__all__ = [
    "Advice",
    "advice",
    "at_text",
    "by_loss",
    "duration",
    "findings",
    "label",
    "least_us",
    "verdict",
]
