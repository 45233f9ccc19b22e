"""Converters of PyTorch operators to Relay, one module per family of operators.

Each converter is called as ``row(maker, *args, **kwargs)``.

The arguments are those of the operator's schema: a tensor is a :class:`Value`, a symbolic number is
a sympy expression, and everything else is a Python object. ``maker`` has the type of the result.
"""
