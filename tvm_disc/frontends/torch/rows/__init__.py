"""Conversion of PyTorch operators to Relay, by family.

Each converter is called as ``row(maker, *args, **kwargs)``.

Arguments are those of the operator's schema: tensors as :class:`Value`, symbolic integers as sympy
expressions, everything else as Python objects. ``maker`` has the node's result type.
"""
