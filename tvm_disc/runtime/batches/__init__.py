"""Batches of the caller."""
