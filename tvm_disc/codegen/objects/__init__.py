"""Boxed values in the host program: reference counts, the heap, their flat form."""
