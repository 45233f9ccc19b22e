"""Rows: chains of reductions and element-wise operators over one row, which stays in cache."""
