"""Small GGUF files of random weights, and what their models compute, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
K_HALVES = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}  # positions of float16 in a block
K_BYTES = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}


@dataclass
class TinyModel:
    """A decoder of a GGUF file: its sizes, and its weights as stored and in float32."""

    name: str = "llama"
    layers: int = 1
    width: int = 256
    inner: int = 512
    heads: int = 4
    groups: int = 2
    words: int = 320
    positions: int = 64
    base: float = 10000.0
    tied: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)  # format by the end of a name
    kind: str = "F32"
    keys: Mapping[str, Any] = field(default_factory=dict)  # further keys of the description
    rope_factors: Array | None = None
    raw: dict[str, tuple[Array, str]] = field(default_factory=dict)
    real: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(len(self.name))
        depth = self.width // self.heads
        self.put(rng, "token_embd.weight", (self.words, self.width))
        if not self.tied:
            self.put(rng, "output.weight", (self.words, self.width))
        self.put(rng, "output_norm.weight", (self.width,))
        sizes = {"attn_q": self.heads * depth, "attn_k": self.groups * depth}
        sizes["attn_v"] = sizes["attn_k"]
        for k in range(self.layers):
            at = f"blk.{k}"
            for norm in ("attn_norm", "ffn_norm"):
                self.put(rng, f"{at}.{norm}.weight", (self.width,))
            for name, size in sizes.items():
                self.put(rng, f"{at}.{name}.weight", (size, self.width))
                if self.name == "qwen2":
                    self.put(rng, f"{at}.{name}.bias", (size,))
                if self.name == "qwen3" and name != "attn_v":
                    self.put(rng, f"{at}.{name}_norm.weight", (depth,))
            self.put(rng, f"{at}.attn_output.weight", (self.width, sizes["attn_q"]))
            self.put(rng, f"{at}.ffn_gate.weight", (self.inner, self.width))
            self.put(rng, f"{at}.ffn_up.weight", (self.inner, self.width))
            self.put(rng, f"{at}.ffn_down.weight", (self.width, self.inner))
        if self.rope_factors is not None:
            self.raw["rope_freqs.weight"] = self.rope_factors, "F32"

    def put(self, rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> None:
        """Add a tensor of random elements."""
        import gguf

        if len(shape) == 1:
            center = 0.0 if name.endswith("bias") else 1.0
            value = (center + 0.1 * rng.standard_normal(shape)).astype("float32")
            self.raw[name], self.real[name] = (value, "F32"), value
            return
        found = [kind for end, kind in self.kinds.items() if name.endswith(end)]
        kind = found[0] if found else self.kind
        dtype = gguf.GGMLQuantizationType[kind]
        if kind in K_BYTES:
            stored = random_blocks(rng, shape, kind)
        else:
            value = (2 * rng.standard_normal(shape) / np.sqrt(shape[1])).astype("float32")
            stored = gguf.quants.quantize(value, dtype)
        self.raw[name] = stored, kind
        self.real[name] = gguf.dequantize(stored, dtype).reshape(shape)

    def write(self, path: Path, without: str = "") -> Path:
        """Write the file; ``without`` leaves out a key or a tensor."""
        import gguf

        writer = gguf.GGUFWriter(path, self.name)
        numbers = {
            "block_count": self.layers,
            "embedding_length": self.width,
            "feed_forward_length": self.inner,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.groups,
            "context_length": self.positions,
        }
        for key, value in numbers.items():
            if key != without:
                writer.add_uint32(f"{self.name}.{key}", value)
        writer.add_float32(f"{self.name}.attention.layer_norm_rms_epsilon", 1e-5)
        writer.add_float32(f"{self.name}.rope.freq_base", self.base)
        writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
        for key, value in self.keys.items():
            write = writer.add_string if isinstance(value, str) else writer.add_uint32
            write = writer.add_float32 if isinstance(value, float) else write
            write(f"{self.name}.{key}", value)
        for name, (data, kind) in self.raw.items():
            if name != without:
                writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def scores(self, ids: list[int], int8: bool = False) -> Array:
        """Return scores ``[words of the text, vocabulary]``, in float64.

        With ``int8``, rows of keys and values are numbers from -127 to 127 times a factor.
        """
        depth, weights = self.width // self.heads, self.real
        x = weights["token_embd.weight"][ids].astype("float64")
        steps = np.arange(0, depth, 2) / depth
        rates = self.base**-steps / float(self.keys.get("rope.scaling.factor", 1.0))
        if self.rope_factors is not None:
            rates = rates / self.rope_factors
        angles = np.arange(len(ids))[:, None] * rates
        hidden = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        for k in range(self.layers):
            at = f"blk.{k}."
            normal = self.norm(at + "attn_norm", x)
            q, keys, v = (
                self.head(at + name, normal, depth) for name in ("attn_q", "attn_k", "attn_v")
            )
            q, keys = self.turned(q, angles), self.turned(keys, angles)
            if int8:
                steps = (np.abs(y).max(-1, keepdims=True) / 127 for y in (keys, v))
                keys, v = (
                    np.round(y / step) * step for y, step in zip((keys, v), steps, strict=True)
                )
            keys, v = (np.repeat(y, self.heads // self.groups, 1) for y in (keys, v))
            dots = np.einsum("ihd,jhd->hij", q, keys) / np.sqrt(depth) + hidden
            shares = np.exp(dots - dots.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            mixed = np.einsum("hij,jhd->ihd", shares, v).reshape(len(ids), -1)
            x = x + mixed @ weights[at + "attn_output.weight"].T
            normal = self.norm(at + "ffn_norm", x)
            gate, up = (normal @ weights[f"{at}ffn_{name}.weight"].T for name in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ weights[at + "ffn_down.weight"].T
        last = weights["token_embd.weight" if self.tied else "output.weight"]
        return self.norm("output_norm", x) @ last.T

    def norm(self, name: str, x: Array) -> Array:
        """Return RMS norm along the last axis."""
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.real[f"{name}.weight"]

    def head(self, name: str, x: Array, depth: int) -> Array:
        """Return ``[words, heads, depth]`` of queries, keys or values."""
        y = x @ self.real[f"{name}.weight"].T
        y = (y + self.real.get(f"{name}.bias", 0)).reshape(len(x), -1, depth)
        return self.norm(f"{name}_norm", y) if f"{name}_norm.weight" in self.real else y

    def turned(self, x: Array, angles: Array) -> Array:
        """Return rotary positions: of neighbours in LLaMA's files, of halves in Qwen's."""
        cos, sin = (f(angles)[:, None] for f in (np.cos, np.sin))
        made = np.empty_like(x)
        if self.name == "llama":
            one, other = slice(0, None, 2), slice(1, None, 2)
        else:
            half = x.shape[-1] // 2
            one, other = slice(0, half), slice(half, None)
        made[..., one] = x[..., one] * cos - x[..., other] * sin
        made[..., other] = x[..., one] * sin + x[..., other] * cos
        return made


def random_blocks(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    """Return random blocks of a format for which ``gguf`` has no quantization."""
    count = shape[1] // 256
    raw = rng.integers(0, 256, (shape[0], count, K_BYTES[kind]), dtype=np.uint8)
    size = {"Q4_K": 2e-4, "Q5_K": 1e-4, "Q6_K": 3e-5}[kind]
    for k, at in enumerate(K_HALVES[kind]):
        # Minima near the middle of the range, so that the mean is near 0.
        scale = size * (1 if k == 0 else {"Q4_K": 7.5, "Q5_K": 15.5}[kind])
        half = (scale * (1 + 0.1 * rng.random((shape[0], count)))).astype("float16")
        raw[:, :, at : at + 2] = half.view(np.uint8).reshape(shape[0], count, 2)
    return raw.reshape(shape[0], -1)
