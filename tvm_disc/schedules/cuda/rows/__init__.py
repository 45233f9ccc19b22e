"""Reductions, and element-wise work on their rows, on a GPU."""
