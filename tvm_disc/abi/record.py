"""Layout of the record that a timed call writes."""

from __future__ import annotations

# In 64-bit words: number of events, capacity, start of the current event; events begin at EVENTS.
COUNT, ROOM, EVENTS = 0, 1, 8
# An event: kernel number, or -1 for the whole call; variant; nanoseconds; work.
FIELDS = ("kernel", "variant", "start", "end", "bytes", "flops")
WHOLE_CALL = -1
