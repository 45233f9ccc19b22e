"""What a timed call writes: the words of its record."""

from __future__ import annotations

# In 64-bit words: events so far, room for events, the running event's start, events.
COUNT, ROOM, EVENTS = 0, 1, 8
# An event: kernel number, or -1 for the whole call; variant; nanoseconds; work.
FIELDS = ("kernel", "variant", "start", "end", "bytes", "flops")
WHOLE_CALL = -1
