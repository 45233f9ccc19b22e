"""Observation of calls."""
