"""Attention: scores, softmax and weighted values of one block of queries at a time."""
