"""Layout of the state that the threads of a process share.

The *home* is allocated by the first program of a process and never freed. It contains the pool, a
separate region that the system zeroes in the child of a fork, so that the child starts without
workers.

A slot is one launch. Its ticket contains ``generation, next part, parts`` (32, 16, 16 bits); parts
are claimed by updates of this word only. A slot becomes free when all its parts are done.
Generations do not repeat, so a late worker finds nothing to claim, and accesses no other memory.
"""

from __future__ import annotations

# registered name of the home; versions with different layouts have different names
NAME = "tvm_disc.threads.2"

# The home: code of workers and of launches, and the owning process if the system does not zero the
# pool.
WORKER, PROCESS, LAUNCH_CODE = 0, 1, 2
# pages have up to 64 KiB
PAGE_BYTES = 1 << 16
HOME_BYTES = 2 * PAGE_BYTES

# The pool. Words with different writers are on different cache lines.
READY, WORKERS, CORES, QUOTA = 0, 1, 2, 3
MASK = 8  # cores of the last caller that checked, MASK_WORDS words
MASK_WORDS = 16  # size of the C library's cpu_set_t
SIGNAL = 24  # counts launches; idle workers poll it
SPINNING, PARKED = 32, 33  # workers that poll SIGNAL, and workers that sleep
ACTIVE = 40  # active calls of programs
STARTED = 41  # workers that have a record
BLIND = 42  # set if the system does not report affinity
# Earliest time of the next wake, and the pause after it; the time until which launches run alone;
# in nanoseconds. The factor of the next such duration.
NEXT_WAKE, WAKE_PAUSE, ALONE_UNTIL, FACTOR, LAUNCHES = 48, 49, 50, 51, 52
# Cost of the last wake for its caller, the time that workers saved since then, and the time that
# they saved since a part was last held up; in nanoseconds.
WAKE_COST, GAIN, SAVED = 53, 54, 55
# Counters of launches: with parts run by workers, delayed by a worker, that woke workers.
HELPED, HELD_UP, WOKEN = 56, 57, 58
SLOTS = 64
SLOT_COUNT, SLOT_WORDS = 16, 16
TICKET, BODY, CLOSURE, CORE = 0, 1, 2, 3
BUSY, DONE, WAITING = 8, 9, 10
# Records of workers: the thread's number, and a futex word that is set while it sleeps.
RECORDS = SLOTS + SLOT_COUNT * SLOT_WORDS
RECORD_COUNT, RECORD_WORDS = 256, 8
THREAD, ASLEEP = 0, 1

MAKING, MADE = 1, 2
MOST_PARTS = (1 << 16) - 1
