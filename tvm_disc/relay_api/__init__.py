"""Relay's Python API: signatures, registry, and modules at the paths that Relay's scripts
import.
"""
