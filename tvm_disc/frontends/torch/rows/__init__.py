"""What each operator of PyTorch is in Relay, by family; a row is ``row(maker, *args, **kwargs)``.

Arguments are those of the operator's schema: tensors as :class:`Value`, symbolic integers as
expressions of sympy, everything else as Python has it. ``maker`` knows the node's result.
"""
