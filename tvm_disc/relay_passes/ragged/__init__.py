"""Ragged batches: programs over packed rows instead of padded items.

The batch of a model has ``b`` items of equal length ``s``. In a ragged batch, each item has its own
length, and the rows of all items are stored contiguously, one item after another.
"""
