"""A program beside other engines: one model, a sweep of dims, the engines in turn.

``server`` is a process that holds one engine, ``served`` its other end, ``points`` the sweep and
its inputs, ``compare`` the measurement, ``report`` its forms, ``command`` the command line's.
"""
