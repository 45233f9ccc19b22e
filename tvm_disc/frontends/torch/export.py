"""Export of PyTorch modules that the user passes to ``build``.

Every dim remains dynamic unless the module fixes it. By default PyTorch specializes sizes 0 and 1
of the example, and assumes that sizes computed from dims are not 0 or 1, which narrows the ranges
of dims. Its size-oblivious mode does neither. If a module cannot be exported in this mode, other
ways with fewer dynamic dims are tried in order, and dims that are fixed to 1 are reported.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tvm_disc.errors import BadInput, TypeMismatch, Unsupported
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.torch.agree import Agreement, user_inputs
from tvm_disc.frontends.torch.conditions import Recorded, recorded_guards
from tvm_disc.frontends.torch.recurrent import whole_layers
from tvm_disc.frontends.torch.signature import register_classes, with_named_parameters
from tvm_disc.typing import ExportedProgram, TorchTensor

log = logging.getLogger("tvm_disc")

# Beginnings of lines of PyTorch's messages that advise on debugging PyTorch.
_ADVICE = ("For more", "For extended", "For C++", "If you suspect", "consider using", "Caused by:")
# Axes of size 1 in the example, as (number of the argument's leaf, axis).
Ones = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Exported:
    """A program that was exported by this module.

    Attributes:
        program: a ``torch.export.ExportedProgram``.
        oblivious: whether the module was traced in PyTorch's size-oblivious mode.
        notes: sentences for the user about the program.
        settled: the texts of guards that exclude sizes of 0 and 1 although the program is valid for
            them, each with the weaker guard that replaces it, or "".
        strict: whether PyTorch analyzed the module's bytecode instead of running the module.
    """

    program: Any
    oblivious: bool = False
    notes: tuple[str, ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False


def exported(module: object, example_inputs: object, dynamic_shapes: object = None) -> Exported:
    """Return a module exported by ``torch.export.export``, with recurrent layers of any length.

    Args:
        module: a ``torch.nn.Module``.
        example_inputs: the arguments of an example call: a tuple of positional inputs, or a mapping
            of inputs by name.
        dynamic_shapes: as in ``torch.export.export``; by default every dim of every tensor is
            dynamic if the module allows it.

    Raises:
        TypeMismatch: ``module`` is not a module.
        BadInput: ``example_inputs`` is neither a sequence nor a mapping.
        Unsupported: PyTorch cannot export the module; the message has PyTorch's reason.
    """
    require("torch", "torch", "build of a torch.nn.Module")
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeMismatch(
            "example_inputs: expected a torch.nn.Module as the model, found "
            f"{type(module).__name__}"
        )
    if isinstance(example_inputs, Mapping):
        args, kwargs = (), dict(example_inputs)
    elif isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        args, kwargs = tuple(example_inputs), {}
    else:
        found = type(example_inputs).__name__
        raise BadInput(
            "example_inputs: expected a tuple of inputs or a mapping of them by name, "
            f"found {found}"
        )
    register_classes((args, kwargs))
    tries = _Tries(module, args, kwargs, dynamic_shapes)
    made = next((one for way in tries.ways() if (one := way()) is not None), None)
    if made is not None:
        made = tries.less_fixed(made)
        made = replace(made, settled=tries.settled(made))
        for note in made.notes:
            log.warning("build: %s", note)
        return made
    failed = tries.failures[0]
    raise Unsupported(
        f"PyTorch cannot export this module: {type(failed).__name__}: {_reason(failed)}\n{_ADVISED}"
    ) from failed


_ADVISED = (
    'if PyTorch runs the module on these inputs, torch.compile(model, backend="tvm_disc", '
    "dynamic=True) runs the parts that cannot be exported in PyTorch and compiles the rest"
)


def _reason(error: Exception) -> str:
    """Return PyTorch's message without its advice, with the source line that raised the error."""
    reason, _, place = str(error).strip().partition("The following call raised this error:")
    lines = [line for line in reason.splitlines() if line.strip()]
    kept = [line for line in lines if not line.lstrip().startswith(_ADVICE)]
    calls = re.findall(r'File "([^"]+)", line (\d+), in (\w+)\n\s*(.+)', place)
    if calls:
        file, number, function, code = calls[-1]
        kept.append(f"raised by {function} ({Path(file).name}:{number}), `{code.strip()}`")
    return "\n".join(kept)[:2000]


