"""Propagation of shape constraints, the first pass: values, dims, constraints and guards.

``propagate`` is the pass, ``walk`` visits the bindings, ``rules`` has the rules of Relax operators,
``context`` the state that rules read and change, and ``finish`` simplifies the result. The values
of shape tensors and the emitter of bindings are in ``relay/importer``: the type inference of Relay
runs the same rules.
"""
