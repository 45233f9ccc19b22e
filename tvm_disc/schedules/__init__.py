"""Kernel templates: from a fused group to TIR for every shape.

``select`` asks the templates in order, ``kernel`` makes of a group's variants one function that
picks and runs one. The families: ``gemm``, ``conv``, ``attention``, ``rows``, ``loops``,
``transpose``, ``opaque``; ``math`` has their vector functions, ``dispatch`` chooses among variants.
``lowering``, ``elements`` and ``scalars`` give the value of a graph node at an index.
"""
