"""Observation of calls: records of inputs and shapes, counters, comparison of results."""
