"""Random programs of shape arithmetic under random facts, checked by evaluation.

    python -m tests.shape.fuzz --programs 100000 --seed 0 --jobs 2

A program is a list of facts, all true for one hidden assignment, so that they never contradict
each other, and a list of questions. An answer is unsound if any combination of small values that
satisfies the facts disagrees with it. On failure the program is reduced to a minimal one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from tests.shape.oracle import VALUES, Meaning, Tree, from_tvm, grid, to_tvm
from tvm_disc.errors import ShapeConflict
from tvm_disc.shape import Solver

NAMES = ("n", "m", "k")
DIVISORS = (2, 3, 4, 8, 12, 64)
CONSTANTS = (0, 1, 2, 3, 4, 5, 7, 8, 12, 63, 64, 65)
RELATIONS = ("==", "==", "<=", "<", "!=", "|")

_MEANING = Meaning(grid(NAMES))


class Program(NamedTuple):
    """Facts and questions; a question is a condition, or `("value", tree)`, or a pair of shapes
    `("groups", src, dst)`, or `("broadcast", a, b)`."""

    facts: tuple[Tree, ...]
    questions: tuple[Tree, ...]


def random_tree(rng: random.Random, depth: int) -> Tree:
    """A dim expression."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(NAMES) if rng.random() < 0.75 else rng.choice(CONSTANTS)
    op = rng.choice(("+", "+", "-", "*", "*", "//", "%", "min", "max", "if"))
    a = random_tree(rng, depth - 1)
    if op == "if":
        cond = random_relation(rng, depth - 1)
        return ("if", cond, a, random_tree(rng, depth - 1))
    if op in ("//", "%") and rng.random() < 0.8:
        return (op, a, rng.choice(DIVISORS))
    return (op, a, random_tree(rng, depth - 1))


def random_relation(rng: random.Random, depth: int) -> Tree:
    """A condition."""
    op = rng.choice(RELATIONS)
    if op == "|":
        k = rng.choice(DIVISORS) if rng.random() < 0.8 else rng.choice(NAMES)
        return ("|", k, random_tree(rng, depth))
    a, b = random_tree(rng, depth), random_tree(rng, depth)
    if rng.random() < 0.35:
        b = rng.choice(CONSTANTS)
    return (op, a, b)


def related(rng: random.Random, tree: Tree) -> Tree:
    """A tree near to the given one: often equal, so that questions are not all trivially false."""
    if not isinstance(tree, tuple) or tree[0] == "if" or rng.random() < 0.1:
        return tree if rng.random() < 0.8 else random_tree(rng, 1)
    op, a, b = tree
    a, b = related(rng, a), related(rng, b)
    roll = rng.random()
    if op in ("+", "*", "min", "max") and roll < 0.5:
        return (op, b, a)
    if op == "*" and isinstance(a, tuple) and a[0] in ("+", "-") and roll < 0.9:
        return (a[0], ("*", a[1], b), ("*", a[2], b))
    if op == "//" and roll < 0.5:
        c = rng.choice((2, 3, *NAMES))
        return ("//", ("*", a, c), ("*", b, c))
    if op == "%" and roll < 0.6:
        return ("-", a, ("*", b, ("//", a, b)))
    if op == "min" and roll < 0.9:
        return ("-", ("+", a, b), ("max", a, b))
    if op == "max" and roll < 0.9:
        return ("if", ("<", a, b), b, a)
    return (op, a, b)


def random_program(rng: random.Random) -> Program:
    """A program whose facts hold together."""
    hidden = {name: np.array([rng.choice(VALUES)]) for name in NAMES}
    one = Meaning(hidden)
    facts: list[Tree] = []
    for _ in range(rng.randrange(0, 5)):
        fact = random_relation(rng, rng.choice((0, 1, 1, 2)))
        if rng.random() < 0.15:
            fact = ("or", fact, random_relation(rng, 1))
        truth, ok = one.truth(fact)
        if ok[0] and not truth[0] and fact[0] == "==" and rng.random() < 0.5:
            value = one.value(fact[1])[0][0]
            fact = ("==", fact[1], int(value))
            truth, ok = one.truth(fact)
        if ok[0] and truth[0]:
            facts.append(fact)
    return Program(tuple(facts), tuple(_question(rng) for _ in range(rng.randrange(3, 8))))


