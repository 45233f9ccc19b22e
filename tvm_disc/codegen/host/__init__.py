"""The host program as TIR: entry checks, guards, memory, regions, results."""
