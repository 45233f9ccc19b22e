"""The words of a program's state: its constants, memory that is kept, and its limits."""

from __future__ import annotations

# In 64-bit words.
CONSTANTS, FREE, LIMIT, KEPT, REQUESTS, MISSES, MUTEX, BLOCKS = 0, 1, 2, 3, 4, 5, 8, 24
MUTEX_WORDS = 8
# Threads that a kernel may use.
THREADS = 6
# Where the workers of the process have their state (``abi.threads``), or 0.
HOME = 7
KEPT_BLOCKS = 16
# Results: bytes of them that are kept at most and now, and the one that is to go next.
RESULT_LIMIT, RESULTS, NEXT_RESULT = 21, 22, 23
RESULT_ENTRIES = BLOCKS + 2 * KEPT_BLOCKS
KEPT_RESULTS = 16
STATE_WORDS = RESULT_ENTRIES + 2 * KEPT_RESULTS
