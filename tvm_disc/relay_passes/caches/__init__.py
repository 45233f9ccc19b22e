"""Caches of a fixed size, of which a program replaces elements in place."""
