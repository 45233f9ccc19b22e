"""Import of a StableHLO module as a Relay module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.frontends.stablehlo import reader
from tvm_disc.frontends.stablehlo.attributes import dims_of, dtype_of, tensor_type
from tvm_disc.frontends.stablehlo.conditions import Texts, checked, split
from tvm_disc.frontends.stablehlo.dims import Dims, refuse_negative, unique_names
from tvm_disc.frontends.stablehlo.graph import ModuleConversion
from tvm_disc.frontends.stablehlo.pairs import ComplexPair
from tvm_disc.frontends.stablehlo.reader import FunctionArgument
from tvm_disc.relay import expr as ast
from tvm_disc.relay import types as rt
from tvm_disc.relay.infer import Inference
from tvm_disc.relay.module import IRModule


def from_stablehlo(source: object) -> IRModule:
    """Return the Relay module of a StableHLO module.

    Args:
        source: a ``jax.export.Exported``, its serialized bytes, StableHLO text or bytecode, or the
            path of a file with any of these.

    Inputs have the names of the exported function's parameters, and dims the names of its symbols.
    Inputs that the function does not use remain inputs of the program.

    Raises:
        Unsupported: the package `jax` is not installed, or an operator cannot be imported.
        BadInput: the source is not a StableHLO module with a function @main.
    """
    loaded = reader.load(source)
    infer = Inference()
    walk = ModuleConversion(infer, loaded.module)
    if "main" not in walk.functions:
        found = ", ".join(f"@{name}" for name in walk.functions)
        raise BadInput(f"expected a function @main, found {found or 'none'}")
    block = walk.functions["main"].regions[0].blocks[0]
    arguments = loaded.arguments or _arguments(block)
    names = unique_names([a.name for a in arguments])
    dims = Dims([a.dims for a in arguments])
    params = []
    for name, a in zip(names, arguments, strict=True):
        refuse_negative(a.dims, name)
        params.append(ast.Var(name, rt.TensorType(tuple(dims.of(d) for d in a.dims), a.dtype)))
        infer.declare(params[-1])
    given = [p for p, a in zip(params, arguments, strict=True) if a.position is not None]
    results = walk.run(block, given)
    texts = Texts(_sizes(block, names, arguments, dims), walk.function)
    constraints, checks = split(walk.conditions, texts, infer)
    if not results:
        raise BadInput("the function @main has no results")
    for k, x in enumerate(results):
        if isinstance(x, ComplexPair):
            raise Unsupported(
                f"result {k}: expected real numbers, found complex numbers; return real and "
                "imaginary parts instead"
            )
    body = results[0] if len(results) == 1 else ast.Tuple(tuple(results))
    attrs = {"constraints": tuple(constraints)} if constraints else {}
    return IRModule.from_expr(ast.Function(params, checked(body, checks), attrs=attrs))


def _arguments(block: Any) -> tuple[FunctionArgument, ...]:
    """Return the arguments of ``main``; its dynamic dims have no names."""
    found = []
    for k, value in enumerate(block.arguments):
        name = reader.name_of(value)
        try:
            ty = tensor_type(value.type)
            found.append(FunctionArgument(name, tuple(dims_of(ty)), dtype_of(ty), k))
        except Unsupported as error:
            raise Unsupported(f"argument {k} of @main: {error}") from None
    return tuple(found)


def _sizes(
    block: Any, names: Sequence[str], arguments: Sequence[FunctionArgument], dims: Dims
) -> dict[tuple[object, int], str]:
    """Return the text of each dim in constraints: a number, a symbol, or ``input.axis``.

    The key is (argument of ``main``, axis).
    """
    found = {}
    for name, a in zip(names, arguments, strict=True):
        if a.position is None:
            continue
        for axis, d in enumerate(a.dims):
            plain = isinstance(d, int) or d in dims.plain
            found[block.arguments[a.position], axis] = str(d) if plain else f"{name}.{axis}"
    return found


__all__ = ["from_stablehlo"]
