// CUDA's words for a C++ compiler: the threads of a block take turns, from barrier to barrier.
//
// A block runs alone, so what its threads share is static. Shared memory holds NaN before a block
// writes it. A thread that ends while others wait at a barrier ends the process with a message. The
// instructions of a warp, and asynchronous copies, are in tensor.h.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <vector>
#include <sys/mman.h>

#define alignas(x) __attribute__((aligned(x)))
#define __global__
#define __launch_bounds__(x)
#define __restrict__
#define __shared__ static __attribute__((section("emulated_shared")))
#define DISC_DEVICE static inline
struct Dim { int x, y, z; };
static Dim threadIdx, blockIdx;
// An access that does not begin at a multiple of its size is a fault, as on a GPU.
#define WIDE(name, T, n) struct __attribute__((aligned(sizeof(T) * n), may_alias)) name { T at[n]; }
WIDE(float2, float, 2); WIDE(float4, float, 4); WIDE(double2, double, 2);
WIDE(int2, int, 2); WIDE(int4, int, 4); WIDE(uint2, unsigned, 2); WIDE(uint4, unsigned, 4);
WIDE(longlong2, long long, 2); WIDE(ulonglong2, unsigned long long, 2);
WIDE(char2, signed char, 2); WIDE(uchar2, unsigned char, 2); WIDE(uchar4, unsigned char, 4);
WIDE(short2, short, 2); WIDE(short4, short, 4); WIDE(ushort2, unsigned short, 2);
WIDE(ushort4, unsigned short, 4);
struct half {
  _Float16 value;
  half() {}
  half(float x) : value((_Float16)x) {}
  operator float() const { return (float)value; }
};
static inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
// These are not fused with a product that they subtract from.
static inline float __fsub_rn(float x, float y) { __asm__("" : "+x"(x)); return x - y; }
static inline double __dsub_rn(double x, double y) { __asm__("" : "+x"(x)); return x - y; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static void disc_store_16(void* to, const void* from) {
  if ((uintptr_t)to % 16) abort();
  memcpy(to, from, 16);
}
template <class T> static inline T max(T a, T b) { return a > b ? a : b; }
template <class T> static inline T min(T a, T b) { return a < b ? a : b; }

// A section exists only where something is in it.
__attribute__((section("emulated_shared"), used)) static char emulated_first[64];
extern char __start_emulated_shared[], __stop_emulated_shared[];

typedef void (*Run)(void** args);
static const size_t kStack = 64 << 10;
static void* stacks[1024];  // saved stack pointers
static char* memory;
static bool done[1024];
static void* scheduler;
static int current;
static Run running;
static void** given;

__attribute__((naked, noinline)) static void Switch(void** from, void** to) {
  __asm__ volatile(
      "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
      "mov %rsp, (%rdi)\n mov (%rsi), %rsp\n"
      "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
}
// What a thread waits for: its block, or the other threads of its warp.
enum { kReady, kBlock, kWarp };
static char waiting[1024];
static void Wait(char what) {
  waiting[current] = what;
  Switch(&stacks[current], &scheduler);
}
static void __syncthreads() { Wait(kBlock); }
static void Enter() {
  running(given);
  done[current] = true;
  Switch(&stacks[current], &scheduler);
  abort();
}
static bool unfenced[1024];  // threads with copies that no fence has followed
static void Prepare(int k) {
  unfenced[k] = false;
  void** top = (void**)(memory + (k + 1) * kStack - 64);
  *--top = nullptr;  // where a caller would be
  *--top = (void*)Enter;
  stacks[k] = top - 6;
  done[k] = false;
  waiting[k] = kReady;
}
static void Stop(const char* what, int count, int all) {
  fprintf(stderr, "emulator: %d of %d %s\n", count, all, what);
  abort();
}
// Whether all threads of a warp, from a first one on, wait for each other; then they are ready.
static bool Met(int first, char what) {
  for (int k = first; k < first + 32; ++k) {
    if (done[k] || waiting[k] != what) return false;
  }
  for (int k = first; k < first + 32; ++k) waiting[k] = kReady;
  return true;
}
static void Block(const std::vector<int>& order, bool barriers) {
  memset(__start_emulated_shared, 0xff, __stop_emulated_shared - __start_emulated_shared);
  int threads = order.size();
  if (!barriers) {
    for (int k : order) {
      threadIdx.x = k;
      running(given);
    }
    return;
  }
  for (int k = 0; k < threads; ++k) Prepare(k);
  for (int ended = 0; ended < threads;) {
    bool moved = false;
    for (int k : order) {
      if (done[k] || waiting[k] != kReady) continue;
      current = threadIdx.x = k;
      moved = true;
      Switch(&scheduler, &stacks[k]);
      ended += done[k];
      // A warp whose threads have all met goes on at once, ahead of other warps.
      if (waiting[k] == kWarp && Met(k / 32 * 32, kWarp)) break;
    }
    if (moved) continue;
    int stuck = 0, apart = 0;
    for (int k = 0; k < threads; ++k) {
      stuck += !done[k];
      apart += !done[k] && waiting[k] == kWarp;
      waiting[k] = kReady;
    }
    if (apart) Stop("threads of a warp wait for others that do not come", apart, threads);
    if (ended) Stop("threads wait at a barrier, others ended", stuck, threads);
  }
}
#include "tensor.h"
// order: 0 as numbered, 1 backwards, others are seeds.
extern "C" void emulated_launch(Run run, bool barriers, int blocks, int threads, void** args,
                                int order) {
  if (!memory) {
    memory = (char*)mmap(nullptr, 1024 * kStack, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  std::vector<int> numbers(threads), turns(blocks);
  for (int k = 0; k < threads; ++k) numbers[k] = k;
  for (int k = 0; k < blocks; ++k) turns[k] = k;
  if (order == 1) {
    std::reverse(numbers.begin(), numbers.end());
    std::reverse(turns.begin(), turns.end());
  } else if (order > 1) {
    unsigned state = order;
    auto next = [&](int n) { return (state = state * 1664525u + 1013904223u) / 65536 % n; };
    for (int k = threads; k > 1; --k) std::swap(numbers[k - 1], numbers[next(k)]);
    for (int k = blocks; k > 1; --k) std::swap(turns[k - 1], turns[next(k)]);
  }
  running = run;
  given = args;
  copies_are_late = order != 1;
  for (int b : turns) {
    blockIdx.x = b;
    room_end = 0;
    Block(numbers, barriers);
  }
}
