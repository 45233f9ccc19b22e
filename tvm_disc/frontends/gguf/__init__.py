"""Import of GGUF files, the format of llama.cpp: quantized weights, and the sizes of a model."""

from __future__ import annotations
