"""Layout of the state that the threads of a process share.

The *home* is allocated by the first program of a process and never freed. It contains the pool, a
separate region that the system zeroes in the child of a fork, so that the child starts without
workers.

A slot holds one launch. Its ticket is a word of ``generation, next part, parts`` (32, 16, 16 bits).
A thread claims a part by an atomic update of this word only. A slot becomes free when all its parts
are done. A generation repeats only after 2^32 launches, so the claim of a late worker fails, and
the worker does not use the other words of the slot.
"""

from __future__ import annotations

# Name under which the home is registered. Change it whenever the layout changes: a process may
# load programs of several versions.
NAME = "tvm_disc.threads.2"

# Words of the home: the code of workers, the process that owns the pool (used only if the system
# does not zero the pool after a fork), and the code of launches.
WORKER, PROCESS, LAUNCH_CODE = 0, 1, 2
# alignment of the pool: pages have up to 64 KiB
PAGE_BYTES = 1 << 16
HOME_BYTES = 2 * PAGE_BYTES

# The pool. Words with different writers are on different cache lines.
READY, WORKERS, CORES, QUOTA = 0, 1, 2, 3
MASK = 8  # affinity mask of the last caller that checked it, MASK_WORDS words
MASK_WORDS = 16  # size of the C library's cpu_set_t
SIGNAL = 24  # counts launches; idle workers poll it
SPINNING, PARKED = 32, 33  # workers that poll SIGNAL, and workers that sleep
ACTIVE = 40  # active calls of programs
STARTED = 41  # number of workers that have a record
BLIND = 42  # set if the system does not report affinity
# In nanoseconds: earliest time of the next wake, the pause before it, and the time until which
# launches use only the calling thread; then the factor of the latest such duration, and the number
# of launches.
NEXT_WAKE, WAKE_PAUSE, ALONE_UNTIL, FACTOR, LAUNCHES = 48, 49, 50, 51, 52
# In nanoseconds: time that the last wake took in its caller, time that workers saved since then,
# and time that they saved since a worker last delayed a launch.
WAKE_COST, GAIN, SAVED = 53, 54, 55
# Counters: launches with parts run by workers, launches delayed by a worker, launches that woke
# workers.
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
