/* Tests of cores.c under a sanitizer: threads change one pool at the same time. If a check fails, its
 * text is printed. With RACE the program contains a data race. */
#include "cores.c"

#include <pthread.h>
#include <stdio.h>

#define CHECK(condition)                                                                           \
  if (!(condition)) {                                                                              \
    fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                        \
    exit(1);                                                                                       \
  }

static Word words[64];
static int64_t pool = (int64_t)words;

static void *serve(void *unused) {
  for (int k = 0; k < 200; k++) {
    disc_look_at_cores(pool);
    disc_step_aside(pool, sched_getcpu());
    disc_send_away(pool, 0);
    disc_settle_worker(pool);
#ifdef RACE
    ((volatile int64_t *)words)[CORES] = k;
#endif
  }
  return unused;
}

int main(void) {
  int64_t before[MASK_WORDS] = {0}, after[MASK_WORDS] = {0};
  CHECK(sched_getaffinity(0, sizeof before, (cpu_set_t *)before) >= 0);
  int cores = CPU_COUNT_S(sizeof before, (cpu_set_t *)before);

  disc_look_at_cores(pool);
  CHECK(load(pool, CORES) == cores);
  for (int k = 0; k < MASK_WORDS; k++)
    CHECK(load(pool, MASK + k) == before[k]);
  store(pool, QUOTA, 1);
  disc_look_at_cores(pool);
  CHECK(load(pool, CORES) == 1);
  store(pool, QUOTA, 0);
  disc_read_quota(pool);
  CHECK(load(pool, QUOTA) >= 0);

  CHECK(disc_leave_core(pool, 0, -1) == 0);
  CHECK(disc_leave_core(pool, 0, 64 * MASK_WORDS) == 0);
  CHECK(disc_leave_core(pool, 0, 64 * MASK_WORDS - 1) == 0);
  int here = sched_getcpu();
  CHECK(disc_leave_core(pool, 0, here) == (cores == 1));
  disc_settle(pool);
  CHECK(sched_getaffinity(0, sizeof after, (cpu_set_t *)after) >= 0);
  for (int k = 0; k < MASK_WORDS; k++)
    CHECK(after[k] == before[k]);

  pthread_t threads[4];
  for (int k = 0; k < 4; k++)
    CHECK(pthread_create(threads + k, NULL, serve, NULL) == 0);
  for (int k = 0; k < 4; k++)
    CHECK(pthread_join(threads[k], NULL) == 0);
  return 0;
}
