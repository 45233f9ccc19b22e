"""Names and layouts of the GPU functions that a host program calls; ``codegen/cuda`` defines them.

They are here so that programs without a GPU need no module of ``codegen/cuda``.
"""

from __future__ import annotations

from tvm.ir import GlobalVar

DEVICE_NUMBER = 0
OPEN = GlobalVar("tvm_disc_open")
COPY, READ, WAIT = (GlobalVar(f"tvm_disc_device_{n}") for n in ("copy", "read", "wait"))
GRAPH_BEGIN, GRAPH_END, LEAVE, TAKE_FOR, GIVE_FOR = (
    GlobalVar(f"tvm_disc_graph_{n}") for n in ("begin", "end", "leave", "take", "give")
)
EVENTS_BEGIN, EVENTS_END = (GlobalVar(f"tvm_disc_events_{n}") for n in ("begin", "end"))
EVENT_WORDS = 2
# The record of a call: the state, whether something failed, its graph or 0, the position in the
# graph's tape, and whether cuBLASLt computed the last matmul.
STATE, FAILED, GRAPH, CURSOR, TAKEN = range(5)
RECORD_WORDS = 5
