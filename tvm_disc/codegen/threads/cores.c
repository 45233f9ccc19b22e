/* Functions on the cores that a thread may use; they move a worker off its caller's core.
 *
 * Linux may wake a sleeping worker on its caller's core although other cores are idle: an idle
 * virtual core looks as if the hypervisor had descheduled it. Caller and worker then alternate on
 * one core until the next scheduler tick or longer. Permanent pinning does not help, because the
 * caller migrates. Here the caller excludes its own core from the worker's affinity mask just
 * before it wakes the worker; the worker restores the full mask once it runs. A worker that finds
 * itself on its caller's core does the same for itself.
 *
 * Programs contain this code as LLVM IR (cores.ll), written by
 * `python -m tests.codegen.c_code --write`. The macros BLIND, CORES, MASK, MASK_WORDS and
 * QUOTA are the words of tvm_disc/abi/threads.py. Addresses are passed as integers, as in TIR.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef _Atomic int64_t Word;

static int64_t load(int64_t pool, int number) { return atomic_load((Word *)pool + number); }

static void store(int64_t pool, int number, int64_t value) {
  atomic_store_explicit((Word *)pool + number, value, memory_order_release);
}

/* Record the affinity mask of this thread, and its number of cores, limited by the quota. */
int64_t disc_look_at_cores(int64_t pool) {
  int64_t mine[MASK_WORDS] = {0}, count = 0;
  if (sched_getaffinity(0, sizeof mine, (cpu_set_t *)mine) >= 0)
    for (int k = 0; k < MASK_WORDS; k++) {
      store(pool, MASK + k, mine[k]);
      count += __builtin_popcountll(mine[k]);
    }
  int64_t quota = load(pool, QUOTA);
  if (quota > 0 && quota < count)
    count = quota;
  store(pool, CORES, count > 1 ? count : 1);
  return 0;
}

/* Exclude `core` from the affinity mask of a thread; 0 is this thread. Return 1 if no other core
 * is left. */
int64_t disc_leave_core(int64_t pool, int32_t thread, int32_t core) {
  if (core < 0 || core >= 64 * MASK_WORDS)
    return 0;
  int64_t bit = (int64_t)(UINT64_C(1) << core % 64);
  if (!(load(pool, MASK + core / 64) & bit))
    return 0;
  int64_t others[MASK_WORDS], some = 0;
  for (int k = 0; k < MASK_WORDS; k++) {
    others[k] = load(pool, MASK + k) & (k == core / 64 ? ~bit : -1);
    some |= others[k];
  }
  if (!some)
    return 1;
  sched_setaffinity(thread, sizeof others, (cpu_set_t *)others);
  return 0;
}

/* Set the affinity mask of this thread to the recorded mask of the callers. */
int64_t disc_settle(int64_t pool) {
  int64_t cores[MASK_WORDS];
  for (int k = 0; k < MASK_WORDS; k++)
    cores[k] = load(pool, MASK + k);
  sched_setaffinity(0, sizeof cores, (cpu_set_t *)cores);
  return 0;
}

/* Move this thread if it runs on `core`. Return 1 if it cannot move. If the core number does not
 * change (some sandboxes report the same number to all threads), cores are never checked again. */
int64_t disc_step_aside(int64_t pool, int32_t core) {
  if (sched_getcpu() != core || load(pool, BLIND))
    return 0;
  if (disc_leave_core(pool, 0, core))
    return 1;
  if (sched_getcpu() == core)
    store(pool, BLIND, 1);
  return disc_settle(pool);
}

/* Exclude the current core from the affinity mask of a sleeping worker. */
int64_t disc_send_away(int64_t pool, int64_t thread) {
  return load(pool, BLIND) ? 0 : disc_leave_core(pool, (int32_t)thread, sched_getcpu());
}

/* Restore the affinity mask of a worker that was moved. */
int64_t disc_settle_worker(int64_t pool) { return load(pool, BLIND) ? 0 : disc_settle(pool); }

/* Read integers from a file; text that is not a number, such as `max`, is read as 0. */
static void read_numbers(const char *path, int64_t *numbers, int count) {
  char text[64] = {0}, *at = text;
  int file = open(path, O_RDONLY);
  if (file < 0)
    return;
  if (read(file, text, sizeof text - 1) > 0)
    for (int k = 0; k < count; k++)
      numbers[k] = strtoll(at, &at, 10);
  close(file);
}

/* Record the number of cores that the CPU quota of the container allows; 0 means no limit. cgroups
 * version 2, or version 1, reports the quota and its period in microseconds. */
int64_t disc_read_quota(int64_t pool) {
  int64_t numbers[2] = {0, 0};
  read_numbers("/sys/fs/cgroup/cpu.max", numbers, 2);
  if (!numbers[1]) {
    read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", numbers, 1);
    read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", numbers + 1, 1);
  }
  if (numbers[0] > 0 && numbers[1] > 0)
    store(pool, QUOTA, (numbers[0] + numbers[1] - 1) / numbers[1]);
  return 0;
}
