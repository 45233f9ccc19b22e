"""Tests of caches that programs extend in place."""
