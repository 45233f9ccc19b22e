"""Parallel kernels wake as many workers as they have parts.

TVM's generated code asks for all workers of the pool: on a machine of many cores a kernel of three
parts wakes them all, waits for them all, and none of them sleeps for a while, whatever
``Options.threads`` says. Its address of the runtime's launch is a variable of the library, which is
set when that is loaded; a program puts a function of its own in its place, which asks for fewer.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import GlobalVar, PrimType, StringImm
from tvm.tirx import op as O

from tvm_disc.codegen.host_abi import void_pointer
from tvm_disc.schedules.emit import Block

LAUNCH = GlobalVar("tvm_disc_launch")
# The extent of the loop is the first thing that its closure holds. It is taken for a hint: any
# number of tasks up to the pool's is right, since each finds its share of the loop by itself. The
# pool of a calling thread may be smaller than another's, so its size is asked for at every launch.
# TVM inlines the functions of imported code everywhere: one whose address is taken is TIR.
_NAMES = {
    "theirs": "TVMBackendParallelLaunch",
    "pool": "_ZN3tvm7runtime9threading10NumThreadsEv",
}
_STRINGS = "\n".join(
    f'@disc.name.{key} = linkonce hidden constant [{len(name) + 1} x i8] c"{name}\\00"'
    for key, name in _NAMES.items()
)
_LIBRARY = f"""
@__TVMBackendParallelLaunch = linkonce dllexport global ptr null, align 8
@disc.theirs = linkonce hidden global ptr null, align 8
@disc.pool = linkonce hidden global ptr null, align 8
{_STRINGS}
declare ptr @dlsym(ptr, ptr)
declare i32 @tvm_disc_launch(ptr, ptr, i32)
define linkonce_odr i32 @disc.launch(ptr %body, ptr %closure, i32 %tasks) {{
  %parts = load i64, ptr %closure, align 8
  %pool = load ptr, ptr @disc.pool, align 8
  %most = call i32 %pool()
  %wide = sext i32 %most to i64
  %some = icmp sgt i64 %parts, 0
  %fewer = icmp slt i64 %parts, %wide
  %known = and i1 %some, %fewer
  %few = trunc i64 %parts to i32
  %wanted = select i1 %known, i32 %few, i32 %tasks
  %theirs = load ptr, ptr @disc.theirs, align 8
  %status = call i32 %theirs(ptr %body, ptr %closure, i32 %wanted)
  ret i32 %status
}}
define linkonce_odr i32 @disc.find() {{
  %theirs = call ptr @dlsym(ptr null, ptr @disc.name.theirs)
  store ptr %theirs, ptr @disc.theirs, align 8
  %pool = call ptr @dlsym(ptr null, ptr @disc.name.pool)
  store ptr %pool, ptr @disc.pool, align 8
  ret i32 0
}}
define linkonce_odr i32 @disc.install() {{
  %now = load ptr, ptr @__TVMBackendParallelLaunch, align 8
  %ours = icmp eq ptr %now, @tvm_disc_launch
  br i1 %ours, label %end, label %look
look:
  %theirs = load ptr, ptr @disc.theirs, align 8
  %pool = load ptr, ptr @disc.pool, align 8
  %same = icmp eq ptr %now, %theirs
  %found = icmp ne ptr %pool, null
  %known = and i1 %same, %found
  br i1 %known, label %set, label %end
set:
  store ptr @tvm_disc_launch, ptr @__TVMBackendParallelLaunch, align 8
  br label %end
end:
  ret i32 0
}}
"""


def find_launch(block: Block) -> None:
    """Look up what the runtime has; a library does this while it is loaded."""
    block.eval(O.call_extern("int32", "disc.find"))


def install_launch(block: Block) -> None:
    """Ask for as many workers as there are parts from now on; nothing where that cannot be.

    The runtime sets its address after a library was loaded: a call does this before its kernels.
    """
    block.eval(O.call_extern("int32", "disc.install"))


def launch_function() -> Any:
    """``LAUNCH``, in the place of the runtime's: ``(body, closure, tasks) -> status``."""
    body, closure, tasks = (
        tirx.Var("body", void_pointer()),
        tirx.Var("closure", void_pointer()),
        tirx.Var("tasks", "int32"),
    )
    block = Block()
    # The status is 0: what kernels do cannot fail, and TVM can return nothing else here.
    block.eval(O.call_extern("int32", "disc.launch", body, closure, tasks))
    block.ret(tirx.IntImm("int32", 0))
    text = StringImm(_LIBRARY)
    stmt = tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", text, block.stmt())
    func = tirx.PrimFunc([body, closure, tasks], stmt, PrimType("int32"))
    # Not to be made a packed function: generated code calls it in the place of the runtime's.
    func = func.with_attr("calling_conv", 1)
    return func.with_attr("global_symbol", LAUNCH.name_hint)


__all__ = ["LAUNCH", "find_launch", "install_launch", "launch_function"]
