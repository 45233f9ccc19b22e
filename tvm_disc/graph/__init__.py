"""The graph of nodes, and the core operators with their properties, for passes and templates."""
