"""Which variant runs for which shape: variants, costs, decision trees, learning."""
