"""Keras models on the JAX backend, compiled once and compared with Keras at several shapes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")

import jax  # noqa: E402
from keras import layers  # noqa: E402

import tvm_disc  # noqa: E402
import tvm_disc.jax as disc_jax  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

TEXTS = ((1, 1), (2, 5), (3, 17), (1, 64), (7, 8))
IMAGES = ((1, 32, 32, 3), (2, 48, 32, 3), (1, 68, 40, 3), (3, 33, 47, 3))


def sequential() -> Any:
    return keras.Sequential([layers.Input((8,)), layers.Dense(16, "relu"), layers.Dense(2)])


def recurrent() -> Any:
    tokens = keras.Input((None,), name="tokens", dtype="int32")
    x = layers.Embedding(50, 16, mask_zero=True)(tokens)
    x = layers.Bidirectional(layers.GRU(8, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(8))(x)
    return keras.Model(tokens, layers.Dense(4, "softmax")(x))


def text_cnn() -> Any:
    tokens = keras.Input((None,), name="tokens", dtype="int32")
    x = layers.Embedding(50, 16)(tokens)
    maps = [layers.Conv1D(8, k, activation="relu", padding="same")(x) for k in (2, 3, 4)]
    x = layers.Concatenate()([layers.GlobalMaxPooling1D()(y) for y in maps])
    return keras.Model(tokens, layers.Dense(3)(layers.Dropout(0.5)(x)))


def transformer() -> Any:
    """Return a model with dicts of inputs and results, whose inputs must have equal shapes."""
    tokens = keras.Input((None,), name="tokens", dtype="int32")
    mask = keras.Input((None,), name="mask", dtype="int32")
    x = layers.Embedding(50, 32)(tokens)
    x = x * keras.ops.cast(keras.ops.expand_dims(mask, -1), "float32")
    allowed = keras.ops.expand_dims(mask, 1)
    y = layers.MultiHeadAttention(4, 8)(x, x, attention_mask=allowed)
    x = layers.LayerNormalization()(x + y)
    x = layers.LayerNormalization()(x + layers.Dense(32)(layers.Dense(64, "gelu")(x)))
    pooled = layers.GlobalAveragePooling1D()(x)
    return keras.Model({"tokens": tokens, "mask": mask}, {"all": x, "pooled": pooled})


def convolutional() -> Any:
    """Return a residual network of depthwise convolutions, for images of any size."""
    image = keras.Input((None, None, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(image)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    y = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(layers.Conv2D(8, 1)(layers.ReLU(6.0)(y)))
    x = layers.SeparableConv2D(16, 3, strides=2)(layers.ZeroPadding2D(1)(layers.Add()([x, y])))
    return keras.Model(image, layers.GlobalAveragePooling2D()(layers.AveragePooling2D(2)(x)))


def unet() -> Any:
    image = keras.Input((None, None, 3), name="image")
    x, kept = image, []
    for width in (4, 8):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        kept.append(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D()(kept[-1])
    for width in (8, 4):
        x = layers.Conv2DTranspose(width, 2, strides=2, padding="same")(x)
        x = layers.Concatenate()([x, kept.pop()])
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return keras.Model(image, layers.Conv2D(1, 1)(x))


class Subclass(keras.Model):  # type: ignore[misc]
    """A model without declared inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers.Dense(3)

    def call(self, x: Any) -> Any:
        return self.inner(x)


def arguments(model: Any, shape: Sequence[int]) -> list[np.ndarray]:
    """Return random inputs: integers 0 and 1 are tokens and masks."""
    rng = np.random.default_rng(sum(shape))
    return [
        rng.integers(0, 2, shape, "int32")
        if x.dtype == "int32"
        else rng.standard_normal(shape).astype("float32")
        for x in model.inputs
    ]


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (sequential, [(n, 8) for n in (1, 2, 7, 64, 129)]),
        (recurrent, TEXTS),
        (text_cnn, TEXTS),
        (transformer, TEXTS),
        (convolutional, IMAGES),
    ],
)
def test_results_are_those_of_keras(
    make: Callable[[], Any], shapes: Sequence[tuple[int, ...]]
) -> None:
    model = make()
    with compile_counter() as compiled:
        exe = tvm_disc.build(model)
        for shape in shapes:
            given = arguments(model, shape)
            packed = keras.tree.pack_sequence_as(getattr(model, "input", given[0]), given)
            wanted = jax.tree.leaves(model(packed, training=False))
            found = exe(*given)
            found = found if isinstance(found, list | tuple) else [found]
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=str(shape))
    assert compiled[0] == 1


def test_inputs_have_the_names_of_the_model() -> None:
    exe = tvm_disc.build(transformer())
    assert exe.inputs == ["mask", "tokens"]
    ids = np.ones((2, 3), "int32")
    with pytest.raises(Exception, match="dim_1"):
        exe(tokens=ids, mask=ids[:, :2])


def test_an_updated_weight_is_in_the_next_program() -> None:
    model = sequential()
    x = np.ones((3, 8), "float32")
    first = np.asarray(tvm_disc.build(model)(x))
    bias = model.layers[-1].bias
    bias.assign(bias + 1.0)
    np.testing.assert_allclose(tvm_disc.build(model)(x), first + 1, rtol=1e-5)


def test_shapes_may_be_passed_through_jax() -> None:
    model = unet()
    with pytest.raises(Unsupported, match=r"Cannot concatenate.*symbolic_shape"):
        tvm_disc.build(model)
    shape = jax.export.symbolic_shape("b, 4*h, 4*w, 3")
    run = disc_jax.compile(model, jax.ShapeDtypeStruct(shape, "float32"))
    for b, h, w in ((1, 4, 4), (2, 8, 12), (1, 20, 36)):
        [x] = arguments(model, (b, h, w, 3))
        np.testing.assert_allclose(run(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_subclass_has_no_shapes() -> None:
    model = Subclass()
    x = np.ones((4, 5), "float32")
    wanted = model(x)
    with pytest.raises(Unsupported, match="'subclass' declares no input shapes"):
        tvm_disc.build(model)
    shape = jax.export.symbolic_shape("b, 5")
    run = disc_jax.compile(model, jax.ShapeDtypeStruct(shape, "float32"))
    np.testing.assert_allclose(run(x), wanted, rtol=1e-5)


def test_state_between_calls_is_refused() -> None:
    x = keras.Input(batch_shape=(2, None, 4))
    with pytest.raises(Unsupported, match="keeps state between calls"):
        tvm_disc.build(keras.Model(x, layers.LSTM(3, stateful=True)(x)))


def test_other_backends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(Unsupported, match=r"expected the backend 'jax', found 'torch'.*KERAS_"):
        tvm_disc.build(sequential())
