"""CUDA C of the functions that ``schedules/cuda/tensor/instructions.py`` calls.

They are PTX instructions of compute capability 8.0, of a thread or of a warp. An address in shared
memory is an integer of 32 bits. The text is added only to code that calls one of the functions.
"""

from __future__ import annotations

PREFIX = "disc_tensor_"
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

__all__ = ["PREFIX", "TEXT"]
