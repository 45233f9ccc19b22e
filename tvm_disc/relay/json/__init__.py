"""Relay's legacy JSON."""
