"""Versions of a program: a general one, and a special one for dims that are usually equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm import relax

from tvm_disc.options import Options
from tvm_disc.relay.importer.module import ImportedModule
from tvm_disc.relay.module import IRModule, carried_by
from tvm_disc.relay.object_ops import uses_boxes
from tvm_disc.relay.types import TensorType
from tvm_disc.relay_passes.narrow_weights import Narrowing
from tvm_disc.relay_passes.propagation.propagate import PropagateShapeConstraints
from tvm_disc.relay_passes.quantize_weights import BITS, WeightFormat
from tvm_disc.shape import special_version
from tvm_disc.support.late import Late
from tvm_disc.typing import TVMFunction, TVMModule

_check_names = Late("tvm_disc.relay_passes.ragged.declared:check_names")


@dataclass(frozen=True)
class Told:
    """Arguments of the graph passes that are not part of the module."""

    params: Mapping[str, Any]
    constraints: Sequence[str]
    options: Options
    premises: Sequence[str] = ()
    ragged: Mapping[str, int] = field(default_factory=dict)

    def propagate(self) -> Any:
        """Return a new pass `propagate`; its remaining guards are checked by the host program."""
        told: Any = {"params": self.params, "check_indices": self.options.check_indices}
        return PropagateShapeConstraints(
            self.constraints, portable=False, premises=self.premises, **told
        )

    @property
    def narrowing(self) -> Narrowing:
        """The rounding of matmul operands that the options allow :func:`NarrowWeights`."""
        kind = self.options.weights
        form = None if kind is None else WeightFormat(BITS[kind], self.options.weight_group)
        return Narrowing(self.options.int8_activations, form)


def import_versions(
    module: TVMModule,
    params: Mapping[str, np.ndarray] | None,
    constraints: Sequence[str],
    several: bool,
) -> list[ImportedModule]:
    """Return the versions of a Relax module, the general one last.

    If ``several`` is set and the program is simpler when certain input dims are equal, a special
    version for that case comes first.
    """
    return versions_of(module, Told(params or {}, constraints, Options(versions=several)))


def versions_of(module: TVMModule, told: Told) -> list[ImportedModule]:
    """Return the versions of a module after `propagate`, the general one last.

    A ragged program has exactly one version.
    """
    names = _input_names(module, told.params) if told.ragged else None
    if names is not None:
        _check_names(told.ragged, names)

    def read(premises: Sequence[str], equal: Sequence[str] = ()) -> ImportedModule:
        stated = [*told.constraints, *equal]
        propagate = replace(told, premises=premises, constraints=stated).propagate()
        mod = propagate.transform_module(module, None)
        return ImportedModule(mod, propagate.solver, external=propagate.external)

    general = read(())
    # The dims inside boxed values are unknown at entry, so they cannot select a version.
    several = (told.options.versions or told.ragged) and not uses_boxes(general.mod)
    special = special_version(read, general) if several else None
    if special is None:
        return [general]
    if told.ragged:
        # A ragged program has no general version: its inputs have equal lengths for all items, so
        # that the premises become constraints of every call.
        return [read((), [premise.text for premise in special[1]])]
    return [replace(special[0], premises=special[1]), general]


def _input_names(module: Any, params: Mapping[str, object]) -> list[str] | None:
    """Return the names of the inputs, except ``params``; None if one is not a tensor."""
    source = module if isinstance(module, IRModule) else carried_by(module)
    if source is None:
        return [str(p.name) for p in module["main"].params if str(p.name) not in params]
    found = [p for p in source["main"].params if p.name_hint not in params]
    tensors = all(isinstance(p.type_annotation, TensorType) for p in found)
    return [p.name_hint for p in found] if tensors else None


def kernel_calls(mod: Any) -> int:
    """Return the number of kernel calls in the functions of a fused module, except in branches."""
    functions = dict(mod.functions_items())
    plain = [f for f in functions.values() if isinstance(f, relax.Function) and not _kernel(f)]
    calls = [b.value for f in plain for block in f.body.blocks for b in block.bindings]
    called = [functions.get(getattr(c, "op", None)) for c in calls]
    return sum(f is not None and _kernel(f) for f in called)


def groups(mod: TVMModule) -> int:
    """Return the number of groups of a fused module; each group becomes a kernel."""
    return sum(_kernel(f) for _, f in mod.functions_items())


def _kernel(func: TVMFunction) -> bool:
    return func.attrs is not None and "disc.kind" in func.attrs


__all__ = ["Told", "groups", "import_versions", "kernel_calls", "versions_of"]
