"""Damage to files: bytes, tokens of text, values of JSON; everything from a generator."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

_TOKENS = re.compile(rb"\w+|\s+|.", re.DOTALL)

# What readers may not have thought of, where a word or a number stood.
WORDS: tuple[bytes, ...] = (
    b"", b"?", b"-1", b"0", b"1", b"7", b"99999999999999999999", b"9" * 4301, b"1e999", b"nan",
    b"inf", b"-0.0", b"0x10", b"\x00", b"\xff", "é".encode(), "٣".encode(), "²".encode(), b'"',
    b"'", b"/*", b"*/", b"//", b"#[metadata]", b"meta[relay.Constant][0]", b"%0", b"%x", b"@main",
    b"@none", b"_", b"fn", b"let", b"if", b"match", b"def", b"type", b"free_var", b"ref", b"Tensor",
    b"int4096", b"float8", b"bool", b"(" * 3000, b"[" * 3000, b"{" * 3000, b"Cons", b"Nil", b"take",
    b"reshape", b"nn.conv2d", b"true", b"null", b"handle", b"int0", b"bool8", b"float32x4",
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 10**30, 2**63, 1.5, float("nan"), float("inf"), "", "x", "0",
    "1", "-1", "é", "٣", "²", "9" * 4301, "99999999", "nan", "float32", "int4096", "Array", "Map",
    "relay.Var", "relay.Function", "IRModule", "TupleType", "relay.Constant", "Op", "IntImm",
    "runtime.String", [], [0], [1, 2], ["x"], [None], {}, {"x": 1}, [[]], "\ud800",
)  # fmt: skip


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bits and ranges of bytes changed, cut, repeated or overwritten."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at, size = rng.randrange(len(out) + 1), rng.choice((1, 4, 8, 64, 4096))
        kind = rng.randrange(7)
        if kind <= 1 and out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at : len(out) if rng.random() < 0.3 else at + size]
        elif kind == 3:
            out[at:at] = out[at : at + size]
        elif kind == 4:
            out[at : at + size] = rng.randbytes(min(size, len(out) - at))
        elif kind == 5:
            out[at : at + 8] = rng.choice((bytes(8), b"\xff" * 8, b"\x7f" * 8))[: len(out) - at]
        else:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out)


def mutate_tokens(data: bytes, rng: random.Random) -> bytes:
    """Words, numbers and marks left out, repeated, swapped or replaced; lines too."""
    if rng.random() < 0.15:
        return b"\n".join(_shuffled(data.split(b"\n"), rng))
    return b"".join(_shuffled(_TOKENS.findall(data), rng))


def _shuffled(parts: list[bytes], rng: random.Random) -> list[bytes]:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not parts:
            break
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        kind = rng.randrange(6)
        if kind == 0:
            del parts[at : at + rng.choice((1, 1, 3, 20))]
        elif kind == 1:
            parts[at:at] = parts[at : at + rng.choice((1, 3, 20))]
        elif kind == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif kind == 3:
            parts[at] = parts[other]
        elif kind == 4:
            parts[at] = rng.choice(WORDS)
        else:
            parts.insert(at, rng.choice(WORDS))
    return parts


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """Values replaced, left out, repeated, exchanged; keys renamed; everything else as it was."""
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        root = _changed(root, rng)
    return json.dumps(root).encode()


def _changed(root: Any, rng: random.Random) -> Any:
    holder = _holder(root, rng)
    if holder is None:
        return rng.choice(VALUES)
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    key, other = rng.choice(keys), rng.choice(keys)
    kind = rng.randrange(6)
    if kind <= 1:
        holder[key] = deepcopy(rng.choice(VALUES))
    elif kind == 2:
        del holder[key]
    elif kind == 3:
        holder[key], holder[other] = deepcopy(holder[other]), deepcopy(holder[key])
    elif isinstance(holder, list):
        holder.insert(key, deepcopy(rng.choice((holder[other], rng.choice(VALUES)))))
    else:
        holder[rng.choice(("x", "data", "attrs", str(other)))] = holder.pop(key)
    return root


def _holder(root: Any, rng: random.Random) -> Any:
    """A list or an object somewhere inside, large ones no more often than small ones."""
    found, node = None, root
    while isinstance(node, dict | list) and node:
        found = node
        if rng.random() < 0.3:
            break
        node = rng.choice(list(node.values()) if isinstance(node, dict) else node)
    return found


def nested(depth: int) -> tuple[bytes, ...]:
    """Texts as deep as nobody writes them."""
    return tuple(opening * depth for opening in (b"(", b"[", b"{", b'{"a":', b"[{", b"fn(", b"-"))


Mutation = Callable[[bytes, random.Random], bytes]
