"""Reductions and what lives on their rows, on a GPU."""
