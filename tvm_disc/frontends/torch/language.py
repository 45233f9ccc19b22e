"""Causal language models of ``transformers`` as one step: tokens and caches in, logits and extended
caches out.

A cache of ``transformers`` has a layer object for each layer of the model. The model is run once on
a few tokens to find these objects and their tensors. The step rebuilds the same objects from its
inputs. Cache layers with a sliding window are replaced by layers that keep all tokens, because the
model's mask hides tokens outside the window. If all layers with keys and values have the same
window, the runtime drops tokens outside the window from all caches. This is valid because masks
depend only on distances between tokens, and positions are inputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tvm_disc.errors import BadInput, TypeMismatch, Unsupported
from tvm_disc.frontends.detect import is_class
from tvm_disc.frontends.extras import require
from tvm_disc.typing import CacheLayer, PreTrainedModel, TorchTensor

Kind: TypeAlias = "type[CacheLayer]"
Parameters: TypeAlias = Mapping[str, inspect.Parameter]  # parameters of `forward`, by name
Dims: TypeAlias = "dict[int, object]"  # dynamic dims of a tensor, by axis

WORDS = 4  # number of tokens of the call that creates the first cache
# Names of the argument of `forward` that is the cache, in different releases of transformers.
CACHES = ("past_key_values", "cache", "cache_params")
GROWING, FIXED = ("keys", "values"), ("conv_states", "recurrent_states")
# Supported classes of cache layers, and the class by which a step replaces each.
LAYERS = {
    "DynamicLayer": "DynamicLayer",
    "DynamicSlidingWindowLayer": "DynamicLayer",
    "LinearAttentionLayer": "LinearAttentionLayer",
    "LinearAttentionAndFullAttentionLayer": "LinearAttentionAndFullAttentionLayer",
    "LinearAttentionAndSlidingWindowAttentionLayer": "LinearAttentionAndFullAttentionLayer",
    "DummyLayer": "DummyLayer",
}


@dataclass(frozen=True)
class DecoderStep:
    """A decoding step as a module for ``torch.export``.

    Attributes:
        module: its ``forward`` is ``forward(ids, mask, positions, past, recurrent)``.
        inputs: the arguments of an example call.
        shapes: the dynamic dims of the inputs, in the form of ``torch.export.export``.
        state: the names of the inputs that the step extends and returns.
        positions: the maximum number of tokens of a sequence; 0 if it is not limited.
        window: the number of tokens that caches keep; 0 if they keep all.
    """

    module: PreTrainedModel
    inputs: tuple[object, ...]
    shapes: tuple[object, ...]
    state: tuple[str, ...]
    positions: int
    window: int


@dataclass(frozen=True)
class _Part:
    """A tensor of a cache layer: the attribute ``name``, or its item ``key`` if it is a dict."""

    name: str
    key: int | None
    value: TorchTensor

    @property
    def grows(self) -> bool:
        return self.name in GROWING


def step_of(model: PreTrainedModel) -> DecoderStep:
    """Return the step of a causal language model of ``transformers``.

    Raises:
        TypeMismatch: ``model`` is not a causal language model of ``transformers``.
        BadInput: the model is in training mode.
        Unsupported: a layer of the cache is not in ``LAYERS``; or ``forward`` takes no cache, or
            returns no logits.
    """
    _check(model)
    require("transformers", "frontends", "language_model of a module of transformers")
    parameters = inspect.signature(model.forward).parameters
    cache = _first_cache(model, _cache_argument(model, parameters))
    layers = [_kind_of(k, layer) for k, layer in enumerate(cache.layers)]
    parts = [list(_parts_of(layer)) for layer in cache.layers]
    return replace(_step(model, layers, parts, parameters), window=_window_of(cache, parts))


def _window_of(cache: CacheLayer, parts: list[list[_Part]]) -> int:
    """Return the window of all layers with keys and values, or 0 if it is not the same for all."""
    found = {
        int(getattr(layer, "sliding_window", None) or 0)
        for layer, own in zip(cache.layers, parts, strict=True)
        if any(part.grows for part in own)
    }
    return found.pop() if len(found) == 1 else 0


def _check(model: PreTrainedModel) -> None:
    kind = type(model).__name__
    if not is_class(model, "transformers", "PreTrainedModel"):
        raise TypeMismatch(
            "language_model: expected a causal language model of transformers, such as "
            f"AutoModelForCausalLM.from_pretrained(...), or a GGUF file, found {kind}"
        )
    if model.config.is_encoder_decoder:
        raise TypeMismatch(
            f"language_model: expected a causal language model, found {kind}, an encoder with a "
            "decoder: its decoder needs the encoder's results"
        )
    if not model.can_generate():
        raise TypeMismatch(
            f"language_model: expected a causal language model, found {kind}, which returns no "
            "logits of the next token; use the class ...ForCausalLM"
        )
    if model.training:
        raise BadInput(
            f"language_model: {kind} is in training mode, in which dropout is active; call "
            "model.eval() first"
        )


def _cache_argument(model: PreTrainedModel, parameters: Parameters) -> str:
    # Use the name in the signature: a release that renames the argument accepts the old name too,
    # but only through a decorator.
    for name in CACHES:
        if name in parameters:
            return name
    raise Unsupported(
        f"language_model: {type(model).__name__}.forward takes no cache: expected an argument "
        f"named {', '.join(CACHES[:-1])} or {CACHES[-1]}"
    )


def _first_cache(model: PreTrainedModel, argument: str) -> CacheLayer:
    """Run the model on a few tokens and return the cache; check that the model returns logits."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    ids = torch.ones((2, WORDS), dtype=torch.long)
    with torch.no_grad():
        found = model(input_ids=ids, use_cache=True, **{argument: cache})
    if getattr(found, "logits", None) is None or found.logits.dim() != 3:
        raise Unsupported(
            f"language_model: {type(model).__name__} returns no logits [batch, length, vocabulary]"
        )
    return cache


