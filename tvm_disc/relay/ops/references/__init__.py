"""NumPy references of operators, by family."""
