"""Descriptions of processors and GPUs: registers, caches, cores, and constants of GPUs."""
