"""Programs and functions of JAX at random shapes, each compiled once and compared with JAX.

    python -m tests.frontends.stablehlo.campaign [--match NAME] [--shapes 20] [--programs]

Prints the functions that are not right, with the reason, and their number.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

import tvm_disc
from tests.frontends.stablehlo.models import MODELS
from tests.frontends.stablehlo.polymorphic import CASES
from tests.frontends.stablehlo.programs import PROGRAMS, Program, exported
from tvm_disc.compile import compile_counter
from tvm_disc.errors import Unsupported

ALL = {**PROGRAMS, **MODELS}
LEAST = 4  # of the dims of functions: constants index the first rows


class NoExport(Exception):
    """JAX does not export the function with these shapes."""


def specs(shapes: str) -> list[Any]:
    """Return the specifications of the arguments of a case."""
    found = [s.partition(":") for s in shapes.split(";")]
    names = {d for s, _, _ in found for d in "abc" if d in s}
    scope = export.SymbolicScope([f"{d} >= {LEAST}" for d in sorted(names)])
    dims = [export.symbolic_shape(s.strip(), scope=scope) for s, _, _ in found]
    kinds = [kind.strip() or "float32" for _, _, kind in found]
    return [jax.ShapeDtypeStruct(d, k) for d, k in zip(dims, kinds, strict=True)]


def arguments(given: list[Any], dims: Mapping[str, int], seed: int) -> list[np.ndarray]:
    """Return random arrays of the specifications for values of the dims."""
    rng = np.random.default_rng(seed)
    found = []
    for spec in given:
        shape = [int(eval(str(d), {}, dict(dims))) for d in spec.shape]
        if spec.dtype == jnp.int32:
            found.append(np.asarray(rng.integers(0, 3, shape), "int32"))
        else:
            found.append(np.asarray(rng.standard_normal(shape), "float32"))
    return found


def random_dims(count: int) -> Iterator[dict[str, int]]:
    """Yield values of the dims; the least ones are the first."""
    rng = np.random.default_rng(0)
    yield dict.fromkeys("abc", LEAST)
    for _ in range(count - 1):
        yield {d: int(rng.integers(LEAST, 40)) for d in "abc"}


def check_case(name: str, shapes: int) -> None:
    """Compare a function with JAX at some shapes.

    Raises:
        NoExport: JAX does not export it.
        AssertionError: a result differs, or it was compiled more than once.
        Unsupported: an operator is refused.
    """
    function, text = CASES[name]
    f = jax.jit(function)
    try:
        given = specs(text)
        module = export.export(f)(*given)
    except Exception as error:
        raise NoExport(f"{type(error).__name__}: {error}") from error
    with compile_counter() as compiled:
        exe = tvm_disc.build(module)
        for k, dims in enumerate(random_dims(shapes)):
            arrays = arguments(given, dims, k)
            compare(exe(*arrays), f(*arrays), dims)
    assert compiled[0] == 1, f"compiled {compiled[0]} times"


def compare(found: Any, wanted: Any, dims: Mapping[str, int]) -> None:
    """Raise AssertionError unless all results have JAX's types, shapes and values."""
    found = list(found) if isinstance(found, list | tuple) else [found]
    for one, want in zip(found, jax.tree.leaves(wanted), strict=True):
        assert one.dtype == want.dtype, f"{one.dtype} instead of {want.dtype}"
        np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-4, err_msg=f"at {dict(dims)}")


def check_program(program: Program, shapes: int) -> None:
    """Compare a program with JAX at random dims, among them the least; raises AssertionError."""
    names = list(program.dims[0])
    least = {n: min(d[n] for d in program.dims) for n in names}
    most = {n: max(d[n] for d in program.dims) for n in names}
    rng = np.random.default_rng(0)
    f = jax.jit(program.function)
    with compile_counter() as compiled:
        exe = tvm_disc.build(exported(program))
        for k in range(shapes):
            dims = {n: int(rng.integers(least[n], most[n] + 1)) for n in names} if k else least
            given = program.arguments(dims, k)
            compare(exe(*given), f(*given), dims)
    assert compiled[0] == 1, f"compiled {compiled[0]} times"


def main() -> None:
    """Print what is not right, and how many are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="names that contain it")
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--programs", action="store_true", help="the programs, not the functions")
    options = parser.parse_args()
    right, refused, failed, absent = 0, 0, 0, 0
    for name in ALL if options.programs else CASES:
        if options.match not in name:
            continue
        try:
            if options.programs:
                check_program(ALL[name], options.shapes)
            else:
                check_case(name, options.shapes)
            right += 1
        except NoExport as error:
            absent += 1
            print(f"{name}: not exported by JAX: {str(error)[:200]}", flush=True)
        except Unsupported as error:
            refused += 1
            print(f"{name}: refused: {str(error)[:300]}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).strip()[:300]}", flush=True)
    print(f"right {right}, refused {refused}, failed {failed}, not exported {absent}")


if __name__ == "__main__":
    main()
