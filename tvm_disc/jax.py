"""JAX functions as programs that are compiled once and serve every shape.

    @tvm_disc.jax.jit(dynamic={"x": "b, s, 64"})
    def f(x, scale): ...

A function is exported with symbolic dims (``jax.export``) at its first call, and built into one
program. Arrays are passed to the program and back through DLPack, without copies.

A call does little in Python: one flattening of the arguments, one lookup of the program by shapes
and types, the program, and one conversion of each result (``_wrapper``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, update_wrapper, wraps
from pathlib import Path
from typing import Any

from tvm_disc.compile import build
from tvm_disc.errors import BadInput
from tvm_disc.frontends.extras import require
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.typing import SupportsDLPack, TargetLike


class Compiled:
    """A compiled JAX function: takes and returns pytrees of arrays, as the function does.

    Attributes:
        executable: the program; its inputs are the leaves of the arguments.
        exported: the ``jax.export.Exported`` that it was built from.
    """

    def __init__(self, exported: Any, executable: Executable, donated: Sequence[int] = ()) -> None:
        self.exported, self.executable, self._donated = exported, executable, donated
        self._in_tree, self._out_tree = exported.in_tree, exported.out_tree
        self._wrap: Callable[[SupportsDLPack], object] | None = None

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the program; inside ``jax.jit`` as a callback.

        Raises:
            BadInput: the arguments have another structure than the function was compiled for.
        """
        import jax

        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self._in_tree:
            raise BadInput(f"arguments: expected the structure {self._in_tree}, found {tree}")
        return self.on_leaves(leaves)

    def on_leaves(self, leaves: Sequence[object]) -> object:
        """Call the program on the leaves of arguments of the right structure."""
        kind = _kind_of_arrays()
        for x in leaves:
            if type(x) is not kind:
                return self._on_any(leaves)
        return self._run(leaves)

    def _on_any(self, leaves: Sequence[object]) -> object:
        import jax

        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return self._traced(leaves)
        wanted = self.exported.in_avals
        return self._run([_array(x, a.dtype) for x, a in zip(leaves, wanted, strict=True)])

    def _run(self, leaves: Sequence[Any]) -> object:
        made = self.executable.on_tensors(leaves)
        results = [made] if hasattr(made, "__dlpack__") else list(made)
        wrap = self._wrap
        if wrap is None:
            wrap = self._wrap = _wrapper(self.exported.out_avals, results)
        found = [wrap(x) for x in results]
        for k in self._donated:
            leaves[k].delete()
        return self._out_tree.unflatten(found)

    def _traced(self, leaves: Sequence[object]) -> object:
        """Return the call as a callback in the program that JAX traces."""
        import jax

        def run(*given: object) -> object:
            return self._run([jax.numpy.asarray(x) for x in given])

        kinds = [a.dtype for a in self.exported.in_avals]
        arrays = [_array(x, dtype) for x, dtype in zip(leaves, kinds, strict=True)]
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
        args, kwargs = jax.tree.unflatten(self.exported.in_tree, specs)
        result = jax.eval_shape(self.exported.call, *args, **kwargs)
        return jax.pure_callback(run, result, *arrays)

    def explain(self, **options: Any) -> str:
        """Return the report of :meth:`Executable.explain`."""
        return self.executable.explain(**options)

    def save(self, path: str | Path) -> None:
        """Save the program as a library, which runs without JAX: :func:`tvm_disc.load`."""
        self.executable.save(path)


@cache
def _kind_of_arrays() -> type:
    """Return the type of JAX's arrays that hold values."""
    import jax

    return type(jax.numpy.zeros(()))


def _wrapper(
    avals: Sequence[Any], results: Sequence[SupportsDLPack]
) -> Callable[[SupportsDLPack], object]:
    """Return the conversion of TVM tensors to JAX arrays.

    On the CPU it is the native part of ``jax.dlpack.from_dlpack``, whose checks in Python take 30
    microseconds. An unknown version of JAX, or a type that JAX may convert, gets the whole.
    """
    import jax

    whole: Callable[[SupportsDLPack], object] = jax.dlpack.from_dlpack
    if any(a.dtype.itemsize == 8 for a in avals):  # narrowed, unless jax_enable_x64 is set
        return whole
    if any(x.__dlpack_device__()[0] != 1 for x in results):
        return whole
    try:
        from jax._src.lib import _jax

        native, device = _jax.dlpack_managed_tensor_to_buffer, jax.devices("cpu")[0]
        for x in results:
            native(x.__dlpack__(), device, None, None, 1)
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return whole
    return lambda x: native(x.__dlpack__(), device, None, None, 1)


def _array(value: object, dtype: object) -> Any:
    """Return a leaf as an array; Python numbers get the type of the exported function."""
    import jax

    return value if isinstance(value, jax.Array) else jax.numpy.asarray(value, dtype=dtype)


def compile(
    function: Callable[..., Any],
    *args: Any,
    target: TargetLike = None,
    options: Options | None = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
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
        donate_argnums: the positions of arguments whose arrays a call deletes. Results have
            separate memory.
        kwargs: its keyword arguments, in the same form.
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

    def call(*given: Any, **named: Any) -> Any:
        left = iter(given)
        whole = [fixed[k] if k in fixed else next(left) for k in range(len(args))]
        return function(*whole, **named)

    traced = jax.jit(wraps(function)(call) if static else function)
    exported = export.export(traced)(*arrays, **kwargs)
    built = build(exported, target=target, options=options, constraints=constraints)
    return Compiled(exported, built, _leaves_of(_positions(donate_argnums), args, static))


def _leaves_of(donated: Sequence[int], args: Sequence[object], static: Sequence[int]) -> list[int]:
    """Return the positions of donated arrays among the leaves of the arguments."""
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
    function: Callable[..., Any] | None = None,
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
            does. Results have separate memory.
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
    """A function with one program for each structure of its arguments and fixed shapes."""

    def __init__(
        self,
        function: Callable[..., Any],
        dynamic: Mapping[str, str],
        static: tuple[int, ...],
        build_options: dict[str, Any],
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
        self._calls: dict[Hashable, Compiled] = {}  # programs by all shapes and types of a call
        update_wrapper(self, function)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        import jax

        fixed, arrays = None, args
        if self.static:
            fixed = tuple(_static(args[k]) for k in self.static if k < len(args))
            arrays = tuple(a for k, a in enumerate(args) if k not in self.static)
        leaves, tree = jax.tree.flatten((arrays, kwargs))
        key = tree, fixed, tuple([_fast_key(x) for x in leaves])
        found = self._calls.get(key)
        if found is None:
            found = self.program(*args, **kwargs)
            if len(self._calls) >= MOST_CALLS:
                self._calls.clear()
            self._calls[key] = found
        return found.on_leaves(leaves)

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
        return compile(
            self.function, *given, static_argnums=self.static, **self.build_options, **more
        )


MOST_CALLS = 10_000  # maximum number of shapes whose program is looked up at once


def _fast_key(x: Any) -> Hashable:
    """Return the type and shape of an array, or the type of a number."""
    try:
        return x.dtype, x.shape
    except AttributeError:
        return str(type(x))


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
