"""The thread pool's code as a separate module, compiled for the baseline of the architecture.

Programs that are compiled in a process share one module. Each saved program contains a copy;
workers run the copy of the first program that the process loads.
"""

from __future__ import annotations

import ctypes

from tvm import tirx
from tvm.ir import StringImm

from tvm_disc.codegen.machine_code import MachineCode, compile_program
from tvm_disc.codegen.target import resolve_target, triple_of
from tvm_disc.codegen.threads import atomics, home
from tvm_disc.codegen.threads.home import THREADS, home_functions
from tvm_disc.codegen.threads.launch import LAUNCH, launch_functions
from tvm_disc.codegen.threads.worker import worker_functions
from tvm_disc.codegen.units import Emitted
from tvm_disc.support.locks import Lock
from tvm_disc.support.store import Store
from tvm_disc.typing import GlobalVar, PrimFunc


def thread_functions(triple: str) -> dict[GlobalVar, PrimFunc]:
    """Return all functions of the module, for the architecture of a target triple."""
    functions = {
        **launch_functions(),
        **worker_functions(),
        **home_functions(),
    }
    body = functions[LAUNCH].body
    for text in (atomics.system_library(triple), home.library()):
        body = tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", text, body)
    return {**functions, LAUNCH: functions[LAUNCH].with_body(body)}


def threads_code(triple: str, store: Store | None) -> MachineCode:
    """Return the machine code for a triple; its entry is ``tvm_disc_threads() -> address of the
    home``.
    """
    plain = resolve_target({"kind": "llvm", "mtriple": triple})
    return compile_program(Emitted(thread_functions(triple), {}, [], {}), plain, store)


_HOME: list[int] = []
_MAKING = Lock()


def home_of_process(store: Store | None = None) -> int:
    """Return the address of this process's home.

    Args:
        store: cache for the workers' machine code.
    """
    with _MAKING:
        if not _HOME:
            _HOME.append(_new_home(store))
    return _HOME[0]


def _new_home(store: Store | None) -> int:
    module = threads_code(triple_of({}), store).module
    # Workers run this code until the process ends, even while the interpreter clears its modules.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))
    return int(module[THREADS]())
