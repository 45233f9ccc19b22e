"""TIR as pseudo-code: TVMScript without what every line of it repeats.

    before: at = T.alloc_buffer((T.int64(1),), "int64", layout=None)
            at[T.int64(0)] = lo * T.int64(4)
            at_1: T.let[T.int64] = at[T.int64(0)]
            y0[at_1:at_1 + T.int64(8)] = x0[T.Ramp(at_1, T.int64(1), 8)] + T.Broadcast(c, 8)
    after:  at_1 := lo * 4
            y0[at_1 : 8] = x0[at_1 : 8] + c

``:=`` hides a value from TVM's analyzer, by a store and a load that LLVM takes away again.
``[at : 8]`` are eight elements from ``at`` on, ``[at : 8 : s]`` those ``s`` apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Calls that are split at their commas, and what is made of their arguments.
_CALLS = {
    "T.Broadcast": lambda value, lanes: value,
    "T.Ramp": lambda base, stride, lanes: _lanes(base, lanes, stride),
    "T.Cast": lambda dtype, value: f"{_bare(dtype)}({value})",
    "T.reinterpret": lambda dtype, value: f"bits {_bare(dtype)}({value})",
    "T.address_of": lambda value: f"&{value}",
    "T.call_llvm_intrin": lambda dtype, name, *args: f"{_bare(name)}({', '.join(args)})",
    "T.call_llvm_pure_intrin": lambda dtype, name, *args: f"{_bare(name)}({', '.join(args)})",
    "T.call_extern": lambda dtype, name, *args: f"{_bare(name)}({', '.join(args)})",
}
_CALL = re.compile(r"T\.\w+\(")
_SCALAR = re.compile(r"T\.(?:u?int\d+|float\d+|bool)\((\"?-?[\w.+-]+\"?)\)")
_UNSAID = re.compile(r" *(T\.func_attr|return 0|\w+ = T\.decl)")
_LET = re.compile(r"^( *)(\w+): T\.let\[[^=]*\] = (.*)$")
_BUFFER = re.compile(
    r"^ *(\w+) = T\.alloc_buffer\(\(([^)]*),\)(?:, (\"\w+\"))?(?:, layout=None)?\)$"
)
_SEEN = re.compile(r" *(for |if |else:|while |[\w.]+\(|(y\d+|tmp)\[)")
_SLICE = re.compile(r"\[([^\[\]:]+):(?:\1 \+ )?(\d+)(?::(\d+))?\]")


def readable(script: str, outline: bool = False) -> str:
    """The body of a function in TVMScript as pseudo-code.

    Args:
        script: what ``PrimFunc.script()`` gives.
        outline: leave out how values are computed, so that loops, branches, calls and stores are
            seen.
    """
    lines = [line for line in script.splitlines() if line.startswith("    ")]
    lines = [line[4:] for line in lines if not _UNSAID.match(line)]
    lines = [_scalars(line) for line in lines]
    lines = [_SLICE.sub(_slice, _calls(line).replace("T.", "")) for line in _opaque(lines)]
    return "\n".join(_folded(lines) if outline else lines)


def _scalars(line: str) -> str:
    """``T.int64(8)`` is 8: what type it has is that of what it stands beside."""
    return _SCALAR.sub(lambda m: m[1].strip('"'), line)


def _opaque(lines: list[str]) -> Iterator[str]:
    """Buffer, store and load of a value that TVM is not to see through, as one line."""
    at = 0
    while at < len(lines):
        buffer = _BUFFER.match(lines[at])
        stored = lines[at + 1].split(" = ", 1) if buffer and at + 1 < len(lines) else []
        let = _LET.match(lines[at + 2]) if len(stored) == 2 and at + 2 < len(lines) else None
        if buffer and let and re.fullmatch(rf"{buffer[1]}\[.*\]", let[3]):
            yield f"{let[1]}{let[2]} := {stored[1]}"
            at += 3
            continue
        plain = _LET.match(lines[at])
        if buffer:
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            yield f"{indent}{buffer[1]} = memory({buffer[2]}, {_bare(buffer[3] or 'float32')})"
        else:
            yield f"{plain[1]}{plain[2]} = {plain[3]}" if plain else lines[at]
        at += 1


def _calls(text: str) -> str:
    """Every call of ``_CALLS`` rewritten, the innermost first."""
    found, at = "", 0
    for match in _CALL.finditer(text):
        if match.start() < at:
            continue
        name = match[0][:-1]
        arguments, end = _arguments(text, match.end())
        parts = [_calls(a) for a in arguments]
        known = _CALLS.get(name)
        call = known(*parts) if known else f"{name}({', '.join(parts)})"
        found, at = found + text[at : match.start()] + call, end
    return found + text[at:]


def _arguments(text: str, at: int) -> tuple[list[str], int]:
    """What stands between a parenthesis and its end, split at commas, and where the end is."""
    parts, depth, begin = [], 0, at
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}" and depth == 0:
            last = text[begin:i].strip()
            return ([*parts, last] if last else parts), i + 1
        elif text[i] in ")]}":
            depth -= 1
        elif text[i] == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    raise ValueError(f"no end of the arguments at {at}: {text}")


def _lanes(base: str, lanes: str, stride: str) -> str:
    return f"{base} : {lanes}" if stride == "1" else f"{base} : {lanes} : {stride}"


def _slice(found: re.Match[str]) -> str:
    """``[a:a + 64:8]``, whose end lies beyond the last element by a step, as eight from a on."""
    base, length, step = found.groups()
    count = int(length) // int(step or 1)
    return f"[{base} : {count} : {step}]" if step else f"[{base} : {count}]"


def _bare(text: str) -> str:
    return text.strip('"').removeprefix("llvm.")


def _folded(lines: list[str]) -> Iterator[str]:
    """Loops, branches, calls, and stores to what a caller sees; what is between them as ``...``."""
    last = ""
    for line in lines:
        shown = line if _SEEN.match(line) else f"{line[: len(line) - len(line.lstrip())]}..."
        if shown != last or not shown.endswith("..."):
            yield shown
        last = shown
