"""Loops: element-wise and injective work, and the reductions that no other template takes."""
