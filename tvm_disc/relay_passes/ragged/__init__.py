"""Ragged batches: programs over packed rows instead of padded items."""
