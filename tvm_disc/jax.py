"""JAX functions as programs that are compiled once and serve every shape.

    @tvm_disc.jax.jit(dynamic={"x": "b, s, 64"})
    def f(x, scale): ...

A function is exported with symbolic dims (``jax.export``) at its first call, and built into one
program. Arrays are passed to the program and back through DLPack, without copies.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import update_wrapper, wraps
from pathlib import Path
from typing import Any

from tvm_disc.compile import build
from tvm_disc.errors import BadInput
from tvm_disc.frontends.extras import require
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.typing import TargetLike


class Compiled:
    """A compiled JAX function: takes and returns pytrees of arrays, as the function does.

    Attributes:
        executable: the program; its inputs are the leaves of the arguments.
        exported: the ``jax.export.Exported`` that it was built from.
    """

    def __init__(self, exported: Any, executable: Executable) -> None:
        self.exported, self.executable = exported, executable

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the program; inside ``jax.jit`` as a callback.

        Raises:
            BadInput: the arguments have another structure than the function was compiled for.
        """
        import jax

        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self.exported.in_tree:
            raise BadInput(
                f"arguments: expected the structure {self.exported.in_tree}, found {tree}"
            )
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return self._traced(leaves)
        return self._run(leaves)

    def _run(self, leaves: Sequence[object]) -> Any:
        import jax

        wanted = self.exported.in_avals
        given = [_array(x, aval.dtype) for x, aval in zip(leaves, wanted, strict=True)]
        made = self.executable(*given)
        results = made if isinstance(made, list | tuple) else [made]
        if not given:  # the kind of the results is that of the first input
            results = [jax.numpy.asarray(x) for x in results]
        return jax.tree.unflatten(self.exported.out_tree, results)

    def _traced(self, leaves: Sequence[Any]) -> Any:
        """Return the call as a callback in the program that JAX traces."""
        import jax

        def run(*arrays: Any) -> Any:
            return jax.tree.map(lambda x: jax.numpy.asarray(x), self._run(arrays))

        kinds = [a.dtype for a in self.exported.in_avals]
        leaves = [_array(x, dtype) for x, dtype in zip(leaves, kinds, strict=True)]
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        args, kwargs = jax.tree.unflatten(self.exported.in_tree, specs)
        result = jax.eval_shape(self.exported.call, *args, **kwargs)
        return jax.pure_callback(run, result, *leaves)

    def explain(self, **options: Any) -> str:
        """Return the report of :meth:`Executable.explain`."""
        return self.executable.explain(**options)

    def save(self, path: str | Path) -> None:
        """Save the program as a library, which runs without JAX: :func:`tvm_disc.load`."""
        self.executable.save(path)


def _array(value: Any, dtype: Any) -> Any:
    """Return a leaf as an array; Python numbers get the type of the exported function."""
    import jax

    return value if isinstance(value, jax.Array) else jax.numpy.asarray(value, dtype=dtype)


def compile(
    function: Callable[..., Any],
    *args: Any,
    target: TargetLike = None,
    options: Options | None = None,
    static_argnums: int | Sequence[int] = (),
    constraints: Sequence[str] = (),
    **kwargs: Any,
) -> Compiled:
    """Export a function with symbolic dims and build it.

    Args:
        function: a function of arrays, or a ``jax.jit`` of one. Arrays that it closes over become
            constants of the program.
        args: its arguments: trees of ``jax.ShapeDtypeStruct``, whose shapes may be
            ``jax.export.symbolic_shape("b, s")``, or of arrays, whose shapes are fixed.
        static_argnums: the positions of arguments that are Python values.
        kwargs: its keyword arguments, in the same form.
        target, options, constraints: as for :func:`tvm_disc.build`.

    Raises:
        Unsupported: JAX is not installed, or an operator cannot be imported.
    """
    require("jax", "jax", "tvm_disc.jax")
    import jax
    from jax import export

    static = _positions(static_argnums)
    fixed = {k: args[k] for k in static}
    arrays = [a for k, a in enumerate(args) if k not in static]

    def call(*given: Any, **named: Any) -> Any:
        left = iter(given)
        whole = [fixed[k] if k in fixed else next(left) for k in range(len(args))]
        return function(*whole, **named)

    traced = jax.jit(wraps(function)(call) if static else function)
    exported = export.export(traced)(*arrays, **kwargs)
    built = build(exported, target=target, options=options, constraints=constraints)
    return Compiled(exported, built)


