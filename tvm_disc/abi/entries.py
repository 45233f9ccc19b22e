"""Names of the packed functions that a program has."""

from __future__ import annotations

ENTRY = "main"
BIND = "tvm_disc_bind"
POOL = "tvm_disc_pool"
DIRECT = "tvm_disc_direct"
CHECK = "tvm_disc_check"  # of saved programs: whether they run here
UPLOAD = "tvm_disc_upload"  # of programs for a device: a tensor there, as one of the host
DOWNLOAD = "tvm_disc_download"  # the elements of a tensor there, to the host
CLOSE = "tvm_disc_close"  # what they keep there is given back, until the next call
