"""What is wrong with a case: it is built, called for every world, and for shapes that misfit."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.case import Case
from tests.fuzz.meaning import Undefined, call, difference, stable, unread
from tests.fuzz.odd import odd_worlds, wild_worlds
from tests.guarded import Guarded
from tvm_disc import relay
from tvm_disc.errors import DiscError

Tell = Callable[[str], None]
# How NumPy and the references of checks say that operands do not fit, or that there is nothing to
# pick from.
ILLEGAL = (
    "broadcast", "mismatch", "must match", "from an empty ax", "with size 0", "negative dim",
    "out of the required range", "must not be",
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What happened. ``kind`` is its class, by which it is kept and made small.

    ``refused`` is none unless the case is sure: another value of an attribute may be illegal.
    """

    kind: str
    detail: str

    @property
    def counts(self) -> bool:
        """Whether it is something wrong."""
        return not self.kind.startswith("perhaps ")

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class _Found(Exception):
    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind)
        self.finding = Finding(kind, detail)


def judge(case: Case, tell: Tell = lambda stage: None) -> Finding | None:
    """What is wrong with a case, None if nothing; ``tell`` hears what is about to be done."""
    try:
        tell("build")
        module = case.module
        exe = _built(case, module)
        for number, world in enumerate(case.worlds):
            tell(f"NumPy of call {number}")
            answer = _meant(module, world)
            tell(f"call {number}")
            _legal(exe, answer, world, number % 2 == 1, case.sure)
        for number, world in enumerate(odd_worlds(case)):
            tell(f"NumPy of odd call {number}")
            answer = _meant(module, world)
            tell(f"odd call {number}")
            _odd(exe, answer, world, unfit(module, world), case.constraints)
        for number, world in enumerate(wild_worlds(case)):
            tell(f"wild call {number}")
            found = _guarded(exe, world)
            tell(f"NumPy of wild call {number}")
            if found is not None:
                _wild(found, _meant(module, world, special=True), world)
    except _Found as found:
        return found.finding
    return None


def _built(case: Case, module: Any) -> Any:
    try:
        return case.built(module)
    except DiscError as error:
        # Inputs hide dims that a sample has as numbers.
        sure = case.sure and "known at compile time" not in str(error)
        kind = "refused" if sure else "perhaps refused"
        raise _Found(f"{kind} {shortened(error)}", str(error)) from error
    except Exception as error:
        raise _Found(f"build raised {place(error)}", str(error)[:500]) from error


