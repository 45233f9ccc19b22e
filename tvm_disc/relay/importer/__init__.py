"""Relay to Relax."""