def oblivious(enabled: bool = True) -> AbstractContextManager[object]:
    """Enable PyTorch's size-oblivious mode, in which sizes of 0 and 1 are not special."""
    if not enabled:
        return nullcontext()
    from torch.fx.experimental import _config

    found: AbstractContextManager[object] = _config.patch(backed_size_oblivious=True)
    return found


@contextmanager
def _unlogged() -> Iterator[None]:
    """Suppress PyTorch's log messages about failed exports; it also raises the errors."""
    names = ("torch._guards", "torch.fx.experimental.symbolic_shapes", "torch.export")
    loggers = [logging.getLogger(name) for name in names]
    before = [one.disabled for one in loggers]
    for one in loggers:
        one.disabled = True
    try:
        yield
    finally:
        for one, disabled in zip(loggers, before, strict=True):
            one.disabled = disabled


class _Tries:
    """Exports one module in several ways, of which the first has the most dynamic dims."""

    def __init__(
        self,
        module: object,
        args: tuple[TorchTensor, ...],
        kwargs: dict[str, object],
        dynamic_shapes: object,
    ) -> None:
        self.given = dynamic_shapes
        self.failures: list[Exception] = []
        self.module, self.args, self.kwargs = module, args, kwargs
        if dynamic_shapes is None:
            # If the arguments are invalid, the export raises the error.
            with suppress(TypeError, ValueError):
                self.module, self.args, self.kwargs = with_named_parameters(module, args, kwargs)
        self.ones = self._ones()

    def ways(self) -> Iterator[Callable[[], Exported | None]]:
        """Yield functions that export the module, in the order in which they are tried."""
        if self.given is None:
            yield lambda: self._settled(self.ones)
            leading = Ones(place for place in self.ones if place[1] == 0)
            if leading and leading != self.ones:
                yield lambda: self._settled(leading)
            if self.ones:
                yield lambda: self._settled(Ones())
        else:
            yield lambda: self._made(self.ones, sparing=True)
        yield lambda: self._made(Ones(), sparing=False)
        # If PyTorch cannot prove a condition on sizes for the given ranges, the export fails. This
        # way makes the conditions assertions of the program, which are proved or checked on entry.
        yield lambda: self._made(Ones(), sparing=False, later=True)
        # When PyTorch runs the module, ``int(size)`` and ``len(tensor)`` return Python integers,
        # which fixes the size. If it analyzes the bytecode instead, they remain symbolic.
        if self.given is not None:
            yield lambda: self._made(self.ones, sparing=True, strict=True)

    def _settled(self, dynamic: Ones) -> Exported | None:
        """Return the export with the dims ``dynamic`` of size 1 dynamic, or None if it fails.

        If an operator's implementation fixes such a dim to 1, the export is repeated with an
        example of size 2. An axis of size 1 that the module squeezes remains fixed.
        """
        made = self._made(dynamic, sparing=True)
        if made is None:
            return None
        squeezed = self._squeezed(made.program, dynamic)
        if squeezed:
            return self._settled(dynamic - squeezed)
        fixed = self._fixed(made.program) & dynamic
        if fixed and _fixed_by_implementation(made.program):
            again = self._made(dynamic, sparing=True, doubled=fixed)
            if again is not None and not self._fixed(again.program) & dynamic:
                made = again
        return self._noted(made)

    def _noted(self, made: Exported) -> Exported:
        leaves = user_inputs(made.program)
        notes = tuple(
            f"input '{leaves[leaf].name}' axis {axis} is 1 in the example and is fixed to 1: "
            "PyTorch's export of the module requires it; pass an example of another size, or "
            "dynamic_shapes"
            for leaf, axis in sorted(self._fixed(made.program))
        )
        return replace(made, notes=notes)

    def _made(
        self, dynamic: Ones, sparing: bool, later: bool = False, doubled: Ones = frozenset(),
        strict: bool = False,
    ) -> Exported | None:  # fmt: skip
        """Export the module in one way; return None if the export fails.

        Args:
            dynamic: the dims of size 1 that should be dynamic.
            sparing: whether to use the size-oblivious mode.
            later: whether conditions become assertions of the graph.
            doubled: dims of size 1 that get size 2 in the example.
            strict: whether PyTorch analyzes the module's bytecode instead of running the module.
        """
        import torch

        args, kwargs, shapes = self._example(dynamic, doubled)
        how = {"prefer_deferred_runtime_asserts_over_guards": later, "strict": strict}
        try:
            with ExitStack() as stack:
                for context in (torch.no_grad(), whole_layers(), oblivious(sparing), _unlogged()):
                    stack.enter_context(context)
                program = torch.export.export(
                    self.module, args, kwargs or None, dynamic_shapes=shapes, **how
                )
        except Exception as error:  # PyTorch runs the module, which may raise any exception
            self.failures.append(error)
            return None
        return Exported(program, sparing, strict=strict)

    def less_fixed(self, made: Exported) -> Exported:
        """Return an export by analysis of the bytecode if it fixes fewer sizes, else ``made``.

        Running the module fixes sizes that it reads by ``int(size)`` or ``len(tensor)``. The
        analysis is tried only if the module fixes a first axis or a computed size: other axes are
        often fixed intentionally, such as the number of channels.
        """
        fixed = _fixed_by_module(made.program)
        if made.strict or not fixed:
            return made
        other = self._made(self.ones, sparing=True, strict=True)
        if other is None or _fixed_by_module(other.program) >= fixed:
            return made
        return self._noted(other)

    def settled(self, made: Exported) -> dict[str, str]:
        """Return the unnecessary guards on sizes of 0 and 1, see ``Exported.settled``."""
        return Agreement(made.program, partial(self._of_sizes, made)).settled()

    def _of_sizes(
        self,
        made: Exported,
        sizes: Mapping[tuple[int, int], int],
        narrowed: Mapping[tuple[int, int], int],
    ) -> object:
        """Return the program for fixed ``sizes`` of some axes, or None if the export fails.

        Axes that are fixed in ``made`` are also fixed in the result. The example also has the sizes
        ``narrowed``, but these axes remain dynamic.
        """
        from torch.utils import _pytree as pytree

        leaves, spec = self._leaves()
        for (k, axis), size in {**sizes, **narrowed}.items():
            leaves[k] = leaves[k].narrow(axis, 0, size)
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        one = copy(self)  # a copy, because the module has its named parameters already
        one.args, one.kwargs, one.given, one.failures = args, kwargs, None, []
        one.ones = Ones(sizes) | {
            (k, axis)
            for k, value in enumerate(_leaf_values(made.program))
            for axis in range(len(getattr(value, "shape", ())))
            if isinstance(_dim(value, axis), int)
        }
        found = one._made(Ones(), made.oblivious, strict=made.strict)
        return None if found is None else found.program

    def _leaves(self) -> tuple[list[TorchTensor], Any]:
        from torch.utils import _pytree as pytree

        leaves, spec = pytree.tree_flatten((self.args, self.kwargs))
        return leaves, spec

    def _ones(self) -> Ones:
        leaves, _ = self._leaves()
        return Ones(
            (k, axis)
            for k, leaf in enumerate(leaves)
            for axis, size in enumerate(getattr(leaf, "shape", ()))
            if size == 1
        )

    def _example(self, dynamic: Ones, doubled: Ones) -> tuple[object, object, object]:
        """Return args, kwargs and dynamic shapes for one export; see :meth:`_made`."""
        import torch
        from torch.utils import _pytree as pytree

        if self.given is not None:
            return self.args, self.kwargs, self.given
        auto = torch.export.Dim.AUTO
        leaves, spec = self._leaves()
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                for axis in range(leaf.dim()):
                    if (k, axis) in doubled:
                        leaf = leaf.repeat_interleave(2, axis)
                # If a tensor occurs twice, it becomes two inputs with independent shapes.
                leaves[k] = leaf if leaf is not leaves[k] else leaf.view_as(leaf)
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        shapes = torch.export.ShapesCollection()
        # Read the leaves again, because containers may have copied their elements.
        for k, leaf in enumerate(pytree.tree_leaves((args, kwargs))):
            if isinstance(leaf, torch.Tensor):
                axes = range(leaf.dim())
                free = [a for a in axes if (k, a) in dynamic or (k, a) not in self.ones]
                shapes[leaf] = dict.fromkeys(free, auto)
        return args, kwargs, shapes if len(shapes) else None

    def _fixed(self, program: object) -> Ones:
        """Return the dims of size 1 in the example that the program requires to be 1."""
        found = _leaf_values(program)
        ones = {s for guard in _asking_for_one(program) for s in guard.expr.free_symbols}

        def fixed(dim: object) -> bool:
            return isinstance(dim, int) or dim in ones

        return Ones(place for place in self.ones if fixed(_dim(found[place[0]], place[1])))

    def _squeezed(self, program: ExportedProgram, dynamic: Ones) -> Ones:
        """Return the dynamic dims of size 1 that occur in the size of an axis that is squeezed."""
        symbols = {s for dim in _kept_axes(program) for s in dim.free_symbols}
        found = _leaf_values(program)
        return Ones(
            (k, axis)
            for k, axis in dynamic
            if symbols & getattr(_dim(found[k], axis), "free_symbols", set())
        )


