"""Table of PyTorch operators: a converter for each supported overload."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_disc.frontends.torch.rows import (
    binary,
    conv,
    create,
    elementwise,
    index,
    matmul,
    misc,
    norm,
    pool,
    reduce,
    rnn,
    sample,
    scatter,
    shape,
    special,
    transformer,
    vision,
)

FAMILIES: tuple[Mapping[str, Callable[..., object]], ...] = (
    elementwise.ROWS,
    binary.ROWS,
    reduce.ROWS,
    shape.ROWS,
    special.ROWS,
    index.ROWS,
    scatter.ROWS,
    create.ROWS,
    matmul.ROWS,
    transformer.ROWS,
    norm.ROWS,
    conv.ROWS,
    pool.ROWS,
    sample.ROWS,
    rnn.ROWS,
    misc.ROWS,
    vision.ROWS,
)


def _joined() -> Mapping[str, Callable[..., object]]:
    rows = {name: row for family in FAMILIES for name, row in family.items()}
    assert len(rows) == sum(map(len, FAMILIES)), "an operator has two rows"
    return rows


ROWS: Mapping[str, Callable[..., object]] = _joined()

# Operators that are decomposed although they have a converter. They may write into their operands,
# or return views into which other operators write, and a converter cannot express these writes.
TAKEN_APART = frozenset(
    ["batch_norm.default", "instance_norm.default", "meshgrid.default", "meshgrid.indexing"]
)


def row_name(target: object) -> str:
    """Return the key of an overload in the table: ``add.Tensor`` for ``aten.add.Tensor``."""
    name = str(getattr(target, "_name", target)).removeprefix("aten::").removeprefix("aten.")
    return name if "." in name else f"{name}.default"
