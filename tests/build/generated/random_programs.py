"""Random programs of control flow and data structures, compiled and interpreted.

python -m tests.build.generated.random_programs --count 200 --seed 0
"""

from __future__ import annotations

import argparse
import random
import sys

import numpy as np

import tvm_disc
from tests.build.interpreter import interpret
from tvm_disc import relay
from tvm_disc.options import Options

HEAD = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
type Shape { Empty, Row(Tensor[(?), float32]), Both(Shape, Shape), }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %r) => { Cons(%f(%x), @map(%f, %r)) }, Nil => { Nil } }
}
def @fold[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) { Cons(%x, %r) => { @fold(%f, %f(%acc, %x), %r) }, Nil => { %acc } }
}
def @count(%n: int32) -> List[int32] {
  if (less(%n, 1)) { Nil } else { Cons(%n, @count(subtract(%n, 1))) }
}
def @width(%s: Shape) -> int32 {
  match (%s) { Empty => { 0 }, Row(%x) => { shape_of(%x, dtype="int32") |> @first },
    Both(%a, %b) => { add(@width(%a), @width(%b)) } }
}
"""
HEAD = HEAD.replace('shape_of(%x, dtype="int32") |> @first', 'take(shape_of(%x, dtype="int32"), 0)')
INT, ROW, LIST, SHAPE = "int32", "Tensor[(?), float32]", "List[int32]", "Shape"
TYPES = (INT, ROW, LIST, SHAPE)


class Writer:
    """Writes one random program as text: every expression has one of ``TYPES``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.lines: list[str] = []

    def name(self) -> str:
        """A fresh variable."""
        self.count += 1
        return f"%v{self.count}"

    def program(self) -> str:
        """``main(n, x, l)``."""
        scope = {"%n": INT, "%x": ROW, "%l": LIST}
        body = self.expr(SHAPE, scope, 4)
        result = f"({self.expr(INT, scope, 4)}, {self.expr(ROW, scope, 3)}, {body})"
        return f"{HEAD}def @main(%n: int32, %x: {ROW}, %l: {LIST}) {{ {result} }}"

    def expr(self, ty: str, scope: dict[str, str], depth: int) -> str:
        """An expression of a type."""
        known = [v for v, t in scope.items() if t == ty]
        if depth == 0 or (known and self.random.random() < 0.15):
            return self.random.choice(known) if known else self.leaf(ty)
        kinds = [self.choice, self.let, self.matched, self.call, self.cell, self.plain, self.plain]
        return self.random.choice(kinds)(ty, scope, depth - 1)

    def leaf(self, ty: str) -> str:
        """A constant."""
        return {
            INT: str(self.random.randint(-3, 5)),
            ROW: 'full(1.5f, shape=[2], dtype="float32")',
            LIST: "Nil",
            SHAPE: "Empty",
        }[ty]

    def choice(self, ty: str, scope: dict[str, str], depth: int) -> str:
        """An if."""
        a, b = self.expr(INT, scope, depth), self.leaf(INT)
        then, other = self.expr(ty, scope, depth), self.expr(ty, scope, depth)
        return f"if (less({a}, {b})) {{ {then} }} else {{ {other} }}"

    def let(self, ty: str, scope: dict[str, str], depth: int) -> str:
        """A let in braces."""
        kind, v = self.random.choice(TYPES), self.name()
        value = self.expr(kind, scope, depth)
        return f"(let {v} = {value}; {self.expr(ty, {**scope, v: kind}, depth)})"

    def matched(self, ty: str, scope: dict[str, str], depth: int) -> str:
        """A match on a list or a shape."""
        if self.random.random() < 0.5:
            h, t = self.name(), self.name()
            data = self.expr(LIST, scope, depth)
            some = self.expr(ty, {**scope, h: INT, t: LIST}, depth)
            none = self.expr(ty, scope, depth)
            return f"match ({data}) {{ Cons({h}, {t}) => {{ {some} }}, Nil => {{ {none} }} }}"
        x, a = self.name(), self.name()
        data = self.expr(SHAPE, scope, depth)
        row = self.expr(ty, {**scope, x: ROW}, depth)
        both = self.expr(ty, {**scope, a: SHAPE}, depth)
        rest = self.expr(ty, scope, depth)
        clauses = f"Row({x}) => {{ {row} }}, Both({a}, Empty) => {{ {both} }}, _ => {{ {rest} }}"
        return f"match ({data}) {{ {clauses} }}"

    def call(self, ty: str, scope: dict[str, str], depth: int) -> str:
        """A local function called twice, or one chosen at run time."""
        x = self.name()
        inner = {**scope, x: ty}
        first, start = self.expr(ty, inner, depth), self.expr(ty, scope, depth)
        one = f"fn ({x}: {ty}) -> {ty} {{ {first} }}"
        if self.random.random() < 0.5:
            f = self.name()
            return f"(let {f} = {one}; {f}({f}({start})))"
        y, f = self.name(), self.name()
        second = f"fn ({y}: {ty}) -> {ty} {{ {self.expr(ty, {**scope, y: ty}, depth)} }}"
        cond = f"less({self.expr(INT, scope, depth)}, 1)"
        return f"(let {f} = if ({cond}) {{ {one} }} else {{ {second} }}; {f}({start}))"

    def cell(self, ty: str, scope: dict[str, str], depth: int) -> str:
        """A reference written once or twice."""
        r, w = self.name(), self.name()
        first, second = self.expr(ty, scope, depth), self.expr(ty, scope, depth)
        return f"(let {r} = ref({first}); let {w} = ref_write({r}, {second}); ref_read({r}))"

    def plain(self, ty: str, scope: dict[str, str], depth: int) -> str:
        """An operator, a constructor or a function of the module."""
        e = lambda t: self.expr(t, scope, depth)  # noqa: E731
        if ty == INT:
            x, y = self.name(), self.name()
            total = f"fn ({x}: int32, {y}: int32) {{ add({x}, {y}) }}"
            options = [
                f"add({e(INT)}, {e(INT)})",
                f"minimum({e(INT)}, 9)",
                f"@width({e(SHAPE)})",
                f"@fold({total}, {e(INT)}, {e(LIST)})",
            ]
        elif ty == ROW:
            options = [f"multiply({e(ROW)}, 0.5f)", f"concatenate(({e(ROW)}, {e(ROW)}))"]
        elif ty == LIST:
            x = self.name()
            body = self.expr(INT, {**scope, x: INT}, min(depth, 1))
            options = [
                f"Cons({e(INT)}, {e(LIST)})",
                f"@count(minimum({e(INT)}, 6))",
                f"@map(fn ({x}: int32) -> int32 {{ {body} }}, {e(LIST)})",
            ]
        else:
            options = [f"Row({e(ROW)})", f"Both({e(SHAPE)}, {e(SHAPE)})"]
        return self.random.choice(options)


