"""Export of recurrent layers as single operators.

``torch.export`` unrolls a recurrent layer for the length of the example, which fixes the length.
Here the layer is one operator, whose result has the length of its input; it becomes a loop.
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
    """Define the custom operators, once per process."""
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
    """Return a shape function: the shapes of the result follow from the input and the states."""

    def fake(x: Any, hx: Any, params: Sequence[object], *args: Any) -> tuple[object, ...]:
        states = list(hx) if several else [hx]
        width = states[0].shape[-1] * (2 if args[4] else 1)
        return (x.new_empty((*x.shape[:-1], width)), *(s.new_empty(s.shape) for s in states))

    return fake


@contextmanager
def whole_layers() -> Iterator[None]:
    """Keep the recurrent layers of modules that are exported in this context as single operators.

    Packed sequences are handled by PyTorch.
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

    def layer(*args: object) -> Any:
        packed = len(args) != 9 or not isinstance(args[3], bool)
        return plain(*args) if packed else whole(*args)

    return layer


__all__ = ["KINDS", "whole_layers"]
