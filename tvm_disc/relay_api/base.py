"""``relay.base``: source names, spans and printing."""

from __future__ import annotations

from tvm_disc.relay.expr import Id, SourceName, Span
from tvm_disc.relay.text.printer import astext, pretty_print

__all__ = ["Id", "SourceName", "Span", "astext", "pretty_print"]
