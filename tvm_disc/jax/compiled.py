"""A compiled JAX function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tvm_disc.errors import BadInput
from tvm_disc.jax.calls import CallTable, NewShape, flattening, kind_of_arrays, kinds
from tvm_disc.jax.conversion import Viewer, as_array, viewer, wrapper
from tvm_disc.jax.custom_call import custom_call
from tvm_disc.runtime.executable import Executable
from tvm_disc.typing import SupportsDLPack


class Compiled:
    """A compiled JAX function; it takes and returns pytrees of arrays, like the original function.

    Attributes:
        executable: the program; its inputs are the leaves of the arguments.
        exported: the ``jax.export.Exported`` from which the program was built.
        shapes: the shapes for which XLA has compiled a custom call.
    """

    def __init__(self, exported: Any, executable: Executable, donated: Sequence[int] = ()) -> None:
        self.exported, self.executable, self._donated = exported, executable, donated
        self._in_tree, self._out_tree = exported.in_tree, exported.out_tree
        self._flatten = flattening()
        self._wrap: Callable[[SupportsDLPack], object] | None = None
        self._view: Viewer | None = None
        self.shapes: set[Hashable] = set()
        self._calls = CallTable()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the program. Inside ``jax.jit`` this emits a custom call or a callback.

        Raises:
            BadInput: the structure of the arguments is not that of the example arguments.
        """
        calls = self._calls
        if calls.settled is not None and not calls.observers:
            try:
                return calls.settled(*args, **kwargs)
            except calls.errors:
                calls.settled = None
        leaves, tree = self._flatten((args, kwargs))
        if tree != self._in_tree:
            raise BadInput(
                "arguments: expected the structure of the example arguments, "
                f"{self._in_tree}, found {tree}"
            )
        key = *map(type, leaves), *kinds(leaves)
        call = calls.get(key) or calls.add(key, self, leaves)
        return call(leaves)

    def on_leaves(self, leaves: Sequence[object]) -> object:
        """Call the program by DLPack for the arguments' leaves; return the pytree of results."""
        kind = kind_of_arrays()
        for x in leaves:
            if type(x) is not kind:
                return self._on_any(leaves)
        return self._run(leaves)

    @cached_property
    def by_xla(self) -> Callable[..., object]:
        """Return a jitted function of the user's arguments that calls the program by XLA.

        It raises NewShape if the shapes of the arguments are not in ``shapes``.
        """
        import jax

        def call(*args: object, **kwargs: object) -> object:
            leaves, tree = self._flatten((args, kwargs))
            if tree != self._in_tree or kinds(leaves) not in self.shapes:
                raise NewShape
            return self._traced(leaves)

        found: Callable[..., object] = jax.jit(call)
        return found

    @cached_property
    def _taken(self) -> dict[int, int]:
        """The results that take the memory of donated leaves, by the positions of the leaves."""
        taken = self.executable.donated
        return {k: taken[k] for k in self._donated if k in taken}

    @cached_property
    def leaves_by_xla(self) -> Callable[..., object]:
        """Return a jitted function of the arguments' leaves that calls the program by XLA."""
        import jax

        def call(*leaves: object) -> object:
            return self._traced(leaves)

        found: Callable[..., object] = jax.jit(call, donate_argnums=tuple(self._taken))
        return found

    @property
    def donates(self) -> bool:
        """Return whether a call deletes donated arguments."""
        return bool(self._donated)

    def arrays(self) -> int:
        """Return the number of arrays that a call converts: arguments and results."""
        return len(self.exported.in_avals) + len(self.exported.out_avals)

    def _on_any(self, leaves: Sequence[object]) -> object:
        import jax

        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return self._traced(leaves)
        wanted = self.exported.in_avals
        pairs = zip(leaves, wanted, strict=True)
        return self._run(
            [as_array(x, a.dtype, k in self._donated) for k, (x, a) in enumerate(pairs)]
        )

    def _run(self, leaves: Sequence[object]) -> object:
        made = self._results(leaves)
        results = [made] if hasattr(made, "__dlpack__") else list(made)
        wrap = self._wrap
        if wrap is None:
            wrap = self._wrap = wrapper(self.exported.out_avals, results)
        found = [wrap(x) for x in results]
        self.delete(leaves)
        return self._out_tree.unflatten(found)

    def _results(self, leaves: Sequence[Any]) -> Any:
        """Call the program and return its results as TVM tensors."""
        view = self._view
        if view is None or self.executable.observers:
            made = self.executable.on_tensors(leaves)
            self._view = viewer(leaves, self._donated)
            return made
        try:
            return self.executable.entries()[0](*view(leaves))
        except Exception:  # call again with the arrays, for a complete error message
            return self.executable.on_tensors(leaves)

    def delete(self, leaves: Sequence[object]) -> None:
        """Delete the leaves that are donated arrays."""
        for k in self._donated:
            delete = getattr(leaves[k], "delete", None)
            if delete is not None:
                delete()

    def _traced(self, leaves: Sequence[object]) -> object:
        """Emit the call into the function that JAX is tracing: a custom call, or a callback."""
        import jax

        def run(*given: object) -> object:
            return self._run([jax.numpy.asarray(x) for x in given])

        dtypes = [a.dtype for a in self.exported.in_avals]
        arrays = [as_array(x, dtype) for x, dtype in zip(leaves, dtypes, strict=True)]
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
        args, kwargs = jax.tree.unflatten(self.exported.in_tree, specs)
        result = jax.eval_shape(self.exported.call, *args, **kwargs)
        made = jax.tree.leaves(result)
        # Shapes may be equal in some calls only.
        taken = {k: r for k, r in self._taken.items() if kinds([arrays[k]]) == kinds([made[r]])}
        call = custom_call(self.executable, made, taken)
        if call is None:
            return jax.pure_callback(run, result, *arrays)
        return self._out_tree.unflatten(call(*arrays))

    def explain(self, **options: Any) -> str:
        """Return the report of :meth:`Executable.explain`."""
        return self.executable.explain(**options)

    def save(self, path: str | Path) -> None:
        """Save the program as a library; :func:`tvm_disc.load` loads it without JAX."""
        self.executable.save(path)
