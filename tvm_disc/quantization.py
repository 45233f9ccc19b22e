"""``quantize``: compile a float model with quantized weights, and optionally activations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from tvm_disc.compile import Params, build
from tvm_disc.errors import BadInput, shown
from tvm_disc.frontends.sources import Source
from tvm_disc.options import Options
from tvm_disc.runtime.executable import Executable
from tvm_disc.runtime.inputs import checked_arguments, prepared_inputs
from tvm_disc.runtime.observed.recording import arrays_of
from tvm_disc.support.late import Late
from tvm_disc.typing import (
    Argument,
    Array,
    DynamicShapes,
    ExampleInputs,
    TargetLike,
    TVMModule,
    UserPass,
    UserPasses,
)

_observe = Late("tvm_disc.relay_passes.calibration.ranges:ObserveRanges")
_measure = Late("tvm_disc.relay_passes.calibration.ranges:MeasureErrors")
_quantize = Late("tvm_disc.relay_passes.calibration.ranges:QuantizeOperands")
PLACE = "before integer-products"


def quantize(
    source: Source,
    *,
    weights: str = "int8",
    group: int = 32,
    calibration: Iterable[Sequence[Argument] | Mapping[str, Argument]] | None = None,
    params: Params = None,
    target: TargetLike = None,
    constraints: Sequence[str] = (),
    options: Options | None = None,
    passes: UserPasses | None = None,
    example_inputs: ExampleInputs | None = None,
    dynamic_shapes: DynamicShapes | None = None,
) -> Executable:
    """Compile a float32 model with quantized weights and, if calibrated, quantized activations.

    Without ``calibration``, only weights of matmuls are quantized, as by ``Options(weights=...)``,
    and products are computed in float32. With ``calibration``, convolutions and matmuls with
    literal weights multiply 8-bit integers: weights have a scale per output channel, and an
    activation has one scale and zero point, from the range of its values for the calibration
    inputs. Values outside of this range are clipped. ``explain()`` lists the matmuls and
    convolutions with the error of their weights, the range of their activations, and the error of
    their results for the calibration inputs. To measure these, the model is built three times.

    Args:
        source: as in :func:`build`.
        weights: ``"int8"`` or ``"int4"``; int8 with ``calibration``.
        group: elements along K that share a scale; 0 means a scale per column. Not used with
            ``calibration``.
        calibration: inputs of typical calls: a tuple, or a mapping by name, for each call.
        params, target, constraints, options, passes, example_inputs, dynamic_shapes: as in
            :func:`build`.

    Raises:
        BadInput: ``calibration`` is empty, does not fit the inputs of the model, or is given with
            4-bit weights or with ``Options(state=...)``.

    Examples:
        >>> exe = tvm_disc.quantize("resnet.onnx", calibration=[(image,) for image in images])
    """
    options = Options.from_env(options)
    compiled = partial(
        build,
        source,
        params=params,
        constraints=constraints,
        example_inputs=example_inputs,
        dynamic_shapes=dynamic_shapes,
    )
    if calibration is None:
        options = replace(options, weights=weights, weight_group=group)
        return compiled(target=target, options=options, passes=passes)
    if weights != "int8":
        raise BadInput(f"weights: expected 'int8' with calibration inputs, found {shown(weights)}")
    if options.state:
        raise BadInput("state: not supported together with calibration; leave it out")
    calls = _calls(calibration)
    given = dict(passes or {})
    before = given.get(PLACE, ())
    own: list[UserPass] = [before] if callable(before) else list(before)
    options = replace(options, versions=False)

    def built(last: UserPass, target: TargetLike = None) -> Executable:
        hooks: UserPasses = {**given, PLACE: [*own, last]}
        return compiled(target=target, options=options, passes=hooks)

    def calibrated(measure: _CountingPass) -> None:
        exe = built(measure)  # on this machine, whatever the target is
        for inputs in calls:
            flat = exe._flat((), inputs) if isinstance(inputs, Mapping) else exe._flat(inputs, {})
            values = prepared_inputs(exe.signature, checked_arguments(exe.signature, flat))
            results = list(arrays_of(exe.on_tensors(values)))
            measure.add(results[len(results) - measure.count :])

    observe = _observe()
    calibrated(observe)
    ranges = observe.of_products()
    measure = _measure(ranges)
    calibrated(measure)
    return built(_quantize(ranges, measure.of_products()), target)


class _CountingPass(Protocol):
    """Pass that adds ``count`` results to ``main``, and receives them after each call."""

    count: int

    def __call__(self, mod: TVMModule) -> TVMModule: ...

    def add(self, values: Sequence[Array]) -> None: ...


def _calls(calibration: object) -> list[tuple[Argument, ...] | Mapping[str, Argument]]:
    """Return the inputs of each call."""
    if not isinstance(calibration, Iterable) or isinstance(
        calibration, str | bytes | Mapping | np.ndarray
    ):
        found = type(calibration).__name__
        raise BadInput(f"calibration: expected a list of the inputs of calls, found {found}")
    calls: list[tuple[Argument, ...] | Mapping[str, Argument]] = []
    for inputs in calibration:
        if not isinstance(inputs, list | tuple | Mapping):
            raise BadInput(
                "calibration: expected a tuple or a mapping of inputs for each call, found "
                f"{type(inputs).__name__}"
            )
        calls.append(inputs if isinstance(inputs, Mapping) else tuple(inputs))
    if not calls:
        raise BadInput("calibration: expected the inputs of at least one call, found none")
    return calls


__all__ = ["quantize"]
