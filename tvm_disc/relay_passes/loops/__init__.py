"""Passes over loops: recognize counting loops, and collect rows in place."""
