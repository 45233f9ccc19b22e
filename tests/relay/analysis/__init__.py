"""Tests of questions about programs."""
