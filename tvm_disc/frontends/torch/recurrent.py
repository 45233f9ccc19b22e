"""Export of recurrent layers as single operators.

``torch.export`` unrolls a recurrent layer, which fixes the sequence length to that of the example.
This module replaces the layer by one custom operator, which accepts any length and is converted to
a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from tvm_disc.support.locks import Lock

_EXPORTING = Lock()
_ATTRIBUTES = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first"
)
KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@cache
def _operators() -> object:
    """Define the custom operators, once per process, and return their library."""
    import torch

    library = torch.library.Library("tvm_disc", "DEF")
    for kind in KINDS:
        several = kind == "lstm"
        states = "Tensor[] hx" if several else "Tensor hx"
        results = "(Tensor, Tensor, Tensor)" if several else "(Tensor, Tensor)"
        library.define(f"{kind}(Tensor input, {states}, {_ATTRIBUTES}) -> {results}")
        library.impl(kind, _computed(torch, kind), "CompositeExplicitAutograd")
        torch.library.register_fake(f"tvm_disc::{kind}", _shaped(several), lib=library)
    return library


def _computed(torch: Any, kind: str) -> Callable[..., object]:
    return lambda *args: getattr(torch._C._VariableFunctions, kind)(*args)


def _shaped(several: bool) -> Callable[..., object]:
    """Return the function by which PyTorch infers the shapes of an operator's results."""

    def fake(x: Any, hx: Any, params: Sequence[object], *args: object) -> tuple[object, ...]:
        states = list(hx) if several else [hx]
        width = states[0].shape[-1] * (2 if args[4] else 1)
        return (x.new_empty((*x.shape[:-1], width)), *(s.new_empty(s.shape) for s in states))

    return fake


@contextmanager
def whole_layers() -> Iterator[None]:
    """Export each recurrent layer as a single operator in this context.

    Layers that are called with packed sequences remain those of PyTorch.
    """
    import torch

    _operators()
    with _EXPORTING:
        try:
            for kind in KINDS:
                setattr(torch._VF, kind, _chosen(torch, kind))
            yield
        finally:
            for kind in KINDS:
                delattr(torch._VF, kind)


def _chosen(torch: Any, kind: str) -> Callable[..., object]:
    whole = getattr(torch.ops.tvm_disc, kind)
    plain = getattr(torch._C._VariableFunctions, kind)

    def layer(*args: object) -> object:
        packed = len(args) != 9 or not isinstance(args[3], bool)
        return plain(*args) if packed else whole(*args)

    return layer


__all__ = ["KINDS", "whole_layers"]