def _question(rng: random.Random) -> Tree:
    roll = rng.random()
    tree = random_tree(rng, rng.choice((1, 2, 2, 3)))
    if roll < 0.3:
        return ("value", tree)
    if roll < 0.6:
        return (rng.choice(("==", "<=", "<", "!=")), tree, related(rng, tree))
    if roll < 0.65:
        dims = [random_tree(rng, rng.choice((0, 0, 1))) for _ in range(rng.randrange(1, 4))]
        return ("groups", tuple(dims), _regrouped(rng, dims))
    if roll < 0.7:
        return ("broadcast", rng.choice((*NAMES, 1, 5)), random_tree(rng, 1))
    if roll < 0.78:
        return ("require", random_relation(rng, 1))
    return random_relation(rng, rng.choice((1, 1, 2)))


def _regrouped(rng: random.Random, dims: list[Tree]) -> tuple[Tree, ...]:
    out: list[Tree] = []
    for dim in dims:
        if out and rng.random() < 0.4:
            out[-1] = ("*", out[-1], dim)
        else:
            out.append(dim)
        if rng.random() < 0.1:
            out.append(1)
    return tuple(out)


def check(program: Program) -> str | None:
    """What is unsound about the solver's answers, or None."""
    solver = Solver()
    symbols = {name: solver.symbol(name) for name in NAMES}
    facts: list[Tree] = []
    alive = _MEANING.holding(())
    for fact in program.facts:
        alive = alive & _MEANING.holding((fact,))
        try:
            solver.assume(to_tvm(fact, symbols), "fuzz")
        except ShapeConflict as error:
            return f"satisfiable facts are called contradictory: {error}" if alive.any() else None
        facts.append(fact)
    for question in program.questions:
        try:
            problem, alive = _check_question(solver, symbols, question, alive)
        except ShapeConflict as error:
            truth, ok = _MEANING.truth(question[1]) if question[0] == "require" else (alive, alive)
            if question[0] == "require" and (truth & ok & alive).any():
                return f"{question}: a requirement that can hold was refused: {error}"
            if question[0] == "require":
                continue
            problem = f"{question}: {error}" if question[0] != "broadcast" else None
        if problem:
            return problem
    return None


def _check_question(
    solver: Solver, symbols: dict[str, Any], question: Tree, alive: np.ndarray
) -> tuple[str | None, np.ndarray]:
    kind = question[0]
    if kind == "value":
        return _check_value(solver, symbols, question[1], alive), alive
    if kind == "groups":
        return _check_groups(solver, symbols, question, alive), alive
    if kind == "broadcast":
        return _check_broadcast(solver, symbols, question, alive)
    if kind == "require":
        solver.require(to_tvm(question[1], symbols), "fuzz")
        return None, alive & _MEANING.holding((question[1],))
    return _check_truth(solver, symbols, question, alive), alive


def _check_truth(
    solver: Solver, symbols: dict[str, Any], question: Tree, alive: np.ndarray
) -> str | None:
    e = to_tvm(question, symbols)
    a, b = (to_tvm(t, symbols) for t in question[1:])
    ask = {
        "==": solver.known_eq, "<=": solver.known_le, "<": solver.known_lt,
        "|": solver.known_divides,
    }.get(question[0])  # fmt: skip
    answer = solver.known(e) if ask is None else ask(a, b)
    truth, ok = _MEANING.truth(question)
    where = alive & ok
    if answer is None or not where.any():
        return None
    wrong = where & (truth != answer)
    return f"{question} answered {answer}: {_example(wrong)}" if wrong.any() else None


def _check_value(
    solver: Solver, symbols: dict[str, Any], tree: Tree, alive: np.ndarray
) -> str | None:
    e = to_tvm(tree, symbols)
    value, ok = _MEANING.value(tree)
    simple = solver.simplify(e)
    again, ok_again = _MEANING.value(from_tvm(simple))
    wrong = alive & ok & ~(ok_again & (value == again))
    if wrong.any():
        return f"{tree} simplified to {simple}: {_example(wrong)}"
    lo, hi = solver.range_of(e)
    wrong = np.zeros_like(alive)
    if lo is not None:
        wrong |= value < lo
    if hi is not None:
        wrong |= value > hi
    wrong &= alive & ok
    return f"{tree} in [{lo}, {hi}]: {_example(wrong)}" if wrong.any() else None


