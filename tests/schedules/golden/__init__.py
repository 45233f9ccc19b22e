"""Golden TIR: what each kernel template emits for a small case, as text that can be read.

``python -m tests.schedules.golden --write`` writes the texts anew; read the difference before it
is committed. The machine is a described one, of x86-64-v3, so the texts are the same everywhere.
"""
