"""Atomic operations, futexes and indirect calls, which TIR lacks, as imported LLVM code.

Words have 64 bits and are addressed by int64 expressions, so that no alias rule of TIR or LLVM
applies to them. TVM inlines the imported functions into their callers and does not emit them as
functions. A function whose address is taken must therefore be TIR.
"""

from __future__ import annotations

from tvm.ir import StringImm
from tvm.tirx import op as O

from tvm_disc.tir.imports import provide
from tvm_disc.typing import Expr

# Futex operations, private to the process.
_WAIT, _WAKE = 128, 129
# Numbers of the system call futex: of x86-64, and of the newer architectures.
_FUTEX = {"x86_64": 202}
_FUTEX_ELSE = 98
_GETTID = {"x86_64": 186}
_GETTID_ELSE = 178
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": (
        "declare void @llvm.aarch64.hint(i32)",
        "call void @llvm.aarch64.hint(i32 1)",
    ),
}

provide("""
define linkonce_odr i64 @disc.load(i64 %at) {
  %p = inttoptr i64 %at to ptr
  %v = load atomic i64, ptr %p seq_cst, align 8
  ret i64 %v
}
define linkonce_odr i64 @disc.store(i64 %at, i64 %v) {
  %p = inttoptr i64 %at to ptr
  store atomic i64 %v, ptr %p release, align 8
  ret i64 0
}
define linkonce_odr i64 @disc.add(i64 %at, i64 %v) {
  %p = inttoptr i64 %at to ptr
  %old = atomicrmw add ptr %p, i64 %v seq_cst
  ret i64 %old
}
define linkonce_odr i64 @disc.exchange(i64 %at, i64 %old, i64 %new) {
  %p = inttoptr i64 %at to ptr
  %pair = cmpxchg ptr %p, i64 %old, i64 %new seq_cst seq_cst
  %done = extractvalue { i64, i1 } %pair, 1
  %wide = zext i1 %done to i64
  ret i64 %wide
}
""")
_SYSTEM = """
PAUSE_DECLARATION
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
define linkonce_odr i64 @disc.pause() {
  PAUSE_CALL
  ret i64 0
}
define linkonce_odr i64 @disc.wait(i64 %at, i64 %seen) {
  %word = trunc i64 %seen to i32
  %s = call i64 (i64, ...) @syscall(i64 FUTEX, i64 %at, i64 WAIT, i32 %word, i64 0, i64 0, i64 0)
  ret i64 %s
}
define linkonce_odr i64 @disc.wake(i64 %at, i64 %count) {
  %s = call i64 (i64, ...) @syscall(i64 FUTEX, i64 %at, i64 WAKE, i64 %count, i64 0, i64 0, i64 0)
  ret i64 %s
}
define linkonce_odr i64 @disc.thread() {
  %s = call i64 (i64, ...) @syscall(i64 GETTID)
  ret i64 %s
}
define linkonce_odr i64 @disc.now() {
  %time = alloca [2 x i64], align 8
  %s = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %rest, align 8
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}
define linkonce_odr i64 @disc.run(i64 %body, i64 %part, i64 %env, i64 %closure) {
  %f = inttoptr i64 %body to ptr
  %e = inttoptr i64 %env to ptr
  %c = inttoptr i64 %closure to ptr
  %number = trunc i64 %part to i32
  %status = call i32 %f(i32 %number, ptr %e, ptr %c)
  %wide = sext i32 %status to i64
  ret i64 %wide
}
"""


def system_library(triple: str) -> Expr:
    """Return the LLVM functions that depend on the operating system or the architecture. A module
    must import them once.
    """
    machine = triple.split("-")[0]
    declaration, instruction = _PAUSE.get(machine, ("", ""))
    words = {
        "PAUSE_DECLARATION": declaration,
        "PAUSE_CALL": instruction,
        "FUTEX": str(_FUTEX.get(machine, _FUTEX_ELSE)),
        "GETTID": str(_GETTID.get(machine, _GETTID_ELSE)),
        "WAIT": str(_WAIT),
        "WAKE": str(_WAKE),
    }
    text = _SYSTEM
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return StringImm(text)


def load(address: Expr) -> Expr:
    """Return the word at an address (sequentially consistent load)."""
    return O.call_extern("int64", "disc.load", address)


def store(address: Expr, value: Expr) -> Expr:
    """Store a word with release semantics."""
    return O.call_extern("int64", "disc.store", address, value)


def fetch_add(address: Expr, value: Expr) -> Expr:
    """Add to a word atomically; return its previous value."""
    return O.call_extern("int64", "disc.add", address, value)


def compare_exchange(address: Expr, old: Expr, new: Expr) -> Expr:
    """Replace ``old`` by ``new`` atomically; return 1 on success and 0 otherwise."""
    return O.call_extern("int64", "disc.exchange", address, old, new)


def pause() -> Expr:
    """Return a spin-loop hint: the sibling hardware thread may use the execution units."""
    return O.call_extern("int64", "disc.pause")


def futex_wait(address: Expr, seen: Expr) -> Expr:
    """Sleep until woken; return at once if the low half of the word differs from that of
    ``seen``.
    """
    return O.call_extern("int64", "disc.wait", address, seen)


def futex_wake(address: Expr, count: Expr) -> Expr:
    """Wake at most ``count`` threads that wait for a word."""
    return O.call_extern("int64", "disc.wake", address, count)


def thread_number() -> Expr:
    """Return the operating system's id of this thread."""
    return O.call_extern("int64", "disc.thread")


def now_ns() -> Expr:
    """Return the time of a monotonic clock in nanoseconds."""
    return O.call_extern("int64", "disc.now")


def run_part(body: Expr, part: Expr, env: Expr, closure: Expr) -> Expr:
    """Run one part of a parallel loop body that TVM's code generator emitted."""
    return O.call_extern("int64", "disc.run", body, part, env, closure)
