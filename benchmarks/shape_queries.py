"""How long the solver takes for the questions of a deep encoder.

python benchmarks/shape_queries.py [layers]
"""

from __future__ import annotations

import sys
import time

from tvm import tirx

from tvm_disc.shape import Solver


def main(layers: int) -> None:
    solver = Solver()
    b, s = solver.symbol("b"), solver.symbol("s")
    solver.assume("1 <= s <= 512", "user")
    times: list[float] = []

    def timed(question: object, *args: object) -> None:
        began = time.process_time()
        question(*args)  # type: ignore[operator]
        times.append(time.process_time() - began)

    began = time.process_time()
    for _ in range(layers):
        rows, heads = solver.symbol("rows"), solver.symbol("heads")
        timed(solver.assume_eq, rows, b * s, "flatten")
        timed(solver.assume_eq, heads, b * 12, "split")
        for _ in range(100):
            timed(solver.known_same_elements, [rows, 768], [b, s, 12, 64])
            timed(solver.known_same_elements, [heads, s, 64], [b, 12, s, 64])
            timed(solver.known_eq, rows * 768 // 768, b * s)
            timed(solver.known_le, tirx.min(s, 512), s)
            timed(solver.known_eq, s, b)
            timed(solver.simplify, heads * s * 64)
            timed(solver.known_divides, 64, rows * 768)
            timed(solver.range_of, tirx.min(s, 512))
    seconds = time.process_time() - began
    times.sort()
    print(
        f"{layers} layers: {len(times)} questions in {seconds:.2f} s of processor time; "
        f"median {1e6 * times[len(times) // 2]:.0f} us, "
        f"99 % {1e6 * times[int(len(times) * 0.99)]:.0f} us, worst {1e3 * times[-1]:.2f} ms; "
        f"{solver.steps} proof steps"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
