"""All rows: each of these modules puts its own into the table."""

from __future__ import annotations

from benchmarks.zoo import (
    decoders,
    detect,
    encoders,
    images,
    seq2seq,
    sequences,
    speech,
    tables,
)
from benchmarks.zoo.row import ROWS

MODULES = (encoders, decoders, seq2seq, images, detect, sequences, speech, tables)

__all__ = ["MODULES", "ROWS"]
