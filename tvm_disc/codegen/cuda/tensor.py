"""CUDA C of the functions that ``schedules/cuda/tensor/instructions.py`` calls.

The functions contain PTX instructions. Those of compute capability 8.0 belong to a thread or a
warp, those of 9.0 to a warpgroup: four warps, whose 128 threads multiply a tile of 64 rows. An
address in shared memory is a 32-bit integer. The text is added only to code that calls one of the
functions.
"""

from __future__ import annotations

import re

PREFIX = "disc_tensor_"
# Parts of a name: dtype, columns, and for A and B whether they are not contiguous along k.
_GROUP = re.compile(r"disc_tensor_group_multiply_(bfloat16|float16)_(\d+)_([01])([01])\b")
_KINDS = {"bfloat16": "bf16", "float16": "f16"}
_DESCRIPTOR = r"""
#ifdef __CUDACC_RTC__
extern __shared__ __align__(1024) unsigned char disc_tensor_dynamic[];
DISC_DEVICE uint32_t disc_tensor_room() {
  return (disc_tensor_address(disc_tensor_dynamic) + 1023) & ~1023u;
}
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
DISC_DEVICE void disc_tensor_group_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// The descriptor of a matrix with rows of 128 bytes and a 128-byte swizzle: chunk c of row r, of 16
// bytes, is stored as chunk c ^ (r % 8). The stride of groups of eight rows is 1024 bytes, that
// of blocks of 64 elements 8192 bytes.
DISC_DEVICE uint64_t disc_tensor_group_place(uint32_t at) {
  return (uint64_t)((at & 0x3ffff) >> 4) | 512ull << 16 | 64ull << 32 | 1ull << 62;
}
DISC_DEVICE void disc_tensor_group_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DISC_DEVICE void disc_tensor_group_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
DISC_DEVICE void disc_tensor_group_wait(int32_t groups) {
  if (groups == 0) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  else asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
DISC_DEVICE void disc_tensor_group_settle(float* sums) {
  asm volatile("" : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) :: "memory");
}
#else
DISC_DEVICE void disc_tensor_group_fence() {}
DISC_DEVICE void disc_tensor_group_begin() { __trap(); }
DISC_DEVICE void disc_tensor_group_commit() {}
DISC_DEVICE void disc_tensor_group_wait(int32_t) {}
DISC_DEVICE void disc_tensor_group_settle(float*) {}
#endif
#endif
"""


def group_text(body: str) -> str:
    """Return the definitions of the warpgroup functions that a text calls, or an empty string."""
    found = sorted({m.groups() for m in _GROUP.finditer(body)})
    if not found:
        return ""
    return "\n".join([_DESCRIPTOR, *(_multiply(d, int(n), a, b) for d, n, a, b in found)])


def _multiply(dtype: str, columns: int, a: str, b: str) -> str:
    """Return the function that adds a product of 64 x 16 and 16 x columns to a thread's sums."""
    count = columns // 2
    sums = ", ".join(f"%{k}" for k in range(count))
    given = ", ".join(f'"+f"(sums[{k}])' for k in range(count))
    kind = _KINDS[dtype]
    name = f"disc_tensor_group_multiply_{dtype}_{columns}_{a}{b}"
    return f"""
#ifdef __CUDACC_RTC__
DISC_DEVICE void {name}(float* sums, uint32_t a, uint32_t b) {{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} "
      "{{{sums}}}, %{count}, %{count + 1}, 1, 1, 1, {a}, {b};"
      : {given} : "l"(disc_tensor_group_place(a)), "l"(disc_tensor_group_place(b)));
#endif
}}
#else
DISC_GROUP_MULTIPLY({name}, {dtype}, {columns}, {a}, {b})
#endif
"""


TEXT = r"""
#ifdef __CUDACC_RTC__
DISC_DEVICE uint32_t disc_tensor_address(const void* at) {
  uint32_t found;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(found) : "l"(at));
  return found;
}
DISC_DEVICE void disc_tensor_copy(uint32_t to, const void* from, int32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
DISC_DEVICE void disc_tensor_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
DISC_DEVICE void disc_tensor_wait(int32_t groups) {
  if (groups == 0) asm volatile("cp.async.wait_group 0;" ::: "memory");
  else if (groups == 1) asm volatile("cp.async.wait_group 1;" ::: "memory");
  else if (groups == 2) asm volatile("cp.async.wait_group 2;" ::: "memory");
  else asm volatile("cp.async.wait_group 3;" ::: "memory");
}
DISC_DEVICE void disc_tensor_load(uint32_t* to, uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
DISC_DEVICE void disc_tensor_load_transposed(uint32_t* to, uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
DISC_DEVICE void disc_tensor_round(uint32_t* words) {
#pragma unroll
  for (int k = 0; k < 4; ++k) asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(words[k]));
}
DISC_DEVICE void disc_tensor_put(uint32_t at, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x), "f"(y) : "memory");
}
DISC_DEVICE void disc_tensor_get(float* to, uint32_t at) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(at) : "memory");
}
DISC_DEVICE void disc_tensor_get_one(float* to, uint32_t at) {
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(to[0]) : "r"(at) : "memory");
}
DISC_DEVICE void disc_tensor_meet() { __syncwarp(); }
#define DISC_TENSOR_MULTIPLY(NAME, SHAPE, TYPE) \
DISC_DEVICE void NAME(float* sums, const uint32_t* a, const uint32_t* b) { \
  asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 " \
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); }
DISC_TENSOR_MULTIPLY(disc_tensor_multiply_bfloat16, "m16n8k16", "bf16")
DISC_TENSOR_MULTIPLY(disc_tensor_multiply_float16, "m16n8k16", "f16")
DISC_TENSOR_MULTIPLY(disc_tensor_multiply_float32, "m16n8k8", "tf32")
#endif
"""

__all__ = ["PREFIX", "TEXT", "group_text"]