def _positions(static: int | Sequence[int]) -> tuple[int, ...]:
    return (static,) if isinstance(static, int) else tuple(static)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    dynamic: Mapping[str, str] | None = None,
    static_argnums: int | Sequence[int] = (),
    target: TargetLike = None,
    options: Options | None = None,
    constraints: Sequence[str] = (),
) -> Any:
    """Return a function that is compiled at its first call, once for all shapes.

    Args:
        dynamic: the shapes of parameters by name, in the language of
            ``jax.export.symbolic_shape``, such as ``"b, s, 64"``. A shape applies to every array
            of a parameter that is a tree; ``_`` denotes a dim that is taken from the argument, and
            ``...`` all that follow. The shapes of other parameters are fixed: another shape
            compiles again.
        static_argnums: the positions of parameters that are Python values; another value compiles
            again.
        target, options, constraints: as for :func:`tvm_disc.build`.

    Raises:
        BadInput: ``dynamic`` names a parameter that the function does not have.
    """
    if function is None:
        return lambda f: jit(
            f,
            dynamic=dynamic,
            static_argnums=static_argnums,
            target=target,
            options=options,
            constraints=constraints,
        )
    return _Jitted(
        function, dict(dynamic or {}), _positions(static_argnums), (target, options, constraints)
    )


class _Jitted:
    """A function with one program for each structure of its arguments and fixed shapes."""

    def __init__(
        self,
        function: Callable[..., Any],
        dynamic: Mapping[str, str],
        static: tuple[int, ...],
        build_options: tuple[Any, Options | None, Sequence[str]],
    ) -> None:
        self.function, self.dynamic, self.static = function, dynamic, static
        self.build_options = build_options
        self.parameters = list(inspect.signature(function).parameters)
        unknown = [n for n in dynamic if n not in self.parameters]
        if unknown:
            raise BadInput(
                f"dynamic: {unknown[0]!r} is no parameter of {function.__name__}; expected some "
                f"of {', '.join(self.parameters)}"
            )
        self.programs: dict[Hashable, Compiled] = {}
        update_wrapper(self, function)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        arrays = [a for k, a in enumerate(args) if k not in self.static]
        return self.program(*args, **kwargs)(*arrays, **kwargs)

    def program(self, *args: Any, **kwargs: Any) -> Compiled:
        """Return the program that serves some arguments; the first call builds it."""
        shapes = [self.dynamic.get(name) for name, _ in zip(self.parameters, args, strict=False)]
        named = {name: self.dynamic.get(name) for name in kwargs}
        pairs = [
            *(_static(a) if k in self.static else _key(a, shapes[k]) for k, a in enumerate(args)),
            *((name, _key(a, named[name])) for name, a in sorted(kwargs.items())),
        ]
        key = tuple(pairs)
        if key not in self.programs:
            self.programs[key] = self._built(args, kwargs, shapes, named)
        return self.programs[key]

    def _built(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shapes: list[str | None],
        named: dict[str, str | None],
    ) -> Compiled:
        from jax import export

        arrays = [None if k in self.static else a for k, a in enumerate(args)]
        specs, more = export.symbolic_args_specs((arrays, kwargs), (shapes, named))
        given = [args[k] if k in self.static else x for k, x in enumerate(specs)]
        target, options, constraints = self.build_options
        return compile(
            self.function,
            *given,
            target=target,
            options=options,
            constraints=constraints,
            static_argnums=self.static,
            **more,
        )


def _static(value: Any) -> Hashable:
    """Return the key of a static argument.

    Raises:
        BadInput: it is not hashable.
    """
    try:
        return type(value), hash(value), value
    except TypeError:
        raise BadInput(
            f"a static argument must be hashable, found {type(value).__name__}"
        ) from None


def _key(value: Any, shape: str | None) -> Hashable:
    """Return the structure, types and fixed shapes of a tree of arrays."""
    import jax
    import numpy as np

    leaves, tree = jax.tree.flatten(value)
    kinds = tuple((str(jax.numpy.result_type(x)), np.shape(x)) for x in leaves)
    if shape is not None:
        kinds = tuple((dtype, (len(dims),)) for dtype, dims in kinds)
    return tree, shape, kinds


__all__ = ["Compiled", "compile", "jit"]
