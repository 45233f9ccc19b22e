"""Rows of operators that Relay's own passes make of others."""
