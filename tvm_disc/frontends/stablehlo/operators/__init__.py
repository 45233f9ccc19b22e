"""Converters of StableHLO operators, by family."""
