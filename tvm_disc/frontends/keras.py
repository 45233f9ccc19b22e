"""Import of Keras 3 models on the JAX backend: JAX exports them with symbolic dims."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.stablehlo.model import from_stablehlo
from tvm_disc.relay.module import IRModule

if TYPE_CHECKING:
    from jax.export import Exported
    from keras import KerasTensor, Model

_ADVICE = (
    "pass the shapes: tvm_disc.jax.compile(model, jax.ShapeDtypeStruct("
    'jax.export.symbolic_shape("b, 8*h, 8*w, 3"), "float32"))'
)


def from_keras(model: Model) -> IRModule:
    """Return the Relay module of a Keras model's inference; weights are constants.

    Inputs have the model's names. Unknown first dims are one symbol ``batch``. Each other unknown
    dim is a symbol ``NAME_AXIS``, for the name of its input. If JAX cannot export the model with
    these symbols, the inputs share one symbol ``dim_AXIS`` per axis.

    Raises:
        Unsupported: Keras runs on another backend; or the model has no input shapes, keeps state
            between calls, or cannot be exported by JAX with unknown dims.
    """
    import keras

    backend = keras.backend.backend()
    if backend != "jax":
        raise Unsupported(
            f"Keras model {model.name!r}: expected the backend 'jax', found {backend!r}; set "
            "KERAS_BACKEND=jax before Keras is imported, and load the model from its file, "
            'or, on TensorFlow, build the folder that model.export("folder") writes'
        )
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise Unsupported(
            f"Keras model {model.name!r} declares no input shapes, because it is a subclass of "
            f"keras.Model or is not built; {_ADVICE}"
        )
    several = sum(None in x.shape[1:] for x in inputs) > 1
    for shared in (False, True) if several else (False,):
        try:
            return from_stablehlo(_exported(model, inputs, shared))
        except (TypeError, ValueError) as error:  # JAX cannot prove that two shapes are equal
            found = error
    raise Unsupported(
        f"Keras model {model.name!r}: JAX cannot export it with symbols for the Nones of the input "
        f"shapes: {_text(found)}; {_ADVICE}"
    ) from found


def _text(error: Exception) -> str:
    """Return the message of an error as one line, without terminal colors and Keras' call stack."""
    plain = re.sub(r"\x1b\[\d*m", "", str(error)).split("\n\nArguments received")[0]
    return " ".join(plain.split())[:400]


def _exported(model: Model, inputs: Sequence[KerasTensor], shared: bool) -> Exported:
    """Return the exported model; if ``shared``, all inputs have one symbol per unknown axis."""
    import jax
    import keras

    def call(*given: jax.Array) -> object:
        # a Sequential model may lack the attribute `input`; it has one input
        packed = keras.tree.pack_sequence_as(getattr(model, "input", inputs[0]), list(given))
        with keras.StatelessScope() as scope:
            results = model(packed, training=False)
        if scope.state_mapping:
            raise Unsupported(
                f"Keras model {model.name!r}: a layer keeps state between calls; build a model "
                "that has the state as an input and returns it"
            )
        return results

    names = [re.sub(r"\W|^(?=\d)", "_", x.name) for x in inputs]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    call.__signature__ = signature  # type: ignore[attr-defined]
    scope = jax.export.SymbolicScope()
    specs = []
    for name, x in zip(names, inputs, strict=True):
        stem = "dim" if shared else name
        dims = [f"{stem}_{k}" if d is None else str(d) for k, d in enumerate(x.shape)]
        dims[:1] = ["batch"] if x.shape and x.shape[0] is None else dims[:1]
        shape = jax.export.symbolic_shape(", ".join(dims), scope=scope)
        specs.append(jax.ShapeDtypeStruct(shape, x.dtype))
    return jax.export.export(jax.jit(call))(*specs)


__all__ = ["from_keras"]
