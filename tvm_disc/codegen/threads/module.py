"""The threads as machine code: a module of their own, which any processor of its kind runs.

Programs in memory share one; every saved program contains it, and the first that a process loads
has its workers.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tvm import tirx
from tvm.ir import StringImm

from tvm_disc.codegen.machine_code import MachineCode, compile_program
from tvm_disc.codegen.target import resolve_target, triple_of
from tvm_disc.codegen.threads import atomics, home
from tvm_disc.codegen.threads.cores import cores_functions
from tvm_disc.codegen.threads.home import THREADS, home_functions
from tvm_disc.codegen.threads.launch import LAUNCH, launch_functions
from tvm_disc.codegen.threads.worker import worker_functions
from tvm_disc.codegen.units import Emitted
from tvm_disc.locks import Lock
from tvm_disc.store import Store


def thread_functions(triple: str) -> dict[Any, Any]:
    """All functions of the module, for the architecture of a target's triple."""
    functions = {
        **launch_functions(),
        **worker_functions(),
        **home_functions(),
        **cores_functions(),
    }
    body = functions[LAUNCH].body
    for text in (atomics.system_library(triple), home.library()):
        body = tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", text, body)
    return {**functions, LAUNCH: functions[LAUNCH].with_body(body)}


def threads_code(triple: str, store: Store | None) -> MachineCode:
    """The code for a triple: ``tvm_disc_threads() -> address of the home``."""
    plain = resolve_target({"kind": "llvm", "mtriple": triple})
    return compile_program(Emitted(thread_functions(triple), {}, [], {}), plain, store)


_HOME: list[int] = []
_MAKING = Lock()


def home_of_process(store: Store | None = None) -> int:
    """The address of this process's home.

    Args:
        store: where the code of the workers may be kept.
    """
    with _MAKING:
        if not _HOME:
            _HOME.append(_new_home(store))
    return _HOME[0]


def _new_home(store: Store | None) -> int:
    module = threads_code(triple_of({}), store).module
    # Workers run its code until the process ends, also while an interpreter clears its modules.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))
    return int(module[THREADS]())
