"""Tuning: measure variants on this machine or others, and keep what was found."""
