"""Used by all layers: limits, deadlines, signals, locks, caches of files, console output."""
