"""Conversion of PyTorch operators to Relay, by family; a row is ``row(maker, *args, **kwargs)``.

Arguments are those of the operator's schema: tensors as :class:`Value`, symbolic integers as sympy
expressions, everything else as Python objects. ``maker`` has the node's result type.
"""
