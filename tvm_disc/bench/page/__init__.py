"""``tvm-disc report MODEL``: one HTML page on how fast a model is, and what limits it.

``command`` is the command line, ``curves`` chooses the sizes, ``cliffs`` finds sizes at which time
jumps, ``advice`` writes the sentences of the first screen, ``chart`` draws curves as SVG, and
``page`` joins them.
"""
