"""Matmuls: macro-kernels, micro-kernels, packing, split-K, a vendor's library."""
