"""Propagation of shape constraints, the first pass: values, dims, constraints and guards.

``propagate`` is the pass, ``walk`` the order of bindings, ``rules`` the rules of Relax operators,
``context`` their view of the program, and ``finish`` the simplified result. The values of shape
tensors and the emitter of bindings are in ``relay/importer``: the type inference of Relay runs the
same rules.
"""
