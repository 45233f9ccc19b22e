"""Operators with a kernel of their own: scatter, sorting, sampling, detection, random numbers."""
