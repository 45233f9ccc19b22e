"""Builds on a machine without space, threads or memory, and of models that ask for too much."""
