"""Lookup of a BLAS library in the process, which programs may call."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

# Symbols that only optimized libraries have. The reference BLAS, which is slower than generated
# loops, has the same BLAS functions but none of these symbols. The names of functions with 64-bit
# integers exist only in the OpenBLAS of NumPy's wheels, so that they need no such symbol.
MARKS = ("openblas_get_config", "MKL_Get_Version", "bli_info_get_version_str")
_LIBRARIES = ("openblas", "mkl_rt", "libblis", "libcblas", "libblas", "nvpl_blas")


@cache
def expose() -> bool:
    """Make the BLAS that this process has loaded, for instance by NumPy, globally visible.

    Returns:
        whether an optimized BLAS was found.
    """
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    paths = dict.fromkeys(line.split(maxsplit=5)[-1] for line in maps if "/" in line)
    for path in paths:
        if any(name in Path(path).name for name in _LIBRARIES):
            try:
                ctypes.CDLL(path, mode=os.RTLD_GLOBAL | os.RTLD_NOLOAD)
            except OSError:
                continue
    process = ctypes.CDLL(None)
    found = [hasattr(process, name) for name in symbols("s")]
    return any(found[:2]) or (any(found) and any(hasattr(process, name) for name in MARKS))


def symbols(letter: str) -> tuple[str, ...]:
    """Return the names of the matmul function, those of libraries with 64-bit integers first."""
    wide = (f"scipy_cblas_{letter}gemm64_", f"cblas_{letter}gemm64_")
    return (*wide, f"cblas_{letter}gemm", f"scipy_cblas_{letter}gemm")
