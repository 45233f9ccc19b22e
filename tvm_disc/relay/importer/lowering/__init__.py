"""How each Relay operator becomes core operators, by family."""
