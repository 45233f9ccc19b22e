"""Compare a program with other engines: one model, a sweep of dims, alternating engines.

``server`` is the process of one engine, ``served`` its client, ``points`` the sweep and its inputs,
``compare`` the measurement, ``report`` the output formats, ``command`` the command line.
"""
