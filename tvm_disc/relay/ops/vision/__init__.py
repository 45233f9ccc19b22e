"""Operators of images and detection."""