def _check_groups(
    solver: Solver, symbols: dict[str, Any], question: Tree, alive: np.ndarray
) -> str | None:
    src, dst = ([to_tvm(t, symbols) for t in side] for side in question[1:])
    groups = solver.reshape_groups(src, dst)
    for group in groups or ():
        sides = []
        ok = alive
        for axes, dims in zip(group, question[1:], strict=True):
            total = np.ones_like(alive, np.int64)
            for axis in axes:
                value, defined = _MEANING.value(dims[axis])
                total, ok = total * value, ok & defined
            sides.append(total)
        wrong = ok & (sides[0] != sides[1])
        if wrong.any():
            return f"{question} grouped as {groups}: {_example(wrong)}"
    return None


def _check_broadcast(
    solver: Solver, symbols: dict[str, Any], question: Tree, alive: np.ndarray
) -> tuple[str | None, np.ndarray]:
    a, ok_a = _MEANING.value(question[1])
    b, ok_b = _MEANING.value(question[2])
    fits = alive & ok_a & ok_b & ((a == b) | (a == 1) | (b == 1))
    try:
        out = solver.broadcast_dim(*(to_tvm(t, symbols) for t in question[1:]), "fuzz")
    except ShapeConflict as error:
        return (f"{question} refused: {error}" if fits.any() else None), alive
    value, ok = _MEANING.value(from_tvm(out))
    wrong = fits & ~(ok & (value == np.where(a == 1, b, a)))
    return (f"{question} gave {out}: {_example(wrong)}" if wrong.any() else None), fits


def _example(wrong: np.ndarray) -> str:
    row = int(np.argmax(wrong))
    return ", ".join(f"{name}={int(_MEANING.table[name][row])}" for name in NAMES)


def minimise(program: Program) -> Program:
    """A smaller program that is still answered wrongly."""
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(program):
            if _fails(smaller):
                program, shrunk = smaller, True
                break
    return program


def _fails(program: Program) -> bool:
    try:
        return check(program) is not None
    except Exception:
        return True


def _smaller(program: Program) -> Any:
    for part in ("questions", "facts"):
        rows = getattr(program, part)
        for i in range(len(rows)):
            yield program._replace(**{part: rows[:i] + rows[i + 1 :]})
        for i, row in enumerate(rows):
            for tree in _smaller_tree(row, keep=True):
                yield program._replace(**{part: (*rows[:i], tree, *rows[i + 1 :])})


def _smaller_tree(tree: Tree, keep: bool = False) -> Any:
    if not isinstance(tree, tuple):
        return
    if not keep and tree[0] in ("+", "-", "*", "//", "%", "min", "max"):
        yield from tree[1:]
    if not keep and tree[0] == "if":
        yield from tree[2:]
    for i, part in enumerate(tree):
        for smaller in _smaller_tree(part):
            yield (*tree[:i], smaller, *tree[i + 1 :])


def run(seed: int, start: int, stop: int) -> tuple[int, str | None]:
    """Programs `start` to `stop` of a seed; the number run and the first failure."""
    for index in range(start, stop):
        program = random_program(random.Random(f"{seed}:{index}"))
        try:
            problem = check(program)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            small = minimise(program)
            return index - start, f"seed {seed} program {index}: {problem}\n  minimal: {small}"
    return stop - start, None


def _job(args: tuple[int, int, int]) -> tuple[int, str | None]:
    return run(*args)


def main() -> int:
    """The campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    step = 250
    end = args.start + args.programs
    jobs = [(args.seed, i, min(i + step, end)) for i in range(args.start, end, step)]
    began, done, failures = time.perf_counter(), 0, 0
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for count, failure in pool.imap_unordered(_job, jobs):
            done += count
            if failure:
                failures += 1
                print(failure, flush=True)
            if done % 5000 < step:
                print(f"{done} programs, {time.perf_counter() - began:.0f} s", flush=True)
    seconds = time.perf_counter() - began
    print(f"{done} programs, seed {args.seed}, {failures} failures, {seconds:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
