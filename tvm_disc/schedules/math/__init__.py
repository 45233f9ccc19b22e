"""Transcendental functions as vector code, with a stated error bound for each."""
