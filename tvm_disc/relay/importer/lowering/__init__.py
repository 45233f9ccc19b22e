"""Import rules: translation of each Relay operator to core operators, by family."""
