"""The random number generator Threefry-4x64 as in Relay: splittable, and without the final key
injection.

A state has ten words: four of a key, two of a path, two of a counter (only the second one is used),
and two with a single bit set at the end of the path.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import const, i64
from tvm_disc.typing import Buffer, Expr

U64 = "uint64"
WORDS, ROUNDS = 4, 20
PARITY = 0x1BD11BDAA9FC1A22
ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
BLOCK_COST = 128


def _u(value: int) -> Expr:
    return const(value, U64)


def _ones() -> Expr:
    return tirx.bitwise_not(_u(0))


def _bit(k: int) -> Expr:
    return tirx.shift_left(_u(1), _u(k))


def plan_threefry(node: Node) -> Plan:
    """Return the plan of a mode: random ``bits``, or one of three new states.

    The states are the one ``after`` the generation of bits, and the ``left`` and ``right`` results
    of a split.
    """
    if node.attrs["mode"] != "bits":
        return Plan(i64(1), i64(BLOCK_COST), lambda body: _State(body, node).emit())
    blocks = tirx.floordiv(node.shape[0] + (WORDS - 1), i64(WORDS))

    def emit(body: Body) -> None:
        state = _State(body, node)
        state.next()
        with body.low.loop("b", body.hi - body.lo, begin=body.lo) as b:
            state.block_of_bits(b)

    return Plan(blocks, blocks * BLOCK_COST, emit)


class _State:
    """A state in stack cells.

    As expressions, the twenty rounds would form one very large expression.
    """

    def __init__(self, body: Body, node: Node) -> None:
        self.body, self.low, self.block, self.node = body, body.low, body.block, node
        self.count = self._count()
        self.words = self.block.alloc("state", 10, U64)
        self.hash = self.block.alloc("hash", WORDS, U64)
        self.key = self.block.alloc("key", WORDS + 1, U64)
        given = [self.low.settle("g", self.low.at(node.inputs[0], [i64(k)])) for k in range(10)]
        for k, word in enumerate(given):
            self.block.store(self.words, k, word)

    def _count(self) -> Expr:
        """Return the number of random numbers, which may be known only at run time (an operand)."""
        known = int(self.node.attrs["count"])
        return (
            i64(known) if known >= 0 else self.low.settle("n", self.low.at(self.node.inputs[1], []))
        )

    def _get(self, buffer: Buffer, k: int) -> Expr:
        return buffer[i64(k)]

    def emit(self) -> None:
        """Emit the computation and the stores of the mode's state."""
        mode, block = self.node.attrs["mode"], self.block
        if mode == "after":
            self.next()
            block.store(self.words, 6, _u(0))
            whole = tirx.floordiv(self.count + (WORDS - 1), i64(WORDS)) * WORDS
            block.store(self.words, 7, self._get(self.words, 7) + tirx.Cast(U64, whole))
        else:
            self._split(mode == "right")
        for k in range(10):
            self.low.store(self.body.outputs[0], i64(k), self._get(self.words, k), U64)

    def next(self) -> None:
        """Emit the change to a new path or key, for the case that the counter would overflow."""
        block, w = self.block, self.words
        with block.when(self._get(w, 7) >= _ones() - tirx.Cast(U64, self.count)):
            with block.when(self._no_path_left()):
                self._rehash([_ones()] * WORDS)
                self._set({4: _u(0), 5: _u(0), 6: _u(0), 7: _u(0), 8: _bit(63), 9: _u(0)})
            with block.otherwise():
                self._walk()
                self._set({6: _u(0), 7: _u(0)})
                self._shift()

    def _no_path_left(self) -> Expr:
        """Return whether the path is full: 64 bits, since Relay tests only the first word."""
        return tirx.EQ(self._get(self.words, 8), _u(0))

    def _set(self, values: dict[int, Expr]) -> None:
        for k, value in values.items():
            self.block.store(self.words, k, value)

    def _walk(self) -> None:
        """Emit code that sets the bit at the end of the path."""
        w = self.words
        for k in (4, 5):
            self.block.store(w, k, tirx.bitwise_or(self._get(w, k), self._get(w, k + 4)))

    def _shift(self) -> None:
        """Emit the shift of the path's end by one bit; if it enters the second word, the path is
        full.
        """
        block, w = self.block, self.words
        with block.when(tirx.EQ(self._get(w, 8), _u(1))):
            self._set({8: _u(0), 9: _bit(63)})
        with block.otherwise():
            self._set({8: tirx.shift_right(self._get(w, 8), _u(1)), 9: _u(0)})

    def _rehash(self, counter: list[Expr]) -> None:
        """Emit the replacement of the key by the hash of a counter."""
        self._encrypt(counter)
        for k in range(WORDS):
            self.block.store(self.words, k, self._get(self.hash, k))

    def _split(self, right: bool) -> None:
        block, w = self.block, self.words
        with block.when(self._no_path_left()):
            self._rehash([self._get(w, 4 + k) for k in range(WORDS)])
            first = _bit(63) if right else _u(0)
            self._set({4: first, 5: _u(0), 6: _u(0), 7: _u(0), 8: _bit(62), 9: _u(0)})
        with block.otherwise():
            if right:
                self._walk()
            self._shift()

    def block_of_bits(self, b: Expr) -> None:
        """Emit four random numbers; an incomplete last block uses another counter."""
        block, low = self.block, self.low
        whole = tirx.floordiv(self.count, i64(WORDS))
        step = block.bind("step", tirx.Cast(U64, b))
        counter: list[Expr] = []
        for k in range(WORDS):
            plain = self._get(self.words, 4 + k)
            last = plain + tirx.Cast(U64, whole * WORDS) if k == WORDS - 1 else plain
            counter.append(tirx.Select(b < whole, plain + step, last))
        self._encrypt(counter)
        for k in range(WORDS):
            with block.when(b * WORDS + k < self.count), low.scope():
                low.store(self.body.outputs[0], b * WORDS + k, self._get(self.hash, k), U64)

    def _encrypt(self, counter: list[Expr]) -> None:
        """Emit the encryption of a counter with the key; the result is in ``hash``."""
        block, cells, key = self.block, self.hash, self.key
        parity = _u(PARITY)
        for k in range(WORDS):
            word = self._get(self.words, k)
            block.store(key, k, word)
            parity = tirx.bitwise_xor(parity, word)
        block.store(key, WORDS, parity)
        for k, word in enumerate(counter):
            block.store(cells, k, word)
        at = list(range(WORDS))  # at[k] is the cell that holds word k
        for group in range(ROUNDS // 4):
            for k in range(WORDS):
                add = self._get(key, (group + k) % (WORDS + 1))
                add = add + _u(group) if k == WORDS - 1 else add
                block.store(cells, at[k], self._get(cells, at[k]) + add)
            for r in range(4):
                for pair, turn in enumerate(ROTATIONS[(group * 4 + r) % 8]):
                    self._mix(at[2 * pair], at[2 * pair + 1], turn)
                at = [at[k] for k in (0, 3, 2, 1)]
        final = [block.bind("f", self._get(cells, at[k])) for k in range(WORDS)]
        for k, word in enumerate(final):
            block.store(cells, k, word)

    def _mix(self, a: int, b: int, turn: int) -> None:
        """Emit a mix step; as in Relay's kernel, ``b`` is mixed with the new value of ``a``."""
        block, cells = self.block, self.hash
        block.store(cells, a, self._get(cells, a) + self._get(cells, b))
        x, y = self._get(cells, a), self._get(cells, b)
        turned = tirx.bitwise_or(tirx.shift_left(y, _u(turn)), tirx.shift_right(y, _u(64 - turn)))
        block.store(cells, b, tirx.bitwise_xor(x + y, turned))
