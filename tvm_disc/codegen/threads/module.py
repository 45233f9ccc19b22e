"""The threads as machine code: a module of their own, which any processor of its kind runs.

Programs in memory share one; every saved program contains it, and the first that a process loads
has its workers.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import StringImm

from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import resolve_target, triple_of
from tvm_disc.codegen.threads import atomics, home
from tvm_disc.codegen.threads.cores import cores_functions
from tvm_disc.codegen.threads.home import THREADS, home_functions
from tvm_disc.codegen.threads.launch import LAUNCH, launch_functions
from tvm_disc.codegen.threads.worker import worker_functions


def thread_functions(triple: str) -> dict[Any, Any]:
    """All functions of the module, for the architecture of a target's triple."""
    functions = {
        **launch_functions(),
        **worker_functions(),
        **home_functions(),
        **cores_functions(),
    }
    body = functions[LAUNCH].body
    for text in (atomics.words_library(), atomics.system_library(triple), home.library()):
        body = tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", text, body)
    return {**functions, LAUNCH: functions[LAUNCH].with_body(body)}


@cache
def threads_module(triple: str) -> Any:
    """The module for a triple: ``tvm_disc_threads() -> address of the home``."""
    plain = resolve_target({"kind": "llvm", "mtriple": triple})
    return compile_tir(tvm.IRModule(thread_functions(triple)), plain)


@cache
def home_of_process() -> int:
    """The address of this process's home."""
    module = threads_module(triple_of({}))
    # Workers run its code until the process ends, also while an interpreter clears its modules.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))
    return int(module[THREADS]())
