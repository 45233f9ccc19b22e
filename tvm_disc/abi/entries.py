"""Names of the packed functions that a program has."""

from __future__ import annotations

ENTRY = "main"
BIND = "tvm_disc_bind"
POOL = "tvm_disc_pool"
DIRECT = "tvm_disc_direct"
CHECK = "tvm_disc_check"  # of saved programs: whether they run here
