"""Layout of the record that a timed call writes."""

from __future__ import annotations

# Offsets in 64-bit words: the number of events, and the capacity; events begin at EVENTS.
COUNT, ROOM, EVENTS = 0, 1, 8
# An event: kernel number, or -1 for the whole call; variant; start and end in nanoseconds; bytes
# moved and operations.
FIELDS = ("kernel", "variant", "start", "end", "bytes", "flops")
WHOLE_CALL = -1
