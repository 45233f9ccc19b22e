"""Caches of a fixed size, in which a program replaces elements in place."""
