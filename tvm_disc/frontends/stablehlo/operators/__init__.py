"""Converters of StableHLO operators, one module per family of operators."""
