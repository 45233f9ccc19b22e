"""From TIR to machine code."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.tirx import transform as T

from tvm_disc.tir.llvm_ops import link

# Statement simplification is left out on purpose: it would inline the bindings by which kernels
# share values, and everything else it does LLVM does as well. Vector code is written as such.
LOWERING = (
    T.SplitHostDevice,
    T.MakePackedAPI,
    T.LowerTVMBuiltin,
    T.LowerIntrin,
)


def compile_tir(mod: Any, target: Any) -> Any:
    """Lower and compile a TIR module for a CPU target."""
    mod = T.BindTarget(target.with_host(target))(link(mod, target))
    mod = tvm.transform.Sequential([p() for p in LOWERING])(mod)
    return tvm.get_global_func("target.build.llvm")(mod, target)