def _dim(value: TorchTensor, axis: int) -> object:
    """Return a dim as an integer or an expression, or None if ``value`` is not a tensor."""
    from tvm_disc.frontends.torch.values import dim_of

    return dim_of(value.shape[axis]) if hasattr(value, "shape") else None


def _leaf_values(program: ExportedProgram) -> list[object]:
    return [node.meta.get("val") for node in user_inputs(program)]


def _kept_axes(program: ExportedProgram) -> Iterator[Any]:
    """Yield the symbolic dims of the axes to which the program applies ``squeeze``."""
    for node in program.graph.nodes:
        name = str(node.target)
        if not name.startswith("aten.squeeze"):
            continue
        operand = node.args[0].meta["val"]
        asked = node.args[1] if len(node.args) > 1 else list(range(operand.dim()))
        for axis in [asked] if isinstance(asked, int) else asked:
            dim = _dim(operand, axis) if operand.dim() else 1
            if not isinstance(dim, int):
                yield dim


def _asking_for_one(program: ExportedProgram) -> list[Recorded]:
    """Return the guards that require a size of 1."""
    guards = recorded_guards(program)
    return [g for g in guards if type(g.expr).__name__ == "Equality" and 1 in g.expr.args]


def _fixed_by_module(program: ExportedProgram) -> int:
    """Return the number of first axes and of computed sizes that the module's code fixes."""
    first = {
        str(symbol)
        for guard in recorded_guards(program)
        for symbol in guard.expr.free_symbols
        if guard.code.startswith("L[") and ".size()[0] ==" in guard.code
    }
    return sum(
        type(guard.expr).__name__ == "Equality"
        and guard.expr.rhs.is_number
        and not guard.inside
        and (not guard.expr.lhs.is_Symbol or str(guard.expr.lhs) in first)
        for guard in recorded_guards(program)
    )


def _fixed_by_implementation(program: ExportedProgram) -> bool:
    """Return whether an operator's implementation, not the module, requires a size of 1."""
    return any(guard.inside for guard in _asking_for_one(program))


def load_program(path: str | os.PathLike[str]) -> object:
    """Return the exported program of a file that ``torch.export.save`` wrote.

    Raises:
        BadInput: the file cannot be read, or is not an exported program.
        Unsupported: PyTorch is not installed.
    """
    require("torch", "torch", f"{path}")
    import torch

    if not Path(path).is_file():
        why = "expected a regular file" if Path(path).exists() else "No such file or directory"
        raise BadInput(f"{path}: {why}")
    try:
        return torch.export.load(path)
    except Exception as error:  # PyTorch may raise any exception while it unpacks the file
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise BadInput(
            f"{path}: expected a program that torch.export.save wrote: {text}"
        ) from error


__all__ = ["Exported", "exported", "load_program", "oblivious"]
