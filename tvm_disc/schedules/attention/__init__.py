"""Attention: scores, softmax and weighted values of a block of queries at a time."""
