"""A variant that computes a matmul with a BLAS library already loaded by the process.

The library is looked up with ``dlsym`` when the variant's condition is first tested, so programs do
not link against it. If no library is found, the condition is false and another variant runs. The
library chooses its own number of threads. The variant exists if both operands and the result have a
layout that BLAS accepts. A matmul with constant weights has no such variant; it uses packed
weights.

Without measured times, the variant is chosen only if the cost constants of the target's ISA level
describe a library.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import StringImm

from tvm_disc.abi.blas import MARKS, symbols
from tvm_disc.errors import WhyNot
from tvm_disc.schedules.dispatch.variant import Need, Plan
from tvm_disc.schedules.gemm.cost import vendor_ns
from tvm_disc.schedules.gemm.partition import is_one
from tvm_disc.schedules.gemm.plan import matmul_view, strides_of
from tvm_disc.schedules.gemm.view import MatMulView, operands_of
from tvm_disc.schedules.group import Body, Group
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

FAMILY = "vendor"
_LETTERS = {"float32": "s", "float64": "d"}
_NO_TRANS, _TRANS = 111, 112
_LARGEST = 2**31 - 1  # the library's integers may have 32 bits
_ANALYZER = tvm.sym.Analyzer()


def plan_vendor(group: Group, solver: Solver) -> Plan | WhyNot:
    """Return a plan with one library call per batch item."""
    node = group.anchor
    if node is None or node.op != "relax.matmul" or group.outputs != [node]:
        return WhyNot(FAMILY, "it requires a matrix product alone, without fused operators")
    letter = _LETTERS.get(node.dtype)
    if letter is None or any(x.dtype != node.dtype or len(x.shape) < 2 for x in node.inputs):
        return WhyNot(
            FAMILY, "it requires two matrices and a result of one type, float32 or float64"
        )
    if node.inputs[1] in group.constants:
        return WhyNot(
            FAMILY,
            "it requires a second operand that is not constant: a constant one is packed",
        )
    view = matmul_view(group, node, solver)
    ats = operands_of(view)
    places = [strides_of(group, solver, at) for at in ats]
    if any(p is None or not (is_one(p.stride) or is_one(p.k_stride)) for p in places):
        return WhyNot(
            FAMILY, "it requires row-major or column-major operands: one has other strides"
        )
    batch, m, n, k = (i64(x) for x in view.sizes)
    cond: Expr = tirx.NE(tirx.call_extern("int32", f"disc.vendor.{letter}.found"), _int32(0))
    for size in (m, n, k, *(leading(p) for p in places)):
        if not isinstance(size, tirx.IntImm):
            cond = tirx.And(cond, size <= i64(_LARGEST))
    for place, outer in zip(places, (m, n), strict=True):
        cond = tirx.And(cond, apart(place, outer, k))

    def emit(body: Body) -> None:
        _emit(view, body, places, letter)

    return Plan(
        tasks=batch,
        work=batch * m * n * k * 2,
        emit=emit,
        family=FAMILY,
        needs=(Need("a BLAS library is loaded", cond, assumed=True),),
        cost=partial(vendor_ns, (batch, m, n, k)),
        features=(batch, m, n, k),
        may_alias=True,
        notes={"vendor": "cblas, looked up at the first run"},
    )


def leading(place: Any) -> Expr:
    """Return the leading dimension: the stride between the contiguous vectors of an operand.

    The vectors run along K if the operand is contiguous along K.
    """
    return i64(place.stride if is_one(place.k_stride) else place.k_stride)


def dense(place: Any, outer: Expr, k: Expr) -> tuple[Expr, Expr]:
    """Return (length, number) of an operand's contiguous vectors."""
    return (k, outer) if is_one(place.k_stride) else (outer, k)


def apart(place: object, outer: Expr, k: Expr) -> Expr:
    """Return the condition that vectors do not overlap.

    BLAS prints an error and refuses a leading dimension below the vector length. The stride of a
    dim of size 1 is arbitrary, and that of a broadcast dim is 0.
    """
    length, number = dense(place, outer, k)
    wide = tirx.Or(number <= i64(1), length <= leading(place))
    simple: Expr = _ANALYZER.simplify(wide)
    return simple


def _int32(value: int) -> Expr:
    return tirx.IntImm("int32", value)


def _emit(view: MatMulView, body: Body, places: Any, letter: str) -> None:
    block, zero = body.block, i64(0)
    _, m, n, k = (i64(x) for x in view.sizes)
    with body.low.loop("g", body.hi - body.lo, begin=body.lo) as g:
        flags, matrices = [], []
        for operand, (place, at) in enumerate(zip(places, operands_of(view), strict=True)):
            found = body.low.locate(partial(at, body.low, g, zero, zero))
            assert found is not None
            base = body.low.settle("base", found[1])
            # A is row-major if it is contiguous along K, B if it is not.
            rows = is_one(place.k_stride) == (operand == 0)
            flags.append(_int32(_NO_TRANS if rows else _TRANS))
            address = tirx.address_of(body.buffers[place.node][base])
            length, _ = dense(place, (m, n)[operand], k)
            matrices += [address, tirx.max(leading(place), tirx.max(length, i64(1)))]
        out = tirx.address_of(body.outputs[0][view.flat(g, zero, zero)])
        operands = [*flags, m, n, k, *matrices, out, tirx.max(n, i64(1))]
        call = tirx.Evaluate(tirx.call_extern("int32", f"disc.vendor.{letter}.gemm", *operands))
        library = StringImm(_library(letter))
        block.add(tirx.AttrStmt(StringImm("disc"), "pragma_import_llvm", library, call))


