"""Device functions as CUDA C, from TVM's code generator, without any header files.

The text is self-contained: NVRTC needs no CUDA installation, and any C++ compiler can compile the
text if CUDA's keywords are defined.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, GlobalVar
from tvm.tirx import transform as T

from tvm_disc.codegen.cuda import tensor
from tvm_disc.errors import Unsupported
from tvm_disc.schedules.cuda.kernel import DeviceFunction
from tvm_disc.support.locks import Lock
from tvm_disc.target.device import Device
from tvm_disc.tir.builder import const
from tvm_disc.tir.integers import opaque
from tvm_disc.typing import Expr, Target

_DOTTED = re.compile(r"\bdisc(?:\.\w+)+")
_DIVISION = re.compile(r"\bdisc_div_(floor|trunc)_(divide|mod)_(u?int\d+)_v1\b")
_WRAPPING = re.compile(r"\bdisc_wrap_(add|sub|mul)_(u?)(int\d+)_v1\b")
_SIGNS = {"add": "+", "sub": "-", "mul": "*"}
_FIRST = 'extern "C" __global__'
_COMPILE = "tvm_callback_cuda_compile"
_REPLACING = Lock()


def device_source(functions: Sequence[DeviceFunction], device: Device) -> str:
    """Return the functions as one text of CUDA C.

    Raises:
        Unsupported: TVM has no CUDA code for a function.
    """
    target = tvm.target.Target({"kind": "cuda", "arch": f"sm_{device.architectures[0]}"})
    made = {GlobalVar(f.name): _marked(f, target) for f in functions}
    try:
        text = _generated(tvm.IRModule(made), target)
    except Exception as error:
        raise _refused(functions, target, error) from None
    body = text[text.index(_FIRST) :] if _FIRST in text else ""
    body = _DOTTED.sub(lambda m: m[0].replace(".", "_"), body)
    return "\n".join(
        [
            PRELUDE,
            *_divisions(body),
            *_wrapping(body),
            *([tensor.TEXT, tensor.group_text(body)] if tensor.PREFIX in body else []),
            body,
        ]
    )


def _generated(module: object, target: Target) -> str:
    """Return TVM's CUDA C for a module of functions."""
    lowered = _lowered(module)
    with _uncompiled() as texts:
        found = tvm.get_global_func("target.build.cuda")(lowered, target)
    return texts[0] if texts else str(found.inspect_source())


@contextmanager
def _uncompiled() -> Iterator[list[str]]:
    """Prevent TVM from compiling the CUDA C that this thread generates; yield the texts instead.

    If TVM's CUDA runtime is loaded, which needs a driver and the CUDA runtime library,
    ``target.build.cuda`` compiles its text by the global function ``tvm_callback_cuda_compile``.
    This compilation needs CUDA's headers and takes as long as ours. Its result would not be used,
    because the text is changed before it is compiled. Modules of other threads are compiled as
    before.
    """
    texts: list[str] = []
    own = threading.get_ident()
    with _REPLACING:
        before = tvm_ffi.get_global_func(_COMPILE, allow_missing=True)

        def compile_text(code: str) -> bytes | bytearray:
            if threading.get_ident() != own and before is not None:
                return bytes(before(code))
            texts.append(str(code))
            return b""

        tvm_ffi.register_global_func(_COMPILE, compile_text, override=True)
        try:
            yield texts
        finally:
            if before is None:
                tvm_ffi.registry.remove_global_func(_COMPILE)
            else:
                tvm_ffi.register_global_func(_COMPILE, before, override=True)


def _lowered(module: object) -> object:
    """Return the module in the form that TVM's code generator requires: single assignment."""
    return T.LowerIntrin()(T.ConvertSSA()(module))


def _marked(function: DeviceFunction, target: Target) -> object:
    func = function.func.with_body(_constant_bits(opaque(function.func.body)))
    attrs = {
        "global_symbol": function.name,
        "calling_conv": 2,
        "target": target,
        "tirx.is_global_func": True,
    }
    for key, value in attrs.items():
        func = func.with_attr(key, value)
    return func


def _constant_bits(body: Expr) -> Any:
    """Replace a reinterpreted literal by one of the other type: TVM's CUDA C would take the
    literal's address, which is invalid.
    """

    def folded(node: Call) -> Expr:
        name, arg = getattr(node.op, "name", ""), node.args[0] if len(node.args) else None
        if name != "tirx.reinterpret" or not isinstance(arg, tirx.FloatImm | tirx.IntImm):
            return node
        value = np.array(arg.value, str(arg.ty.dtype))
        bits = value.view(str(node.ty.dtype))
        return const(bits.item(), str(node.ty.dtype))

    return tvm_ffi.structural_map(body, (Call, folded), order="post")


