"""Boxed values in the host program: reference counts, the heap, serialization."""
