"""Rows: chains of reductions and element-wise work over one row, which stays in cache."""
