"""Modules that scripts import from ``tvm.contrib`` to run the result of ``relay.build``."""
