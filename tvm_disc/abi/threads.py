"""The words that the threads of a process share.

The *home* is made by the first program of a process and never freed. Its pool, a region apart, is
zeroed in the child of a fork by the system, so that the child begins without workers.

A slot is a launch: its ticket holds ``generation, next part, parts`` (32, 16, 16 bits) and is the
only word by which parts are claimed. A slot is free again when all its parts are done, and a
generation never comes back, so that a worker that was late finds nothing to claim, and touches
nothing but these words.
"""

from __future__ import annotations

# What the home is registered as; programs whose words here differ must not meet.
NAME = "tvm_disc.threads.1"

# The home: the code of workers and of launches, and the process whose workers these are where the
# system does not zero the pool.
WORKER, PROCESS, LAUNCH_CODE = 0, 1, 2
# Pages have up to 64 KiB.
PAGE_BYTES = 1 << 16
HOME_BYTES = 2 * PAGE_BYTES

# The pool. Words that are written apart have cache lines of their own.
READY, WORKERS, CORES, QUOTA = 0, 1, 2, 3
MASK = 8  # the cores of the caller that looked last, MASK_WORDS words
MASK_WORDS = 16  # as the C library's cpu_set_t
SIGNAL = 24  # counts launches; idle workers look for it to change
SPINNING, PARKED = 32, 33  # workers that look at SIGNAL, and that sleep
ACTIVE = 40  # calls of programs
STARTED = 41  # workers that have a record
BLIND = 42  # the system does not tell cores apart
# When workers may be woken again, and how long after that; until when nobody is asked for help, and
# for how long the next time; nanoseconds.
NEXT_WAKE, WAKE_PAUSE, ALONE_UNTIL, ALONE_NS, LAUNCHES = 48, 49, 50, 51, 52
# What the last wake cost its caller, and what help has brought since; nanoseconds.
WAKE_COST, GAIN = 53, 54
# Launches that workers had parts of, that one held up, that woke some.
HELPED, HELD_UP, WOKEN = 56, 57, 58
SLOTS = 64
SLOT_COUNT, SLOT_WORDS = 16, 16
TICKET, BODY, CLOSURE, CORE = 0, 1, 2, 3
BUSY, DONE, WAITING = 8, 9, 10
# Records of workers: the number of the thread, and whether it sleeps, on this word.
RECORDS = SLOTS + SLOT_COUNT * SLOT_WORDS
RECORD_COUNT, RECORD_WORDS = 256, 8
THREAD, ASLEEP = 0, 1

MAKING, MADE = 1, 2
MOST_PARTS = (1 << 16) - 1
