"""The one table of PyTorch's operators: a row for each overload that has a meaning in Relay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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

FAMILIES: tuple[Mapping[str, Callable[..., Any]], ...] = (
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


def _joined() -> Mapping[str, Callable[..., Any]]:
    rows = {name: row for family in FAMILIES for name, row in family.items()}
    assert len(rows) == sum(map(len, FAMILIES)), "an operator has two rows"
    return rows


ROWS: Mapping[str, Callable[..., Any]] = _joined()

# Operators with a row that PyTorch takes apart nevertheless: in the whole form they write into
# their operands, or give views into which others write, which only the parts show.
TAKEN_APART = frozenset(
    ["batch_norm.default", "instance_norm.default", "meshgrid.default", "meshgrid.indexing"]
)


def row_name(target: Any) -> str:
    """The name of an overload in the table: ``add.Tensor`` for ``aten.add.Tensor``."""
    name = str(getattr(target, "_name", target)).removeprefix("aten::").removeprefix("aten.")
    return name if "." in name else f"{name}.default"
