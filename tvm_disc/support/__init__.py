"""Utilities of all packages: limits, deadlines, signals, locks, caches of files, console output."""
