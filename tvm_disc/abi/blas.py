"""The BLAS that programs may call, if the process has one: by which names it is found."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

# What only libraries of fast code have. The reference BLAS, slower than our own loops, goes by the
# same names as they; names that count in 64 bits are those of the library in wheels of NumPy.
MARKS = ("openblas_get_config", "MKL_Get_Version", "bli_info_get_version_str")
_LIBRARIES = ("openblas", "mkl_rt", "libblis", "libcblas", "libblas", "nvpl_blas")


@cache
def expose() -> bool:
    """Make the BLAS that this process has loaded, NumPy's for instance, one that is found."""
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
    """Symbols of the product, those that count in 64 bits first."""
    wide = (f"scipy_cblas_{letter}gemm64_", f"cblas_{letter}gemm64_")
    return (*wide, f"cblas_{letter}gemm", f"scipy_cblas_{letter}gemm")
