"""Import rule of ``einsum``: a chain of matmuls."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, counted
from tvm_disc.relay.importer.context import Emitter, product
from tvm_disc.relay.importer.lowering.index import rows
from tvm_disc.relay.importer.lowering.nn import matmul
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, iota, number
from tvm_disc.relay.importer.lowering.transform import permute
from tvm_disc.relay.importer.tensor import Tensor


def _einsum(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return an einsum, contracted from left to right."""
    ctx.same_dtype(list(args[0]))
    parts, labels, out = _labelled(ctx, list(args[0]), attrs["equation"].replace(" ", ""))
    current, have = parts[0], labels[0]
    for k in range(1, len(parts)):
        later = set(out).union(*labels[k + 1 :])
        current, have = _contract(ctx, current, have, parts[k], labels[k], later)
    current, have = _summed(ctx, current, have, set(out))
    return permute(ctx, current, [have.index(c) for c in out])


def _labelled(
    ctx: Emitter, parts: list[Tensor], equation: str
) -> tuple[list[Tensor], list[str], str]:
    """Parse the equation: return the operands, one letter per axis of each, and the result's
    letters.

    Axes of ``...`` are digits, counted from the last axis. A letter that occurs twice in an operand
    selects the diagonal. Without ``->`` the result has the letters that occur once, in alphabetical
    order.

    Raises:
        TypeMismatch: the equation does not fit the operands.
    """
    left, arrow, out = equation.partition("->")
    labels = left.split(",")
    if len(labels) != len(parts):
        wanted = counted(len(labels), "operand")
        raise TypeMismatch(ctx.where(f"expected {wanted} for {equation!r}, found {len(parts)}"))
    spare = [
        p.rank - len(n.replace("...", "")) if "..." in n else 0
        for p, n in zip(parts, labels, strict=True)
    ]
    given = list(labels)
    labels = [n.replace("...", _digits(k)) for n, k in zip(labels, spare, strict=True)]
    if not arrow:
        every = "".join(labels)
        named = (c for c in sorted(set(every)) if c.isalpha() and every.count(c) == 1)
        out = "..." + "".join(named)
    indices = out
    out = out.replace("...", _digits(max(spare)))
    for k, (part, names) in enumerate(zip(parts, labels, strict=True)):
        if len(names) != part.rank:
            raise TypeMismatch(
                ctx.where(
                    f"operand {k}: expected one index per axis, "
                    f"found {given[k]!r} for an operand of rank {part.rank}"
                )
            )
        parts[k], labels[k] = _diagonal(ctx, *_without_ones(ctx, part, names, labels, parts))
    unknown = set(out) - set("".join(labels))
    if unknown or len(set(out)) != len(out):
        text = f"result of {equation!r}: expected different indices of the operands"
        raise TypeMismatch(ctx.where(f"{text}, found {indices!r}"))
    return parts, labels, out


def _digits(count: int) -> str:
    return "".join(map(str, range(max(count, 0))[::-1]))


def _without_ones(
    ctx: Emitter, x: Tensor, names: str, labels: list[str], parts: list[Tensor]
) -> tuple[Tensor, str]:
    """Drop axes of ``...`` that are 1 in this operand and larger in another: they broadcast."""

    def broadcast(axis: int, name: str) -> bool:
        if not name.isdigit() or ctx.literal(x.dims[axis]) != 1:
            return False
        pairs = zip(labels, parts, strict=True)
        return any(name in n and ctx.literal(p.dims[n.index(name)]) != 1 for n, p in pairs)

    kept = [a for a, name in enumerate(names) if not broadcast(a, name)]
    if len(kept) == x.rank:
        return x, names
    return ctx.reshape(x, [x.dims[a] for a in kept]), "".join(names[a] for a in kept)


def _diagonal(ctx: Emitter, x: Tensor, names: str) -> tuple[Tensor, str]:
    """Merge axes of the same name into their diagonal, which becomes the first axis."""
    for name in names:
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            ctx.require_eq(x.dims[first], x.dims[second], f"index {name!r}")
            rest = [a for a in range(x.rank) if a not in (first, second)]
            size = x.dims[first]
            moved = permute(ctx, x, [first, second, *rest])
            flat = ctx.reshape(moved, [size * size, *moved.dims[2:]])
            step = number(ctx, ctx.solver.simplify(size + 1), "int64")
            x = rows(ctx, flat, iota(ctx, size) * step, 0)
            names = name + "".join(names[a] for a in rest)
    return x, names


def _summed(ctx: Emitter, x: Tensor, names: str, wanted: set[str]) -> tuple[Tensor, str]:
    axes = [a for a, c in enumerate(names) if c not in wanted]
    if not axes:
        return x, names
    dims = [d for a, d in enumerate(x.dims) if a not in axes]
    total = ctx.emit(R.sum(ctx.expr(x), axes), dims, x.dtype)
    return total, "".join(c for c in names if c in wanted)


def _contract(
    ctx: Emitter, a: Tensor, a_names: str, b: Tensor, b_names: str, later: set[str]
) -> tuple[Tensor, str]:
    """Return one matmul; shared indices are batch dims if a later operand or the result has
    them.
    """
    a, a_names = _summed(ctx, a, a_names, later | set(b_names))
    b, b_names = _summed(ctx, b, b_names, later | set(a_names))
    shared = [c for c in a_names if c in b_names]
    batch, inner = [c for c in shared if c in later], [c for c in shared if c not in later]
    rows = [c for c in a_names if c not in shared]
    cols = [c for c in b_names if c not in shared]
    for c in shared:
        ctx.require_eq(a.dims[a_names.index(c)], b.dims[b_names.index(c)], f"index {c!r}")
    sizes = {c: a.dims[k] for k, c in enumerate(a_names)}
    sizes.update({c: b.dims[k] for k, c in enumerate(b_names) if c not in sizes})

    def matrix(x: Tensor, names: str, first: list[str], second: list[str]) -> Tensor:
        x = permute(ctx, x, [names.index(c) for c in (*batch, *first, *second)])
        pair = [product([sizes[c] for c in group]) for group in (first, second)]
        return ctx.reshape(x, [*(sizes[c] for c in batch), *pair])

    out = matmul(ctx, matrix(a, a_names, rows, inner), matrix(b, b_names, inner, cols), a.dtype)
    names = "".join([*batch, *rows, *cols])
    return ctx.reshape(out, [sizes[c] for c in names]), names


LOWER: Mapping[str, Rule] = {"einsum": _einsum}
