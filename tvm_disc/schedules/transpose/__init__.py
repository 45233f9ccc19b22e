"""Permutations that move the last axis, computed by tiles in registers."""
