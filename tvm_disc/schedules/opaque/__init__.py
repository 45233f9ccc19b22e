"""Operators with dedicated kernels: scatter, sorting, sampling, detection, random numbers."""
