"""Calls of tensor core instructions and asynchronous copies, which ``codegen/cuda/tensor.py``
defines.

Addresses in shared memory are 32-bit integers. All 32 threads of a warp execute a warp instruction
together.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.vector import address
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Buffer, Expr

ADDRESS = "uint32"
CHUNK_BYTES = (
    16  # bytes of an asynchronous copy, and of a row of an 8 x 8 matrix of 16-bit elements
)
FRAGMENT = 4  # 32-bit words per thread that one load writes


def i32(value: int) -> Expr:
    """Return a literal for arithmetic with thread numbers and shared addresses."""
    return tirx.IntImm("int32", value)


def word(value: Expr | int) -> Expr:
    """Return a value converted to the type of shared addresses."""
    return tirx.IntImm(ADDRESS, value) if isinstance(value, int) else tirx.Cast(ADDRESS, value)


class Instructions:
    """Emits the instructions into a block of statements."""

    def __init__(self, block: DeviceBlock) -> None:
        self.block = block

    def address(self, name: str, room: Buffer) -> Expr:
        """Bind and return the address of an array in shared memory."""
        found = tirx.call_extern(ADDRESS, "disc_tensor_address", address(room, i64(0)))
        return self.block.bind(name, found)

    def copy(self, to: Expr, source: Buffer, at: Expr, inside: Expr) -> None:
        """Start a copy of 16 bytes from ``source[at]``, or of zeros if ``inside`` is false."""
        bytes_ = tirx.Select(inside, i32(CHUNK_BYTES), i32(0))
        self._call("copy", to, address(source, at), bytes_)

    def commit(self) -> None:
        """End a group of copies: those that this thread has started since the previous call."""
        self._call("commit")

    def wait(self, groups: int) -> None:
        """Wait until at most ``groups`` of this thread's groups of copies are incomplete."""
        self._call("wait", i32(groups))

    def load(self, to: Buffer, begin: Expr, at: Expr, transposed: bool) -> None:
        """Load four 8 x 8 matrices of 16-bit elements; ``at`` is each thread's row address."""
        self._call("load_transposed" if transposed else "load", address(to, begin), at)

    def round(self, words: Buffer, begin: Expr) -> None:
        """Round four words from float32 to TF32."""
        self._call("round", address(words, begin))

    def multiply(
        self, dtype: str, sums: Buffer, s: Expr, a: tuple[Buffer, Expr], b: tuple[Buffer, Expr]
    ) -> None:
        """Add the product of a 16 x K and a K x 8 matrix to sums; K elements take 32 bytes."""
        self._call(f"multiply_{dtype}", address(sums, s), address(*a), address(*b))

    def put(self, at: Expr, first: Expr, second: Expr) -> None:
        """Store two adjacent float32 to shared memory."""
        self._call("put", at, first, second)

    def get(self, to: Buffer, at: Expr, count: int) -> None:
        """Load adjacent float32 from shared memory: one, or a multiple of four."""
        for k in range(0, count, 4):
            self._call("get" if count > 1 else "get_one", address(to, i64(k)), at + word(4 * k))

    # -- instructions of a warpgroup: its 128 threads execute them together ------------------------

    def room(self, name: str) -> Expr:
        """Return the address of the kernel's dynamic shared memory, aligned to 1024 bytes."""
        found = tirx.call_extern(ADDRESS, "disc_tensor_room")
        return self.block.bind(name, found)

    def group_fence(self) -> None:
        """Make this thread's completed copies visible to the products of warpgroups."""
        self._call("group_fence")

    def group_begin(self) -> None:
        """Order earlier accesses to the sums before the following products."""
        self._call("group_begin")

    def group_multiply(self, kind: str, sums: Buffer, a: Expr, b: Expr) -> None:
        """Start adding the product of a 64 x 16 and a 16 x N matrix to sums.

        ``kind`` consists of the dtype, N, and for A and B whether they are not contiguous along k.
        """
        self._call(f"group_multiply_{kind}", address(sums, i64(0)), a, b)

    def group_commit(self) -> None:
        """End a group of products: those that were started since the previous call."""
        self._call("group_commit")

    def group_wait(self, groups: int) -> None:
        """Wait until at most ``groups`` groups of products are incomplete."""
        self._call("group_wait", i32(groups))

    def group_settle(self, sums: Buffer, s: int) -> None:
        """Keep the compiler from moving reads of four sums before the last wait."""
        self._call("group_settle", address(sums, i64(s)))

    def meet(self) -> None:
        """Emit a barrier of the warp."""
        self._call("meet")

    def _call(self, name: str, *args: Expr) -> None:
        self.block.eval(tirx.call_extern("void", f"disc_tensor_{name}", *args))


__all__ = ["ADDRESS", "CHUNK_BYTES", "FRAGMENT", "Instructions", "i32", "word"]
