"""Tests of types: inference, equality, nodes."""
