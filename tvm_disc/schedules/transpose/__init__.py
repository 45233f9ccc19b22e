"""Permutations that move the last axis, by tiles of registers."""