@cache
def _library(letter: str) -> str:
    """Return LLVM functions that find and call the library; ``found`` returns 0 if there is
    none.
    """
    kind = {"s": "float", "d": "double"}[letter]
    this = f"disc.vendor.{letter}"
    lines = [
        "declare ptr @dlsym(ptr, ptr)",
        f"@{this}.function = linkonce_odr global ptr null",
        # 1: no library, 2: 32-bit integers, 3: 64-bit integers
        f"@{this}.state = linkonce_odr global i32 0",
    ]
    texts = [(f"name{k}", name) for k, name in enumerate(symbols(letter))]
    for label, name in (*texts, *((f"mark{j}", name) for j, name in enumerate(MARKS))):
        text = f'[{len(name) + 1} x i8] c"{name}\\00"'
        lines.append(f"@{this}.{label} = linkonce_odr constant {text}")
    lines += [
        f"define linkonce_odr i32 @{this}.look() noinline {{",
        "try0:",
    ]
    for k in range(len(symbols(letter))):
        state = 3 if k < 2 else 2
        lines += [
            f"  %f{k} = call ptr @dlsym(ptr null, ptr @{this}.name{k})",
            f"  %n{k} = icmp eq ptr %f{k}, null",
            f"  br i1 %n{k}, label %try{k + 1}, label %{'take' if k < 2 else 'mark'}{k}",
        ]
        if k >= 2:
            lines += [f"mark{k}:", f"  %any{k}.0 = icmp eq i32 0, 1"]
            for j in range(len(MARKS)):
                lines += [
                    f"  %m{k}.{j} = call ptr @dlsym(ptr null, ptr @{this}.mark{j})",
                    f"  %is{k}.{j} = icmp ne ptr %m{k}.{j}, null",
                    f"  %any{k}.{j + 1} = or i1 %any{k}.{j}, %is{k}.{j}",
                ]
            lines.append(f"  br i1 %any{k}.{len(MARKS)}, label %take{k}, label %try{k + 1}")
        lines += [
            f"take{k}:",
            f"  store ptr %f{k}, ptr @{this}.function",
            f"  store atomic i32 {state}, ptr @{this}.state release, align 4",
            f"  ret i32 {state}",
            f"try{k + 1}:",
        ]
    lines += [
        f"  store atomic i32 1, ptr @{this}.state release, align 4",
        "  ret i32 1",
        "}",
        f"define linkonce_odr i32 @{this}.now() {{",
        f"  %s = load atomic i32, ptr @{this}.state acquire, align 4",
        "  %new = icmp eq i32 %s, 0",
        "  br i1 %new, label %look, label %done",
        "look:",
        f"  %l = call i32 @{this}.look()",
        "  ret i32 %l",
        "done:",
        "  ret i32 %s",
        "}",
        f"define linkonce_odr i32 @{this}.found() {{",
        f"  %s = call i32 @{this}.now()",
        "  %r = lshr i32 %s, 1",
        "  ret i32 %r",
        "}",
        f"define linkonce_odr i32 @{this}.gemm(i32 %ta, i32 %tb, i64 %m, i64 %n, i64 %k, "
        "ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c, i64 %ldc) {",
        f"  %s = call i32 @{this}.now()",
        f"  %f = load ptr, ptr @{this}.function",
        "  switch i32 %s, label %none [i32 2, label %narrow i32 3, label %wide]",
        "wide:",
        f"  call void %f(i32 101, i32 %ta, i32 %tb, i64 %m, i64 %n, i64 %k, {kind} 1.0, ptr %a, "
        f"i64 %lda, ptr %b, i64 %ldb, {kind} 0.0, ptr %c, i64 %ldc)",
        "  ret i32 0",
        "narrow:",
        *(f"  %{x}.32 = trunc i64 %{x} to i32" for x in ("m", "n", "k", "lda", "ldb", "ldc")),
        f"  call void %f(i32 101, i32 %ta, i32 %tb, i32 %m.32, i32 %n.32, i32 %k.32, {kind} 1.0, "
        f"ptr %a, i32 %lda.32, ptr %b, i32 %ldb.32, {kind} 0.0, ptr %c, i32 %ldc.32)",
        "  ret i32 0",
        "none:",
        "  ret i32 0",
        "}",
    ]
    return "\n".join(lines)


def calls_vendor(plan: Plan) -> bool:
    """Return whether a plan, or one of its stages, calls a library."""
    return plan.family == FAMILY or any(calls_vendor(s.plan) for s in plan.stages)
