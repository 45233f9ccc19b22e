"""Names of a program's packed functions."""

from __future__ import annotations

ENTRY = "main"
BIND = "tvm_disc_bind"
POOL = "tvm_disc_pool"
DIRECT = "tvm_disc_direct"
CHECK = "tvm_disc_check"  # saved programs: checks whether they run here
UPLOAD = "tvm_disc_upload"  # GPU programs: copies a host array to a device tensor
DOWNLOAD = "tvm_disc_download"  # GPU programs: copies a device tensor to the host
CLOSE = "tvm_disc_close"  # GPU programs: frees device memory until the next call
