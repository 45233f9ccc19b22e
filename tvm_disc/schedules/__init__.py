"""Kernel templates: from a fused group to TIR for every shape.

``select`` tries the templates in order. ``kernel`` builds one function from a group's variants,
which picks and runs one of them. The families are ``gemm``, ``conv``, ``attention``, ``rows``,
``loops``, ``transpose`` and ``opaque``, and ``cuda`` for GPUs; ``math`` contains their vector
functions, ``dispatch`` chooses among variants. ``lowering``, ``elements`` and ``scalars`` compute
the value of a graph node at an index.
"""
