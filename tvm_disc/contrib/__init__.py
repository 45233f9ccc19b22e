"""What scripts import from ``tvm.contrib`` to run a program that ``relay.build`` made."""
