"""Command that reads constraints from standard input and prints proofs.

    $ printf 's %% 8 == 0\n1 <= b <= 64\n? b*s <= 64*s\n? s %% 16 == 0\n' | python -m tvm_disc.shape

A line is an assumption, or `? claim`. The first use of a name declares a symbol; `#` starts a
comment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tvm_disc.errors import DiscError
from tvm_disc.typing import Expr

from .constraints import Likely, parse_constraint
from .printing import show
from .solver import Solver

ANSWERS = {True: "proved", False: "refuted", None: "unknown"}


def run(lines: Iterable[str]) -> Iterable[str]:
    """Yield the lines of output.

    Raises:
        DiscError: a line is invalid.
    """
    solver = Solver()

    def resolve(name: str) -> Expr:
        found = solver.resolve(name)
        return solver.symbol(name) if found is None else found

    for line in lines:
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if not text.startswith("?"):
            parsed = parse_constraint(text, resolve)
            if isinstance(parsed, Likely):
                solver.likely(parsed.expr, parsed.values)
            else:
                solver.assume(parsed, "input")
            continue
        claim = parse_constraint(text[1:].strip(), resolve)
        if isinstance(claim, Likely):
            yield f"{show(claim.expr)}: {list(solver.likely_values(claim.expr))}"
            continue
        yield f"{ANSWERS[solver.known(claim)]}: {text[1:].strip()}"
        yield from (f"    {reason}" for reason in solver.why(claim))
    yield solver.describe()


def main() -> int:
    """Run the command and return its exit status."""
    try:
        for line in run(sys.stdin):
            print(line)
    except DiscError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
