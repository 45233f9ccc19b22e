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
    """A compiled JAX function: takes and returns pytrees of arrays, as the function does.

    Attributes:
        executable: the program; its inputs are the leaves of the arguments.
        exported: the ``jax.export.Exported`` that it was built from.
    """

    def __init__(self, exported: Any, executable: Executable, donated: Sequence[int] = ()) -> None:
        self.exported, self.executable, self._donated = exported, executable, donated
        self._in_tree, self._out_tree = exported.in_tree, exported.out_tree
        self._flatten = flattening()
        self._wrap: Callable[[SupportsDLPack], object] | None = None
        self._view: Viewer | None = None
        self.shapes: set[Hashable] = set()  # shapes for which XLA has compiled a custom call
        self._calls = CallTable()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the program; inside ``jax.jit`` as a custom call or a callback.

        Raises:
            BadInput: the arguments have another structure than the function was compiled for.
        """
        calls = self._calls
        if calls.settled is not None and not calls.observers:
            try:
                return calls.settled(*args, **kwargs)
            except calls.errors:
                calls.settled = None
        leaves, tree = self._flatten((args, kwargs))
        if tree != self._in_tree:
            raise BadInput(f"arguments: expected the structure {self._in_tree}, found {tree}")
        key = *map(type, leaves), *kinds(leaves)
        call = calls.get(key) or calls.add(key, self, leaves)
        return call(leaves)

    def on_leaves(self, leaves: Sequence[object]) -> object:
        """Call the program on the leaves of arguments of the right structure."""
        kind = kind_of_arrays()
        for x in leaves:
            if type(x) is not kind:
                return self._on_any(leaves)
        return self._run(leaves)

    @cached_property
    def by_xla(self) -> Callable[..., object]:
        """The call as a custom call of XLA, for ``shapes`` only; others raise NewShape."""
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
        """The same for the leaves of arguments."""
        import jax

        def call(*leaves: object) -> object:
            return self._traced(leaves)

        found: Callable[..., object] = jax.jit(call, donate_argnums=tuple(self._taken))
        return found

    @property
    def donates(self) -> bool:
        """Whether calls delete some of their arguments."""
        return bool(self._donated)

    def arrays(self) -> int:
        """Return the number of arrays that a call converts."""
        return len(self.exported.in_avals) + len(self.exported.out_avals)

    def _on_any(self, leaves: Sequence[object]) -> object:
        import jax

        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return self._traced(leaves)
        wanted = self.exported.in_avals
        return self._run([as_array(x, a.dtype) for x, a in zip(leaves, wanted, strict=True)])

    def _run(self, leaves: Sequence[Any]) -> object:
        made = self._results(leaves)
        results = [made] if hasattr(made, "__dlpack__") else list(made)
        wrap = self._wrap
        if wrap is None:
            wrap = self._wrap = wrapper(self.exported.out_avals, results)
        found = [wrap(x) for x in results]
        self.delete(leaves)
        return self._out_tree.unflatten(found)

    def _results(self, leaves: Sequence[Any]) -> Any:
        """Return the program's results as TVM tensors."""
        view = self._view
        if view is None or self.executable.observers:
            made = self.executable.on_tensors(leaves)
            self._view = viewer(leaves, [*self._taken])
            return made
        try:
            return self.executable.entries()[0](*view(leaves))
        except Exception:  # report it with the arrays themselves
            return self.executable.on_tensors(leaves)

    def delete(self, leaves: Sequence[object]) -> None:
        """Delete the donated arrays among some leaves."""
        for k in self._donated:
            delete = getattr(leaves[k], "delete", None)
            if delete is not None:
                delete()

    def _traced(self, leaves: Sequence[object]) -> object:
        """Return the call as part of the program that JAX traces."""
        import jax

        def run(*given: object) -> object:
            return self._run([jax.numpy.asarray(x) for x in given])

        kinds = [a.dtype for a in self.exported.in_avals]
        arrays = [as_array(x, dtype) for x, dtype in zip(leaves, kinds, strict=True)]
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
        args, kwargs = jax.tree.unflatten(self.exported.in_tree, specs)
        result = jax.eval_shape(self.exported.call, *args, **kwargs)
        call = custom_call(self.executable, jax.tree.leaves(result), self._taken)
        if call is None:
            return jax.pure_callback(run, result, *arrays)
        return self._out_tree.unflatten(call(*arrays))

    def explain(self, **options: Any) -> str:
        """Return the report of :meth:`Executable.explain`."""
        return self.executable.explain(**options)

    def save(self, path: str | Path) -> None:
        """Save the program as a library, which runs without JAX: :func:`tvm_disc.load`."""
        self.executable.save(path)
