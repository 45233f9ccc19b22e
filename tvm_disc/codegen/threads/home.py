"""The process-wide state of the workers.

The first program creates the home and registers its address as a global function of TVM's runtime;
later programs look it up there. Workers run the code of the first program, which therefore must
stay loaded: a saved library increments its own reference count in the dynamic linker, and code that
was compiled in this process is kept alive by a reference that is never dropped.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import GlobalVar, PrimType, StringImm
from tvm.tirx import op as O

from tvm_disc.abi.threads import (
    HOME_BYTES,
    LAUNCH_CODE,
    NAME,
    PAGE_BYTES,
    PROCESS,
    WORKER,
)
from tvm_disc.codegen.host.abi import ANY_PADDING, ANY_TYPE, ANY_VALUE, INTEGER, i32, void_pointer
from tvm_disc.codegen.host.packed import Arguments, packed
from tvm_disc.codegen.threads.atomics import load, store
from tvm_disc.codegen.threads.state import word
from tvm_disc.tir.builder import Block, call, i64, index_var, prim_func
from tvm_disc.typing import Buffer, Expr, PrimFunc

# ``home_address``: packed function ``() -> address of the process-wide state of the workers``; 0 if
# its allocation failed.
ANSWER, FORKED = (GlobalVar(f"tvm_disc_{name}") for name in ("home_address", "after_fork"))
THREADS = "tvm_disc_threads"
LAUNCH_NAME = "tvm_disc_launch"
WORKER_NAME = "tvm_disc_worker"
_READ_WRITE, _PRIVATE_ANONYMOUS, _WIPE_ON_FORK = 3, 0x22, 18
_SYMBOLS = (
    "TVMFFIFunctionGetGlobal",
    "TVMFFIFunctionSetGlobal",
    "TVMFFIFunctionCreate",
    "TVMFFIFunctionCall",
    "TVMFFIObjectDecRef",
)
_STRINGS = "\n".join(
    f'@disc.name.{text} = linkonce hidden constant [{len(text) + 1} x i8] c"{text}\\00"'
    for text in (NAME, *_SYMBOLS)
)
_DLSYM = "\n".join(
    f"""define linkonce_odr ptr @disc.{text}() {{
  %p = call ptr @dlsym(ptr null, ptr @disc.name.{text})
  ret ptr %p
}}"""
    for text in _SYMBOLS
)
# The flags of dlopen are RTLD_LAZY | RTLD_NOLOAD = 5, plus RTLD_NODELETE.
_LIBRARY = f"""
@disc.home = linkonce hidden global i64 0, align 8
{_STRINGS}
declare ptr @dlsym(ptr, ptr)
declare i32 @dladdr(ptr, ptr)
declare ptr @dlopen(ptr, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @{WORKER_NAME}(i64)
declare i32 @{LAUNCH_NAME}(ptr, ptr, i32)
declare i32 @{ANSWER.name_hint}(ptr, ptr, i32, ptr)
{_DLSYM}
define linkonce_odr i64 @disc.get_home() {{
  %home = load i64, ptr @disc.home, align 8
  ret i64 %home
}}
define linkonce_odr i64 @disc.set_home(i64 %home) {{
  store i64 %home, ptr @disc.home, align 8
  ret i64 0
}}
define linkonce_odr i64 @disc.worker_code() {{
  %code = ptrtoint ptr @{WORKER_NAME} to i64
  ret i64 %code
}}
define linkonce_odr i64 @disc.launch_code() {{
  %code = ptrtoint ptr @{LAUNCH_NAME} to i64
  ret i64 %code
}}
define linkonce_odr i64 @disc.name_of(ptr %bytes) {{
  %size = getelementptr i64, ptr %bytes, i64 1
  store ptr @disc.name.{NAME}, ptr %bytes, align 8
  store i64 {len(NAME)}, ptr %size, align 8
  ret i64 0
}}
define linkonce_odr i64 @disc.registered() {{
  %bytes = alloca [2 x i64], align 8
  %found = alloca ptr, align 8
  %result = alloca [2 x i64], align 8
  %get = call ptr @disc.TVMFFIFunctionGetGlobal()
  %ask = call ptr @disc.TVMFFIFunctionCall()
  %drop = call ptr @disc.TVMFFIObjectDecRef()
  %none = icmp eq ptr %get, null
  br i1 %none, label %no, label %look
look:
  store ptr null, ptr %found, align 8
  store i64 0, ptr %result, align 8
  %value = getelementptr i64, ptr %result, i64 1
  store i64 0, ptr %value, align 8
  %named = call i64 @disc.name_of(ptr %bytes)
  %status = call i32 %get(ptr %bytes, ptr %found)
  %function = load ptr, ptr %found, align 8
  %missing = icmp eq ptr %function, null
  br i1 %missing, label %no, label %call
call:
  %called = call i32 %ask(ptr %function, ptr null, i32 0, ptr %result)
  %dropped = call i32 %drop(ptr %function)
  %home = load i64, ptr %value, align 8
  ret i64 %home
no:
  ret i64 0
}}
define linkonce_odr i64 @disc.register(i64 %home) {{
  %bytes = alloca [2 x i64], align 8
  %made = alloca ptr, align 8
  %create = call ptr @disc.TVMFFIFunctionCreate()
  %set = call ptr @disc.TVMFFIFunctionSetGlobal()
  %drop = call ptr @disc.TVMFFIObjectDecRef()
  %none = icmp eq ptr %create, null
  br i1 %none, label %no, label %make
make:
  store ptr null, ptr %made, align 8
  %self = inttoptr i64 %home to ptr
  %status = call i32 %create(ptr %self, ptr @{ANSWER.name_hint}, ptr null, ptr %made)
  %function = load ptr, ptr %made, align 8
  %missing = icmp eq ptr %function, null
  br i1 %missing, label %no, label %enter
enter:
  %named = call i64 @disc.name_of(ptr %bytes)
  %failed = call i32 %set(ptr %bytes, ptr %function, i32 0)
  %dropped = call i32 %drop(ptr %function)
  %done = icmp eq i32 %failed, 0
  %wide = zext i1 %done to i64
  ret i64 %wide
no:
  ret i64 0
}}
define linkonce_odr i64 @disc.stay() {{
  %info = alloca [4 x i64], align 8
  %found = call i32 @dladdr(ptr @{WORKER_NAME}, ptr %info)
  %known = icmp ne i32 %found, 0
  br i1 %known, label %keep, label %end
keep:
  %name = load ptr, ptr %info, align 8
  %handle = call ptr @dlopen(ptr %name, i32 4101)
  br label %end
end:
  ret i64 0
}}
define linkonce_odr i64 @disc.spawn(i64 %code, i64 %home) {{
  %thread = alloca i64, align 8
  %all = alloca [16 x i64], align 8
  %before = alloca [16 x i64], align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %worker = inttoptr i64 %code to ptr
  %argument = inttoptr i64 %home to ptr
  %blocked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %before)
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr %worker, ptr %argument)
  %restored = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %let, label %end
let:
  %id = load i64, ptr %thread, align 8
  %detached = call i32 @pthread_detach(i64 %id)
  ret i64 1
end:
  ret i64 0
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def library() -> StringImm:
    """Return the imported LLVM code of this module."""
    return StringImm(_LIBRARY)


def home_functions() -> dict[GlobalVar, PrimFunc]:
    """Return the functions of this module."""
    return {GlobalVar(THREADS): packed(THREADS, _find), ANSWER: _answer(), FORKED: _after_fork()}


def pool_of(home: Expr) -> Expr:
    """Return the address of a home's pool."""
    return home + PAGE_BYTES


def own_home(block: Block) -> Expr:
    """Return the home whose workers run this code. In the child of a fork, the pool is reset
    before.
    """
    home = block.bind("home", O.call_extern("int64", "disc.get_home"))
    with block.when(tirx.NE(load(word(home, PROCESS)), i64(0))):
        block.eval(call(FORKED, home))
    return home


def spawn(home: Expr) -> Expr:
    """Start a worker with all signals blocked; return 1 on success."""
    return O.call_extern("int64", "disc.spawn", load(word(home, WORKER)), home)


def _find(block: Block, args: Arguments) -> Expr:
    """Return the address of the process's home, creating it if there is none; 0 if its allocation
    failed.
    """
    home = block.alloc("home", 1, "int64")
    block.store(home, 0, O.call_extern("int64", "disc.registered"))
    with block.when(tirx.EQ(home[i64(0)], i64(0))):
        made = O.call_extern(
            "int64",
            "mmap",
            i64(0),
            i64(HOME_BYTES),
            i32(_READ_WRITE),
            i32(_PRIVATE_ANONYMOUS),
            i32(-1),
            i64(0),
        )
        made = block.bind("made", made)
        with block.when(tirx.NE(made, i64(-1))):
            _enter(block, made, home)
    return home[i64(0)]


def _enter(block: Block, made: Expr, home: Buffer) -> None:
    """Register a new home, unless another thread was faster; store the registered one in
    ``home``.
    """
    wiped = O.call_extern("int32", "madvise", pool_of(made), i64(PAGE_BYTES), i32(_WIPE_ON_FORK))
    with block.when(tirx.NE(block.bind("wiped", wiped), i32(0))):
        # Before version 4.14, Linux cannot zero the pool at a fork, so each launch compares process
        # ids.
        block.eval(store(word(made, PROCESS), _process()))
    for number, name in ((WORKER, "disc.worker_code"), (LAUNCH_CODE, "disc.launch_code")):
        block.eval(store(word(made, number), O.call_extern("int64", name)))
    # The variable is set before registration, because launches read it as soon as the home is
    # registered.
    block.eval(O.call_extern("int64", "disc.set_home", made))
    first = block.bind("first", O.call_extern("int64", "disc.register", made))
    with block.when(tirx.EQ(first, i64(0))):
        block.store(home, 0, O.call_extern("int64", "disc.registered"))
    with block.when(tirx.EQ(home[i64(0)], i64(0))):
        block.store(home, 0, made)
        block.eval(O.call_extern("int64", "disc.stay"))
    with block.otherwise():
        block.eval(O.call_extern("int32", "munmap", made, i64(HOME_BYTES)))


def _process() -> Expr:
    return tirx.Cast("int64", O.call_extern("int32", "getpid"))


def _answer() -> PrimFunc:
    """Return the registered function ``() -> address of the home``; the address is the function's
    handle.
    """
    home, args = (tirx.Var(n, void_pointer()) for n in ("home", "args"))
    count, result = tirx.Var("num_args", "int32"), tirx.Var("result", void_pointer())
    block = Block()
    fields = ((ANY_TYPE, i32(INTEGER)), (ANY_PADDING, i32(0)))
    for field, value in (*fields, (ANY_VALUE, tirx.reinterpret("int64", home))):
        block.eval(O.tvm_struct_set(result, i32(0), i32(field), value))
    block.ret(i32(0))
    func = tirx.PrimFunc([home, args, count, result], block.stmt(), PrimType("int32"))
    # The address of the function is taken: TVM must neither rewrite it as a packed function nor
    # remove it.
    func = func.with_attr("calling_conv", 1)
    return func.with_attr("global_symbol", ANSWER.name_hint)


def _after_fork() -> PrimFunc:
    """Return ``after_fork(home)``, which zeroes the pool if its workers belong to another
    process.
    """
    home = index_var("home")
    block = Block()
    process = block.bind("process", _process())
    with block.when(tirx.NE(load(word(home, PROCESS)), process)):
        with block.loop("k", PAGE_BYTES // 8) as k:
            block.eval(store(pool_of(home) + k * 8, i64(0)))
        block.eval(store(word(home, PROCESS), process))
    return prim_func([home], block.stmt())
