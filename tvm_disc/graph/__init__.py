"""Nodes of a fused group, core operators and their traits, shared by passes and templates."""
