"""Nodes of a fused group, the core operators and their traits: what passes and templates share."""
