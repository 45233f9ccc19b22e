"""Matmuls on tensor cores: calls of their instructions, the code of a tile, and the plans."""