def inputs(case: int) -> tuple[object, ...]:
    """Arguments of ``main``."""
    items = [np.array(3 * k % 7 - 2, "int32") for k in range(case)]
    return np.array(case - 2, "int32"), np.arange(case, dtype="float32"), relay.from_list(items)


def failure(seed: int) -> str | None:
    """What is wrong with the program of ``seed``, None if nothing is."""
    text = Writer(seed).program()
    mod = relay.parse(text)
    exe = tvm_disc.build(mod, options=Options(verify=True))
    for case in (0, 1, 2, 3, 5):
        found, wanted = exe(*inputs(case)), interpret(mod, *inputs(case))
        if not all(_same(a, b) for a, b in zip(found, wanted, strict=True)):
            return f"seed {seed}, case {case}: {found}, expected {wanted}\n{text}"
    return None


def _same(found: object, wanted: object) -> bool:
    if isinstance(wanted, relay.ConstructorValue):
        return found == wanted
    return bool(np.array_equal(np.asarray(found), np.asarray(wanted)))


def main() -> int:
    """Try many seeds; 1 if one fails."""
    args = argparse.ArgumentParser()
    args.add_argument("--count", type=int, default=50)
    args.add_argument("--seed", type=int, default=0)
    given = args.parse_args()
    for seed in range(given.seed, given.seed + given.count):
        try:
            found = failure(seed)
        except Exception as error:
            found = f"seed {seed}: {type(error).__name__}: {error}\n{Writer(seed).program()}"
        if found:
            print(found)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
