"""Import of GGUF files, the format of llama.cpp: weights of few bits, and the model's sizes."""

from __future__ import annotations
