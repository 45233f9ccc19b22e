"""Forms of batches that callers can pass."""
