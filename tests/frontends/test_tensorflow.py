"""SavedModels of TensorFlow, compiled once and compared with TensorFlow at several shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tf2onnx")

import tvm_disc  # noqa: E402
from tvm_disc.compile import compile_counter  # noqa: E402
from tvm_disc.errors import BadInput  # noqa: E402

pytestmark = pytest.mark.frontends
TEXTS = ((1, 1), (2, 5), (3, 17), (1, 64), (7, 8))
IMAGES = ((1, 8, 8), (2, 9, 12), (1, 33, 20), (3, 17, 17))


def weights(*shape: int) -> Any:
    """Return a variable with random values."""
    values = np.random.default_rng(0).standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))
    return tf.Variable(values.astype("float32"))


class Text(tf.Module):
    """Attention over embeddings, with two results."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.w = weights(50, 16), weights(16, 16)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="tokens")])
    def __call__(self, tokens: Any) -> Any:
        x = tf.gather(self.table, tokens)
        weight = tf.nn.softmax(tf.matmul(x @ self.w, x, transpose_b=True) / 4.0)
        y = tf.matmul(weight, x)
        return {"all": y, "best": tf.argmax(tf.reduce_mean(y, 1), -1)}


class Image(tf.Module):
    """A convolution, pooling and erf on images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.w = weights(3, 3, 3, 8)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="image")])
    def __call__(self, image: Any) -> Any:
        x = tf.nn.conv2d(image, self.w, 2, "SAME")
        x = x * tf.math.erf(x) + tf.nn.relu6(x)
        return tf.reduce_mean(tf.nn.max_pool2d(x, 2, 2, "SAME"), [1, 2])


def results(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


@pytest.mark.parametrize(("kind", "shapes"), [(Text, TEXTS), (Image, IMAGES)])
def test_results_are_those_of_tensorflow(kind: Any, shapes: Any, tmp_path: Path) -> None:
    model = kind()
    tf.saved_model.save(model, str(tmp_path))
    with compile_counter() as compiled:
        exe = tvm_disc.build(tmp_path)
        for shape in shapes:
            rng = np.random.default_rng(sum(shape))
            if kind is Text:
                x = rng.integers(0, 50, shape, "int32")
            else:
                x = rng.standard_normal((*shape, 3)).astype("float32")
            wanted = tf.nest.flatten(model(x))
            for got, want in zip(results(exe(x)), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=str(shape))
    assert compiled[0] == 1
    assert exe.inputs == [("tokens" if kind is Text else "image")]


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="tf2onnx cannot convert it"):
        tvm_disc.build(str(tmp_path))
