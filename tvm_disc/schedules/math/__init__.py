"""Transcendental functions as vector code with stated error bounds."""