def place(error: BaseException) -> str:
    """An exception and the innermost line of the package on its way."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "tvm_disc" in f.filename] or frames
    return f"{type(error).__name__} in {Path(own[-1].filename).stem}.{own[-1].name}"


def shortened(error: BaseException) -> str:
    """A message without the names and numbers of one case."""
    first = next(iter(str(error).splitlines()), "")
    words = re.sub(r"[@%']?\b[a-z]{0,4}\d+\w*'?|\d+|\([^()]*\)|\[[^\[\]]*\]", "_", first)
    return f"{type(error).__name__}: {words[:70]}"


@dataclass(frozen=True)
class _Answer:
    """What a module gives in every run, or ``why`` NumPy gives nothing."""

    runs: list[Any] | None
    why: str = ""

    @property
    def certain(self) -> list[Any] | None:
        """The runs, if they do not hang on rounding."""
        return self.runs if self.runs is not None and stable(self.runs) else None


def _meant(module: Any, world: Mapping[str, np.ndarray], special: bool = False) -> _Answer:
    try:
        return _Answer(call(module, world, special=special))
    except Undefined as error:
        return _Answer(None, "" if unread(module, world, special) else str(error))


def _legal(
    exe: Any, answer: _Answer, world: Mapping[str, np.ndarray], at_start: bool, sure: bool
) -> None:
    runs = answer.certain
    pages = Guarded()
    try:
        placed = {n: pages.array(a, at_start) for n, a in world.items()}
        try:
            found = _call(exe, placed, refuse=runs is None)
        except _Found as error:
            # The dims of a variation may be illegal where NumPy broadcasts.
            if sure or not error.finding.kind.startswith("refused"):
                raise
            raise _Found(f"perhaps {error.finding.kind}", error.finding.detail) from error
        for name, array in placed.items():
            if array.tobytes() != world[name].tobytes():
                raise _Found("wrote to an input", f"input {name} was changed")
        if runs is None and found is not None:
            _refusable(answer.why, world, found)
        if runs is None or found is None:
            return
        told = difference(_arrays(found), runs)
        if told is not None:
            raise _Found("wrong result", f"{told}; inputs {shapes(world)}")
        outs = pages.like(_arrays(found), not at_start)
        _call(exe, placed, refuse=False, out=outs)
        if not same_bits(found, outs):
            raise _Found("drift", f"a second call gives other bits; inputs {shapes(world)}")
    finally:
        pages.release()


def _call(exe: Any, inputs: Mapping[str, np.ndarray], refuse: bool, **more: Any) -> Any:
    try:
        return exe(**inputs, **more)
    except (DiscError, MemoryError) as error:
        if refuse:
            return None
        raise _Found(f"refused a call {shortened(error)}", str(error)) from error
    except Exception as error:
        raise _Found(f"call raised {place(error)}", str(error)[:500]) from error


def _guarded(exe: Any, world: Mapping[str, np.ndarray]) -> Any:
    """The result of a call that may be refused, None if it is."""
    pages = Guarded()
    try:
        return _call(exe, {n: pages.array(a) for n, a in world.items()}, refuse=True)
    finally:
        pages.release()


def _odd(
    exe: Any,
    answer: _Answer,
    world: Mapping[str, np.ndarray],
    static: str,
    constraints: Sequence[str],
) -> None:
    """A call that may be illegal: refused, or what NumPy says."""
    found = _guarded(exe, world)
    if found is None:
        return
    if static:
        raise _Found("accepted another dim", f"{static}; inputs {shapes(world)}")
    broken = [c for c in constraints if not holds(c, world)]
    if broken:
        raise _Found("accepted against a constraint", f"{broken[0]}; inputs {shapes(world)}")
    _refusable(answer.why, world, found)
    if answer.certain is not None:
        told = difference(_arrays(found), answer.certain)
        if told is not None:
            raise _Found("wrong result of another shape", f"{told}; inputs {shapes(world)}")


def _refusable(why: str, world: Mapping[str, np.ndarray], found: Any) -> None:
    """What was not refused although NumPy finds that operands do not fit; who picks no element of
    nothing may go on."""
    if any(words in why for words in ILLEGAL) and _elements(found):
        raise _Found("accepted an illegal call", f"{why}; inputs {shapes(world)}")


def _wild(found: Any, answer: _Answer, world: Mapping[str, np.ndarray]) -> None:
    """The results of a call with contents that nobody has: what NumPy says if it says anything.

    Whatever they are, nothing outside of a tensor is read, and a result is as large as it says.
    """
    touch(found)
    _refusable(answer.why, world, found)
    runs = answer.certain
    if runs is None:
        return
    if (told := difference(_arrays(found), runs)) is not None:
        raise _Found("wrong result of wild contents", f"{told}; inputs {shapes(world)}")


def _elements(found: Any) -> int:
    if isinstance(found, tuple | list):
        return sum(map(_elements, found))
    return int(np.size(_arrays(found)))


def touch(found: Any) -> None:
    """Read the ends of all results."""
    for array in found if isinstance(found, tuple | list) else [_arrays(found)]:
        if isinstance(array, tuple | list):
            touch(array)
        elif (one := _arrays(array)).size:
            one.item(0), one.item(-1)


def unfit(module: Any, world: Mapping[str, np.ndarray]) -> str:
    """The input that has not the dims of its type; empty if all have."""
    for param in module["main"].params:
        wanted = param.type_annotation.shape
        for axis, (dim, size) in enumerate(zip(wanted, world[param.name_hint].shape, strict=True)):
            if isinstance(dim, int) and dim != size:
                return f"axis {axis} of {param.name_hint} is {dim}, given {size}"
    return ""


def holds(constraint: str, world: Mapping[str, np.ndarray]) -> bool:
    """Whether a constraint holds of the shapes of inputs."""
    size = lambda m: str(world[m[1]].shape[int(m[2])])  # noqa: E731
    return bool(eval(re.sub(r"([a-z]\w*)\.(\d+)", size, constraint)))


def shapes(world: Mapping[str, np.ndarray]) -> str:
    """Names and shapes of inputs."""
    return ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in world.items())


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal bit for bit."""
    if isinstance(a, tuple | list):
        return all(map(same_bits, a, b))
    one, other = _arrays(a), _arrays(b)
    return bool(one.shape == other.shape and one.tobytes() == other.tobytes())


def _arrays(out: Any) -> Any:
    """Results as NumPy arrays, also of a program without inputs."""
    if isinstance(out, tuple | list):
        return tuple(map(_arrays, out))
    return out if isinstance(out, np.ndarray) else np.from_dlpack(out)


def text_of(case: Case) -> str:
    """The module as Relay's text."""
    return relay.astext(case.module)
