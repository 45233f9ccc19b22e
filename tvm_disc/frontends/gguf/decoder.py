"""Decoders of GGUF files as Relay modules: the LLaMA and Qwen families.

A layer is RMS norm, attention with rotary positions and grouped heads, RMS norm and a gated
linear unit. A call of the program reads tokens and extends the caches of keys and values, see
``tvm_disc.runtime.text.language``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.frontends.calc import Calc, Expr, const, op
from tvm_disc.frontends.calls import placed
from tvm_disc.frontends.gguf.blocks import Blocks
from tvm_disc.frontends.gguf.file import GGUFFile
from tvm_disc.frontends.onnx.operators.attention import (
    Heads,
    causal,
    hidden,
    joined_heads,
    repeated,
    rotated,
    scores,
    split_heads,
    weighted,
)
from tvm_disc.frontends.onnx.operators.normalize import rms_norm
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.builder import var
from tvm_disc.relay.infer import Inference
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.algebra import building
from tvm_disc.support.spilled import spilled
from tvm_disc.typing import Array

# Whether rotary positions rotate the pairs (2 i, 2 i + 1) of elements, as in LLaMA's files, or the
# pairs (i, i + half), as in Qwen's. The importer reorders rows of LLaMA's matrices, so that all
# programs rotate the pairs (i, i + half).
ARCHITECTURES = {"llama": True, "qwen2": False, "qwen3": False}


@dataclass(frozen=True)
class DecoderSizes:
    """Sizes and constants of a decoder, from the metadata of its file.

    ``groups`` is the number of heads of keys and values, ``depth`` the width of a head, ``inner``
    the width of the gated linear unit, ``pairs`` the value of ``ARCHITECTURES``.
    """

    layers: int
    width: int
    inner: int
    heads: int
    groups: int
    depth: int
    epsilon: float
    base: float
    stretch: float
    positions: int
    pairs: bool


def from_gguf(path: str | os.PathLike[str]) -> IRModule:
    """Return the Relay module of a decoder.

    Inputs are token ids, mask, positions and caches; results are the logits of the last token, and
    the extended caches.

    Raises:
        BadInput: the file is damaged; a key or a tensor is missing; or a tensor has a wrong shape.
        Unsupported: the architecture, a variant of it (such as experts or a sliding window), or a
            tensor's format is not supported.
    """
    file = GGUFFile(path)
    decoder = _Decoder(file, _sizes(file))
    with building(decoder.n):
        return decoder.module()


def positions_of(path: str | os.PathLike[str]) -> int:
    """Return the context length of the model in a file, in tokens."""
    return _sizes(GGUFFile(path)).positions


def _sizes(file: GGUFFile) -> DecoderSizes:
    name = str(file.value("general.architecture"))
    if name not in ARCHITECTURES:
        raise Unsupported(
            f"{file.path}: the architecture {name!r} is not supported; expected one of "
            f"{', '.join(ARCHITECTURES)}"
        )
    width, heads = (
        int(file.number(f"{name}.{k}")) for k in ("embedding_length", "attention.head_count")
    )
    groups = int(file.number(f"{name}.attention.head_count_kv", heads))
    depth = int(file.number(f"{name}.attention.key_length", width // heads))
    positions = int(file.number(f"{name}.context_length"))
    if heads % groups or depth % 2:
        raise BadInput(
            f"{file.path}: expected a multiple of the number of key-value heads as the number of "
            f"heads, and an even head size; found {heads} heads, {groups} key-value heads and head "
            f"size {depth}"
        )
    _refuse_variants(file, name, depth, positions)
    scaling = str(file.value(f"{name}.rope.scaling.type", "none"))
    stretch = file.number(f"{name}.rope.scaling.factor", 1.0) if scaling == "linear" else 1.0
    return DecoderSizes(
        layers=int(file.number(f"{name}.block_count")),
        width=width,
        inner=int(file.number(f"{name}.feed_forward_length")),
        heads=heads,
        groups=groups,
        depth=depth,
        epsilon=float(file.number(f"{name}.attention.layer_norm_rms_epsilon")),
        base=float(file.number(f"{name}.rope.freq_base", 10000.0)),
        stretch=float(stretch),
        positions=positions,
        pairs=ARCHITECTURES[name],
    )


def _refuse_variants(file: GGUFFile, name: str, depth: int, positions: int) -> None:
    """Raise Unsupported if a key of the file requires a computation that is not implemented."""
    expected = (
        ("expert_count", 0, (0,)),
        ("rope.scaling.type", "none", ("none", "linear")),
        ("rope.dimension_count", depth, (depth,)),
        ("attention.value_length", depth, (depth,)),
        ("attention.sliding_window", positions, range(positions, 1 << 62)),
    )
    for key, default, known in expected:
        found = file.value(f"{name}.{key}", default)
        if found not in known:
            wanted = (
                f"at least {positions}"
                if isinstance(known, range)
                else " or ".join(map(str, known))
            )
            raise Unsupported(f"{file.path}: {name}.{key}: expected {wanted}, found {found}")


class _Decoder:
    """Builds the module of a decoder."""

    def __init__(self, file: GGUFFile, sizes: DecoderSizes) -> None:
        self.file, self.sizes, self.n = file, sizes, Calc(Inference())
        batch, words, past = (rt.Any(x) for x in "bsp")
        new = [self._input(x, (batch, words), "int64") for x in ("ids", "mask", "positions")]
        self.ids, self.mask, self.positions = new
        self.seen = self._input("past_0", (batch, past), "int64")
        cache = (batch, sizes.groups, past, sizes.depth)
        self.past = [self._input(f"past_{k + 1}", cache) for k in range(2 * sizes.layers)]

    def _input(self, name: str, shape: tuple[rt.Dim, ...], dtype: str = "float32") -> ast.Var:
        made = var(name, shape=shape, dtype=dtype)
        self.n.infer.declare(made)
        return made

    def module(self) -> IRModule:
        """Return the module."""
        n, sizes = self.n, self.sizes
        table = self.file.tensor("token_embd.weight", [None, sizes.width])
        x = self._rows(table)
        seen = n.concat([self.seen, self.mask], 1)
        angles = self._angles()
        visible = self._visible(seen)
        caches: list[Expr] = []
        for k in range(sizes.layers):
            with placed(f"layer {k} of {self.file.path}"):
                attended, keys, values = self._attention(k, x, angles, visible)
                caches += [keys, values]
                x = self._unit(k, x + attended)
        x = self._norm("output_norm.weight", n.slice(x, 1, -1, None))
        last = n.reshape(x, [n.size(x, 0), sizes.width])
        words = (
            self.file.tensor("output.weight", [None, sizes.width])
            if self.file.has("output.weight")
            else table
        )
        found = self._product(last, words)
        inputs = [self.ids, self.mask, self.positions, self.seen, *self.past]
        return IRModule.from_expr(ast.Function(inputs, ast.Tuple((found, seen, *caches))))

    # -- parts of a layer ------------------------------------------------------------------------

    def _attention(
        self, k: int, x: Expr, angles: tuple[Expr, Expr], visible: Expr
    ) -> tuple[Expr, Expr, Expr]:
        """Return the attention of layer ``k``, and its extended caches of keys and values."""
        n, s = self.n, self.sizes
        normal = self._norm(f"blk.{k}.attn_norm.weight", x)
        query = split_heads(n, self._linear(k, "attn_q", normal, s.heads), s.heads)
        key = split_heads(n, self._linear(k, "attn_k", normal, s.groups), s.groups)
        value = split_heads(n, self._linear(k, "attn_v", normal, s.groups), s.groups)
        query, key = (
            rotated(n, self._norm(f"blk.{k}.{name}_norm.weight", y, optional=True), *angles, False)
            for name, y in (("attn_q", query), ("attn_k", key))
        )
        keys, values = (
            n.concat([past, y], 2)
            for past, y in zip(self.past[2 * k :], (key, value), strict=False)
        )
        times = s.heads // s.groups
        heads = Heads(query, repeated(n, keys, times), repeated(n, values, times))
        found = hidden(n, scores(n, heads, s.depth**-0.5), visible)
        joined = joined_heads(n, weighted(n, found, heads.value))
        return self._matmul(k, "attn_output", joined, s.width), keys, values

    def _unit(self, k: int, x: Expr) -> Expr:
        """Return ``x`` plus the result of the gated linear unit of layer ``k``."""
        n, s = self.n, self.sizes
        normal = self._norm(f"blk.{k}.ffn_norm.weight", x)
        gate, up = (self._matmul(k, name, normal, s.inner) for name in ("ffn_gate", "ffn_up"))
        return x + self._matmul(k, "ffn_down", gate * n.sigmoid(gate) * up, s.width)

    def _angles(self) -> tuple[Expr, Expr]:
        """Return the cosines and sines of rotary positions, ``[batch, 1, tokens, depth / 2]``."""
        n, s = self.n, self.sizes
        steps = np.arange(0, s.depth, 2, dtype=np.float32) / np.float32(s.depth)
        rates = (1.0 / (s.base**steps)).astype(np.float32) / np.float32(s.stretch)
        if self.file.has("rope_freqs.weight"):  # only in models with a long context
            rates = rates / self._vector("rope_freqs.weight", s.depth // 2)
        place = n.expand(n.cast(self.positions, "float32"), 1, 1)
        angles = n.expand(place, 3) * const(rates, "float32")
        return op("cos", angles), op("sin", angles)

    def _visible(self, seen: Expr) -> Expr:
        """Return the mask of attention: which of all tokens each new token may attend to.

        These are its own and earlier tokens whose element of ``seen`` is not 0. The shape is
        ``[batch, 1, new tokens, all tokens]``.
        """
        n = self.n
        rows, columns = n.size(self.ids, 1), n.size(seen, 1)
        before = causal(n, rows, columns, n.scalar(n.size(self.seen, 1)))
        return n.apply("logical_and", before, n.expand(n.not_equal(seen, 0), 1, 2), dtype="bool")

    # -- tensors ---------------------------------------------------------------------------------

    def _linear(self, k: int, name: str, x: Expr, heads: int) -> Expr:
        """Return the queries, keys or values: a matmul with the matrix ``name``, plus its bias."""
        size, bias = heads * self.sizes.depth, f"blk.{k}.{name}.bias"
        turned = self.sizes.pairs and name != "attn_v"
        order = _halves(heads, self.sizes.depth) if turned else None
        y = self._matmul(k, name, x, size, order)
        if not self.file.has(bias):
            return y
        added = self._vector(bias, size)
        return y + const(added if order is None else added[order], "float32")

    def _matmul(self, k: int, name: str, x: Expr, size: int, order: Array | None = None) -> Expr:
        """Return ``x`` multiplied by the matrix ``name`` of layer ``k``.

        ``order`` reorders the rows of the matrix, and so the elements of the result.
        """
        width = self.sizes.inner if name == "ffn_down" else self.sizes.width
        if name == "attn_output":
            width = self.sizes.heads * self.sizes.depth
        weight = self.file.tensor(f"blk.{k}.{name}.weight", [size, width])
        if order is not None:
            weight = weight.ordered(order) if isinstance(weight, Blocks) else weight[order]
        return self._product(x, weight)

    def _product(self, x: Expr, weight: Blocks | Array) -> Expr:
        """Return ``x`` multiplied by a matrix that the program dequantizes to float32.

        A later pass decides whether the kernel dequantizes while it reads. The numbers are already
        stored in the order of the kernel's operand, so that this pass need not copy them.
        """
        n = self.n
        if not isinstance(weight, Blocks):
            return op("nn.dense", x, n.cast(const(weight), "float32"), units=None)
        real = n.cast(const(spilled(weight.numbers.transpose(1, 2, 0))), "float32")
        if weight.zero is not None:
            real = real - const(weight.zero.T[:, None], "float32")
        real = real * const(weight.scale.T[:, None], "float32")
        return op("nn.matmul", x, n.reshape(real, [-1, len(weight.numbers)]), units=None)

    def _rows(self, weight: Blocks | Array) -> Expr:
        """Return the rows of the embedding matrix for the token ids, in float32."""
        n = self.n
        if not isinstance(weight, Blocks):
            return n.cast(n.take(const(weight), self.ids, 0), "float32")
        real = n.cast(n.take(const(spilled(weight.numbers)), self.ids, 0), "float32")
        if weight.zero is not None:
            real = real - self._selected(weight.zero)
        real = real * self._selected(weight.scale)
        return n.reshape(real, [n.size(self.ids, 0), n.size(self.ids, 1), self.sizes.width])

    def _selected(self, each: Array) -> Expr:
        """Return the scales or zero points of the rows for the token ids."""
        return self.n.take(const(each[:, :, None], "float32"), self.ids, 0)

    def _vector(self, name: str, size: int) -> Array:
        found = self.file.tensor(name, [size])
        if isinstance(found, Blocks):
            raise Unsupported(
                f"{self.file.path}: tensor {name}: expected floats, found a quantized format"
            )
        return np.asarray(found, np.float32)

    def _norm(self, name: str, x: Expr, optional: bool = False) -> Expr:
        """Return ``x`` with RMS norm along the last axis, by the weight ``name``.

        An ``optional`` norm is along the width of a head; without its weight, ``x`` is returned
        unchanged.
        """
        if optional and not self.file.has(name):
            return x
        n = self.n
        size = self.sizes.depth if optional else self.sizes.width
        weight = const(self._vector(name, size), "float32")
        return rms_norm(n, x, weight, -1, self.sizes.epsilon)[0]


def _halves(heads: int, depth: int) -> Array:
    """Return an order of rows: for each head its even rows first, then its odd rows."""
    rows = np.arange(heads * depth).reshape(heads, depth // 2, 2)
    return np.ravel(rows.transpose(0, 2, 1))


__all__ = ["from_gguf", "positions_of"]
