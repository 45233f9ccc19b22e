"""Matmuls on tensor cores: instructions, the code of a tile, and the plans."""
