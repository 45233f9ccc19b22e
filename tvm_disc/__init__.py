"""Compile tensor programs of unknown shape into one native program, on Apache TVM."""
