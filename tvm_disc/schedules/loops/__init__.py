"""Loops: element-wise and injective operators, and the reductions that no other template
accepts.
"""