def _kind_of(number: int, layer: CacheLayer) -> Kind:
    """Return the class of cache layers by which the step replaces ``layer``."""
    from transformers import cache_utils

    name = type(layer).__name__
    if name not in LAYERS:
        raise Unsupported(
            f"language_model: layer {number} of the cache is a {name}; expected one of "
            f"{', '.join(LAYERS)}"
        )
    found: Kind = getattr(cache_utils, LAYERS[name])
    return found


def _parts_of(layer: CacheLayer) -> Iterator[_Part]:
    """Yield the tensors of a cache layer."""
    for name in GROWING:
        value = getattr(layer, name, None)
        if value is not None:
            yield _Part(name, None, value)
    for name in FIXED:
        for key, value in getattr(layer, name, {}).items():
            if value is not None:
                yield _Part(name, key, value)


def _step(
    model: PreTrainedModel, layers: list[Kind], parts: list[list[_Part]], parameters: Parameters
) -> DecoderStep:
    import torch

    flat = [part for layer in parts for part in layer]
    growing = [p.value for p in flat if p.grows]
    fixed = [p.value for p in flat if not p.grows]
    # The modules of recurrent layers loop over tokens in Python, and an export would unroll the
    # loop. So a step with recurrent layers reads one token.
    length = 1 if fixed else WORDS - 1
    b, s, p = (torch.export.Dim(name) for name in "bsp")
    words = {0: b} if fixed else {0: b, 1: s}
    ids = torch.ones((2, length), dtype=torch.long)
    past = tuple(x.new_zeros((*x.shape[:2], WORDS, *x.shape[3:])) for x in growing)
    past_shapes: tuple[Dims, ...] = tuple({0: b, 2: p} for _ in past)
    if past:  # append the mask of the new tokens to that of the cached tokens
        past = (torch.ones((2, WORDS), dtype=torch.long), *past)
        past_shapes = ({0: b, 1: p}, *past_shapes)
    text = model.config.get_text_config(decoder=True)
    return DecoderStep(
        module=_module(model, layers, parts, parameters),
        inputs=(ids, ids.clone(), ids.clone(), past, tuple(x.clone() for x in fixed)),
        shapes=(words, words, words, past_shapes, tuple({0: b} for _ in fixed)),
        state=tuple(f"past_{k}" for k in range(len(past))),
        positions=int(getattr(text, "max_position_embeddings", None) or 0) if past else 0,
        window=0,
    )


def _module(
    model: PreTrainedModel, layers: list[Kind], parts: list[list[_Part]], parameters: Parameters
) -> PreTrainedModel:
    """Return the module whose ``forward`` is a step of the model."""
    import torch
    from transformers import DynamicCache

    argument = _cache_argument(model, parameters)
    fixed: dict[str, object] = {"use_cache": True}
    if "logits_to_keep" in parameters:
        # Compute only the logits of the last token.
        fixed["logits_to_keep"] = 1

    class Step(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(
            self,
            ids: TorchTensor,
            mask: TorchTensor,
            positions: TorchTensor,
            past: Sequence[TorchTensor],
            recurrent: Sequence[TorchTensor],
        ) -> tuple[TorchTensor, ...]:
            rest = dict(fixed)
            seen: tuple[TorchTensor, ...] = ()
            if past:
                mask = torch.cat([past[0], mask], 1)
                seen, rest["attention_mask"] = (mask,), mask
            if "position_ids" in parameters:
                rest["position_ids"] = positions
            cache = DynamicCache()
            cache.layers = list(_rebuilt(layers, parts, iter(past[1:]), iter(recurrent)))
            found = self.model(input_ids=ids, **{argument: cache}, **rest)
            flat = [p for layer in cache.layers for p in _parts_of(layer)]
            return (
                found.logits[:, -1].float(),
                *seen,
                *(p.value for p in flat if p.grows),
                *(p.value for p in flat if not p.grows),
            )

    return Step()


def _rebuilt(
    layers: list[Kind],
    parts: list[list[_Part]],
    past: Iterator[TorchTensor],
    recurrent: Iterator[TorchTensor],
) -> Iterator[CacheLayer]:
    """Yield cache layers that contain the tensors of a call."""
    for kind, of_layer in zip(layers, parts, strict=True):
        layer = kind()
        for part in of_layer:
            # Layers write recurrent states in place, but a step must not change its inputs.
            value = next(past) if part.grows else next(recurrent).clone()
            layer.device, layer.dtype = value.device, value.dtype
            if part.grows:
                setattr(layer, part.name, value)
                layer.is_initialized = True
                continue
            getattr(layer, part.name)[part.key] = value
            getattr(layer, f"is_{part.name}_initialized")[part.key] = True
            layer.has_previous_state[part.key] = True
            if part.name == "conv_states":
                layer.conv_kernel_size[part.key] = value.shape[-1]
        yield layer


__all__ = ["DecoderStep", "step_of"]
