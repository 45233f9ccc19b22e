"""Descriptions of machines: registers, caches, cores; no measured speeds."""
