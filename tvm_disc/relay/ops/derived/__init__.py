"""Table entries of operators that Relay's own passes or front ends create."""
