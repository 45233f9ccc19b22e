"""Single-thread convolutions at unknown batch and image size, compared to OpenVINO and PyTorch.

    python benchmarks/conv.py [resnet] [mobilenet] [crnn] [--only 3x3] [--rounds 5] [--quick]
                              [--target x86-64-v3]

Every layer (convolution, bias and relu) is compiled once and then runs on several batch and image
sizes. The OpenVINO model also has dynamic dims and is compiled once. Rounds call the engines
alternately. Times are CPU seconds of the process, including one Python call; ratios are medians of
per-round ratios. The C library is configured to keep freed memory, so that no engine pays for page
faults. ``openvino`` and ``torch`` are measured if they can be imported.
"""

# The environment must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import level

_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "TVM_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
}
if any(os.environ.get(k) != v for k, v in _SETTINGS.items()) and __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **_SETTINGS})
level.hold()

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

import tvm_disc
from tvm_disc import relay


@dataclass(frozen=True)
class Layer:
    """One convolution: channels in and out, kernel, stride, padding, groups, nominal image."""

    ic: int
    oc: int
    kernel: int
    stride: int
    padding: int
    groups: int
    image: tuple[int, int]

    def __str__(self) -> str:
        kind = "dw" if self.groups > 1 else ""
        stride = f"/{self.stride}" if self.stride > 1 else ""
        return f"{self.ic}->{self.oc} {kind}{self.kernel}x{self.kernel}{stride}"

    def flops(self, batch: int, image: tuple[int, int]) -> float:
        """Return the number of floating-point operations of one call."""
        reach = 2 * self.padding - self.kernel
        pixels = float(np.prod([(s + reach) // self.stride + 1 for s in image]))
        return 2.0 * batch * pixels * self.oc * self.ic / self.groups * self.kernel**2


def _plain(ic: int, oc: int, kernel: int, size: int, stride: int = 1) -> Layer:
    return Layer(ic, oc, kernel, stride, kernel // 2, 1, (size, size))


def _depthwise(channels: int, size: int, stride: int = 1) -> Layer:
    return Layer(channels, channels, 3, stride, 1, channels, (size, size))


def _crnn(ic: int, oc: int, image: tuple[int, int], kernel: int = 3, padding: int = 1) -> Layer:
    return Layer(ic, oc, kernel, 1, padding, 1, image)


# The distinct layers of each network, at the usual image size of the network.
NETWORKS: dict[str, list[Layer]] = {
    "resnet": [
        _plain(3, 64, 7, 224, 2),
        _plain(64, 64, 1, 56), _plain(64, 64, 3, 56), _plain(64, 256, 1, 56),
        _plain(256, 64, 1, 56), _plain(256, 128, 1, 56), _plain(128, 128, 3, 56, 2),
        _plain(128, 512, 1, 28), _plain(256, 512, 1, 56, 2), _plain(512, 128, 1, 28),
        _plain(128, 128, 3, 28), _plain(512, 256, 1, 28), _plain(256, 256, 3, 28, 2),
        _plain(256, 1024, 1, 14), _plain(512, 1024, 1, 28, 2), _plain(1024, 256, 1, 14),
        _plain(256, 256, 3, 14), _plain(1024, 512, 1, 14), _plain(512, 512, 3, 14, 2),
        _plain(512, 2048, 1, 7), _plain(1024, 2048, 1, 14, 2), _plain(2048, 512, 1, 7),
        _plain(512, 512, 3, 7),
    ],
    "mobilenet": [
        _plain(3, 32, 3, 224, 2),
        _depthwise(32, 112), _plain(32, 16, 1, 112), _plain(16, 96, 1, 112),
        _depthwise(96, 112, 2), _plain(96, 24, 1, 56), _plain(24, 144, 1, 56),
        _depthwise(144, 56), _plain(144, 24, 1, 56), _depthwise(144, 56, 2),
        _plain(144, 32, 1, 28), _plain(32, 192, 1, 28), _depthwise(192, 28),
        _plain(192, 32, 1, 28), _depthwise(192, 28, 2), _plain(192, 64, 1, 14),
        _plain(64, 384, 1, 14), _depthwise(384, 14), _plain(384, 64, 1, 14),
        _plain(384, 96, 1, 14), _plain(96, 576, 1, 14), _depthwise(576, 14),
        _plain(576, 96, 1, 14), _depthwise(576, 14, 2), _plain(576, 160, 1, 7),
        _plain(160, 960, 1, 7), _depthwise(960, 7), _plain(960, 160, 1, 7),
        _plain(960, 320, 1, 7), _plain(320, 1280, 1, 7),
    ],
    "crnn": [
        _crnn(1, 64, (32, 100)), _crnn(64, 128, (16, 50)), _crnn(128, 256, (8, 25)),
        _crnn(256, 256, (8, 25)), _crnn(256, 512, (4, 26)), _crnn(512, 512, (4, 26)),
        _crnn(512, 512, (2, 27), 2, 0),
    ],
}  # fmt: skip


def points(layer: Layer) -> list[tuple[int, tuple[int, int]]]:
    """Return (batch, image) pairs: the usual size, a larger one, and three smaller images."""

    def scaled(num: int, odd: bool) -> tuple[int, int]:
        height, width = (max(2, s * num // 7) for s in layer.image)
        return height, width | 1 if odd else width

    return [(1, layer.image), (1, scaled(9, False)), (3, scaled(5, True))]


QUICK = 5  # --quick measures every fifth layer
Call = Callable[[np.ndarray], Callable[[], Any]]


def ours(layer: Layer, w: np.ndarray, bias: np.ndarray) -> Call:
    """Return a call of the program that tvm_disc compiles."""
    x = relay.var("x", shape=(relay.Any(), layer.ic, relay.Any(), relay.Any()), dtype="float32")
    y = relay.nn.conv2d(
        x,
        relay.const(w),
        strides=(layer.stride,) * 2,
        padding=(layer.padding,) * 2,
        groups=layer.groups,
        channels=layer.oc,
        kernel_size=(layer.kernel,) * 2,
    )
    y = relay.nn.relu(relay.nn.bias_add(y, relay.const(bias)))
    exe = tvm_disc.build(relay.Function([x], y))

    def bind(data: np.ndarray) -> Callable[[], Any]:
        tensor = tvm.runtime.tensor(data)
        return lambda: exe(tensor)

    return bind


def openvino(layer: Layer, w: np.ndarray, bias: np.ndarray) -> Call | None:
    """Return a call of OpenVINO, which runs oneDNN, with a preallocated output tensor.

    Returns None if it is not installed.
    """
    try:
        import openvino as ov
        from openvino import opset13 as ops
    except ImportError:
        return None
    x = ops.parameter(ov.PartialShape([-1, layer.ic, -1, -1]), np.float32)
    pads = [layer.padding] * 2
    args = ([layer.stride] * 2, pads, pads, [1, 1])
    if layer.groups == 1:
        y = ops.convolution(x, ops.constant(w), *args)
    else:
        grouped = w.reshape(layer.groups, -1, *w.shape[1:])
        y = ops.group_convolution(x, ops.constant(grouped), *args)
    y = ops.relu(ops.add(y, ops.constant(bias.reshape(1, -1, 1, 1))))
    config = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    request = ov.Core().compile_model(ov.Model([y], [x]), "CPU", config).create_infer_request()

    def bind(data: np.ndarray) -> Callable[[], Any]:
        request.set_input_tensor(0, ov.Tensor(data, shared_memory=True))

        def call() -> Any:
            request.infer()
            return request.get_output_tensor(0).data

        call()
        return call

    return bind


def pytorch(layer: Layer, w: np.ndarray, bias: np.ndarray) -> Call | None:
    """Return a call of eager PyTorch, or None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    tw, tb = torch.from_numpy(w), torch.from_numpy(bias)

    def bind(data: np.ndarray) -> Callable[[], Any]:
        tx = torch.from_numpy(data)

        def call() -> Any:
            with torch.inference_mode():
                y = torch.conv2d(tx, tw, tb, layer.stride, layer.padding, 1, layer.groups)
                return y.relu_()

        return call

    return bind


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """Return the CPU seconds per call."""
    start = time.process_time()
    for _ in range(repeat):
        call()
    return (time.process_time() - start) / repeat


def measure(layer: Layer, rounds: int) -> list[dict[str, float]]:
    """Print a line per point, and return the speed-ups over each peer."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((layer.oc, layer.ic // layer.groups, layer.kernel, layer.kernel))
    w, bias = w.astype("float32"), rng.standard_normal(layer.oc).astype("float32")
    start = time.process_time()
    binds: dict[str, Call | None] = {"ours": ours(layer, w, bias)}
    spent = time.process_time() - start
    binds |= {"openvino": openvino(layer, w, bias), "torch": pytorch(layer, w, bias)}
    found = []
    for batch, image in points(layer):
        data = rng.standard_normal((batch, layer.ic, *image)).astype("float32")
        calls = {name: bind(data) for name, bind in binds.items() if bind is not None}
        results = {name: np.from_dlpack(np.asarray(call().numpy() if hasattr(call(), "numpy")
                   else call())) for name, call in calls.items()}  # fmt: skip
        for name, result in results.items():
            np.testing.assert_allclose(result, results["ours"], rtol=2e-3, atol=2e-3, err_msg=name)
        flops = layer.flops(batch, image)
        repeat = max(1, int(4e-3 * 60e9 / max(flops, 1e6)))
        rows = [{n: seconds(c, repeat) for n, c in calls.items()} for _ in range(rounds)]
        mine = float(np.median([r["ours"] for r in rows]))
        ratios = {
            n: float(np.median([r[n] / r["ours"] for r in rows])) for n in calls if n != "ours"
        }
        text = "  ".join(f"{n} {v:5.2f}x" for n, v in ratios.items())
        where = f"{layer} {batch}x{image[0]}x{image[1]}"
        print(f"{where:>32} {mine * 1e6:9.1f} us {flops / mine / 1e9:7.1f} GF/s  {text}"
              f"{f'  built in {spent:.2f} s' if batch == 1 and image == layer.image else ''}",
              flush=True)  # fmt: skip
        found.append(ratios)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        help=f"of {', '.join(NETWORKS)}; default: all")  # fmt: skip
    parser.add_argument("--only", default="", help="layers whose name has this text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="every fifth layer")
    level.add_option(parser)
    args = parser.parse_args()
    for name in args.networks:
        if name not in NETWORKS:
            parser.error(f"no network is called {name!r}; there are {', '.join(NETWORKS)}")
    for network in args.networks or NETWORKS:
        print(f"# {network}")
        layers = NETWORKS[network][:: QUICK if args.quick else 1]
        found = [r for layer in layers if args.only in str(layer)
                 for r in measure(layer, args.rounds)]  # fmt: skip
        for peer in found[0] if found else ():
            ratios = np.array([r[peer] for r in found])
            mean = float(np.exp(np.log(ratios).mean()))
            print(f"# {network} beside {peer}: geometric mean {mean:.2f}, worst {ratios.min():.2f}")
        if len(found) > 0 and len(found[0]) > 1:
            best = np.array([min(r.values()) for r in found])
            mean = float(np.exp(np.log(best).mean()))
            low = f"{int((best < 0.8).sum())} of {len(best)} below 0.8"
            print(f"# {network} beside the faster: geometric mean {mean:.2f}, "
                  f"worst {best.min():.2f}, {low}")  # fmt: skip


if __name__ == "__main__":
    main()
