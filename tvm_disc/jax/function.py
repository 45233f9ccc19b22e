"""Compilation of JAX functions for all shapes: ``compile`` immediately, ``jit`` at a first call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import update_wrapper, wraps
from typing import Any

from tvm_disc.compile import build
from tvm_disc.errors import BadInput
from tvm_disc.frontends.extras import require
from tvm_disc.jax.calls import CallTable, flattening, kinds
from tvm_disc.jax.compiled import Compiled
from tvm_disc.options import Options
from tvm_disc.typing import TargetLike


def compile(
    function: Callable[..., object],
    *args: object,
    target: TargetLike = None,
    options: Options | None = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
    constraints: Sequence[str] = (),
    **kwargs: object,
) -> Compiled:
    """Export a function with symbolic dims and build it.

    Args:
        function: a function of arrays, or a ``jax.jit`` of one. Arrays that it closes over become
            constants of the program.
        args: example arguments: pytrees of ``jax.ShapeDtypeStruct``, whose shapes may be
            ``jax.export.symbolic_shape("b, s")``, or of arrays, whose shapes are fixed.
        static_argnums: the positions of arguments that are Python values.
        donate_argnums: the positions of arguments whose arrays a call deletes. Results may take
            their memory, and ``dynamic_update_slice`` of one writes into it (docs/state.md).
        kwargs: example keyword arguments, in the same form.
        target: as for :func:`tvm_disc.build`; so are ``options`` and ``constraints``.

    Raises:
        Unsupported: JAX is not installed, or an operator cannot be imported.
    """
    require("jax", "jax", "tvm_disc.jax")
    import jax
    from jax import export

    static = _positions(static_argnums)
    fixed = {k: args[k] for k in static}
    arrays = [a for k, a in enumerate(args) if k not in static]

    def call(*given: object, **named: object) -> object:
        left = iter(given)
        whole = [fixed[k] if k in fixed else next(left) for k in range(len(args))]
        return function(*whole, **named)

    traced = jax.jit(wraps(function)(call) if static else function)
    exported = export.export(traced)(*arrays, **kwargs)
    donated = _leaves_of(_positions(donate_argnums), args, static)
    if donated:
        options = Options() if options is None else options
        options = replace(options, donate=[*options.donate, *donated])
    built = build(exported, target=target, options=options, constraints=constraints)
    return Compiled(exported, built, donated)


def _leaves_of(donated: Sequence[int], args: Sequence[object], static: Sequence[int]) -> list[int]:
    """Return the positions of the leaves that belong to donated arguments."""
    import jax

    found: list[int] = []
    first = 0
    for k, a in enumerate(args):
        if k not in static:
            count = len(jax.tree.leaves(a))
            found += range(first, first + count) if k in donated else []
            first += count
    return found


def _positions(static: int | Sequence[int]) -> tuple[int, ...]:
    return (static,) if isinstance(static, int) else tuple(static)


def jit(
    function: Callable[..., object] | None = None,
    *,
    dynamic: Mapping[str, str] | None = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
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
        donate_argnums: the positions of parameters whose arrays a call deletes, as ``jax.jit``
            does. Results may take their memory.
        target: as for :func:`tvm_disc.build`; so are ``options`` and ``constraints``.

    Raises:
        BadInput: ``dynamic`` names a parameter that the function does not have.
    """
    if function is None:
        return lambda f: jit(
            f,
            dynamic=dynamic,
            static_argnums=static_argnums,
            donate_argnums=donate_argnums,
            target=target,
            options=options,
            constraints=constraints,
        )
    given = {
        "donate_argnums": donate_argnums,
        "target": target,
        "options": options,
        "constraints": constraints,
    }
    return _Jitted(function, dict(dynamic or {}), _positions(static_argnums), given)


class _Jitted:
    """A function with one program for each combination of static arguments, structure, dtypes and
    fixed shapes.
    """

    def __init__(
        self,
        function: Callable[..., object],
        dynamic: Mapping[str, str],
        static: tuple[int, ...],
        build_options: Mapping[str, Any],
    ) -> None:
        self.function, self.dynamic, self.static = function, dynamic, static
        self.build_options = build_options
        self.parameters = list(inspect.signature(function).parameters)
        unknown = [n for n in dynamic if n not in self.parameters]
        if unknown:
            raise BadInput(
                f"dynamic: {unknown[0]!r} is not a parameter of {function.__name__}; its "
                f"parameters are {', '.join(self.parameters)}"
            )
        self.programs: dict[Hashable, Compiled] = {}
        self._calls = CallTable(settles=not static)
        self._flatten = flattening()
        update_wrapper(self, function)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        calls = self._calls
        if calls.settled is not None and not calls.observers:
            try:
                return calls.settled(*args, **kwargs)
            except calls.errors:
                calls.settled = None
        fixed, arrays = None, args
        if self.static:
            fixed = tuple(_static(args[k]) for k in self.static if k < len(args))
            arrays = tuple(a for k, a in enumerate(args) if k not in self.static)
        leaves, tree = self._flatten((arrays, kwargs))
        key = tree, fixed, *map(type, leaves), *kinds(leaves)
        call = calls.get(key) or calls.add(key, self.program(*args, **kwargs), leaves)
        return call(leaves)

    def program(self, *args: object, **kwargs: object) -> Compiled:
        """Return the program for the given arguments, and build it if there is none yet."""
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
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        shapes: list[str | None],
        named: dict[str, str | None],
    ) -> Compiled:
        from jax import export

        arrays = [None if k in self.static else a for k, a in enumerate(args)]
        specs, more = export.symbolic_args_specs((arrays, kwargs), (shapes, named))
        given = [args[k] if k in self.static else x for k, x in enumerate(specs)]
        return compile(
            self.function, *given, static_argnums=self.static, **self.build_options, **more
        )


def _static(value: object) -> Hashable:
    """Return the key of a static argument.

    Raises:
        BadInput: the argument is not hashable.
    """
    try:
        return type(value), hash(value), value
    except TypeError:
        raise BadInput(
            f"a static argument must be hashable, found {type(value).__name__}"
        ) from None


def _key(value: object, shape: str | None) -> Hashable:
    """Return the key of a pytree of arrays: structure, dtypes, and shapes or their ranks.

    Only ranks are part of the key if ``shape``, the parameter's dynamic shape, is given.
    """
    import jax
    import numpy as np

    leaves, tree = jax.tree.flatten(value)
    kinds = tuple((str(jax.numpy.result_type(x)), np.shape(x)) for x in leaves)
    if shape is not None:
        kinds = tuple((dtype, (len(dims),)) for dtype, dims in kinds)
    return tree, shape, kinds