def _refused(functions: Sequence[DeviceFunction], target: Target, error: Exception) -> Unsupported:
    """Return the error for the first function whose code generation fails, with the reason."""
    for function in functions:
        try:
            _generated(tvm.IRModule({GlobalVar(function.name): _marked(function, target)}), target)
        except Exception as own:
            reason = str(own).strip().splitlines()[-1]
            return Unsupported(f"{function.name.partition('_')[2]}: no code for a GPU: {reason}")
    return Unsupported(f"no code for a GPU: {str(error).strip().splitlines()[-1]}")


def _divisions(body: str) -> list[str]:
    """Return the definitions of the division functions that a text calls; x / 0 is 0
    (``tir/integers.py``).
    """
    found = sorted({m.groups() for m in _DIVISION.finditer(body)})
    lines = []
    for way, kind, dtype in found:
        name = f"disc_div_{way}_{kind}_{dtype}_v1"
        lines.append(f"DISC_{way.upper()}_{kind.upper()}({name}, {dtype}_t)")
    return lines


def _wrapping(body: str) -> list[str]:
    """Return the definitions of the wrapping functions that a text calls (``tir/integers.py``)."""
    lines = []
    for kind, unsigned, dtype in sorted({m.groups() for m in _WRAPPING.finditer(body)}):
        name, result = f"disc_wrap_{kind}_{unsigned}{dtype}_v1", f"{unsigned}{dtype}_t"
        value = f"(u{dtype}_t)a {_SIGNS[kind]} (u{dtype}_t)b"
        head = f"DISC_DEVICE {result} {name}({result} a, {result} b)"
        lines.append(f"{head} {{ return ({result})({value}); }}")
    return lines


PRELUDE = r"""
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define DISC_DEVICE static __device__ __forceinline__
struct half {
  unsigned short bits;
  __device__ half() {}
  __device__ half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
DISC_DEVICE void disc_store_16(void* to, const void* from) {
  const uint32_t* x = (const uint32_t*)from;
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               ::"l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}
#endif
#ifndef CUDART_INF_F
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000LL)
#define CUDART_NAN __longlong_as_double(0x7ff8000000000000LL)
#endif
#define uint unsigned int
#define uchar unsigned char
#define ushort unsigned short
#define DISC_TRAPS(T, b) ((b) == 0 || ((T)-1 < (T)0 && (b) == (T)-1))
#define DISC_TRUNC_DIVIDE(NAME, T) DISC_DEVICE T NAME(T a, T b) { \
  return b == 0 ? (T)0 : DISC_TRAPS(T, b) ? (T)(0 - (uint64_t)a) : (T)(a / b); }
#define DISC_FLOOR_DIVIDE(NAME, T) DISC_DEVICE T NAME(T a, T b) { \
  if (DISC_TRAPS(T, b)) return b == 0 ? (T)0 : (T)(0 - (uint64_t)a); \
  T q = (T)(a / b); \
  return (T)(q - ((a % b != 0) & ((a ^ b) < (T)0))); }
#define DISC_TRUNC_MOD(NAME, T) DISC_DEVICE T NAME(T a, T b) { \
  return DISC_TRAPS(T, b) ? (T)0 : (T)(a % b); }
#define DISC_FLOOR_MOD(NAME, T) DISC_DEVICE T NAME(T a, T b) { \
  if (DISC_TRAPS(T, b)) return (T)0; \
  T r = (T)(a % b); \
  return (T)(r + ((r != 0 && (a ^ b) < (T)0) ? b : (T)0)); }
DISC_DEVICE half __float2half_rn(float x) { return half(x); }
DISC_DEVICE float disc_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DISC_DEVICE double disc_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
DISC_DEVICE float disc_silu(float x) { return x / (1.0f + expf(-x)); }
DISC_DEVICE double disc_silu(double x) { return x / (1.0 + exp(-x)); }
DISC_DEVICE float disc_gelu_erf(float x) { return 0.5f * x * erfcf(-0.70710678f * x); }
DISC_DEVICE double disc_gelu_erf(double x) { return 0.5 * x * erfc(-0.7071067811865476 * x); }
"""

__all__ = ["PRELUDE", "device_source"]
