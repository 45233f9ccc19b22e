"""Code that a program emits to run its parallel kernels on the process's workers.

The program receives the address of the pool's home when its constants are bound. TVM's generated
code calls the runtime's parallel launch through a variable of the library, which is set at load
time. Before its first kernel, each call of a program stores the home's launch function in this
variable.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar
from tvm.tirx import op as O

from tvm_disc.abi.threads import (
    ACTIVE,
    CORES,
    LAUNCH_CODE,
)
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.threads.atomics import fetch_add, load, store
from tvm_disc.codegen.threads.home import pool_of
from tvm_disc.codegen.threads.state import word
from tvm_disc.tir.builder import Block, i64, index_var, prim_func
from tvm_disc.tir.imports import provide
from tvm_disc.typing import Expr, PrimFunc

SHARE = GlobalVar("tvm_disc_share")
USE_WORKERS = "use_workers"

provide("""
@__TVMBackendParallelLaunch = linkonce dllexport global ptr null, align 8
define linkonce_odr i32 @disc.install(i64 %code) {
  %ours = inttoptr i64 %code to ptr
  %now = load ptr, ptr @__TVMBackendParallelLaunch, align 8
  %same = icmp eq ptr %now, %ours
  br i1 %same, label %end, label %set
set:
  store ptr %ours, ptr @__TVMBackendParallelLaunch, align 8
  br label %end
end:
  ret i32 0
}
""")


def install_launch(block: Block, home: Expr) -> None:
    """Emit code after which parallel loops run on the workers of ``home``; if ``home`` is 0, they
    run on TVM's threads.
    """
    with block.when(tirx.NE(home, i64(0))):
        block.eval(O.call_extern("int32", "disc.install", load(word(home, LAUNCH_CODE))))


def use_workers_function() -> PrimFunc:
    """Return the packed function ``use_workers(home)``, which runs the parallel loops of its module
    on the workers of ``home``.
    """

    def emit(block: Block, arguments: Arguments) -> None:
        install_launch(block, block.bind("home", arguments.integer(0)))

    return packed(USE_WORKERS, emit)


def count_call(block: Block, home: Expr, change: int) -> None:
    """Emit a change of the number of active calls: 1 at the start of a call, -1 at its end."""
    with block.when(tirx.NE(home, i64(0))):
        block.eval(fetch_add(word(pool_of(home), ACTIVE), i64(change)))


def share_function() -> PrimFunc:
    """Return ``share(home, most, out)``; ``out`` receives the number of threads that a kernel may
    use, at most ``most``. The cores are divided among the active calls.
    """
    home, most, out = (index_var(n) for n in ("home", "most", "out"))
    block = Block()
    block.eval(store(out, most))
    with block.when(tirx.NE(home, i64(0))):
        pool = pool_of(home)
        active = block.bind("active", load(word(pool, ACTIVE)))
        with block.when(active > 1):
            each = tirx.max(tirx.truncdiv(load(word(pool, CORES)), active), i64(1))
            block.eval(store(out, tirx.min(most, each)))
    return prim_func([home, most, out], block.stmt())
