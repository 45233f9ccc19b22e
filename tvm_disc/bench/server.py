"""Process of one engine: ``python server.py ENGINE MODEL THREADS``.

Any Python that has the engine can run this file; tvm_disc is imported only if the engine needs it.
The process answers requests, one line of JSON each, until its input ends:

    {"names": [...], "inputs": FILE.npz, "results": FILE.npz}    calls once, and writes the results
    {"seconds": S}                                               times calls for about S seconds

An engine is a function of a model's file and a number of threads. It returns its version and a
function that binds arrays by name to a call without arguments. Besides those in ``ENGINES``,
``FILE.py:FUNCTION`` is accepted.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Call: TypeAlias = "Callable[[], Any]"
Bind: TypeAlias = "Callable[[Mapping[str, Any]], Call]"
Opened: TypeAlias = "tuple[Bind, str]"  # (function that binds inputs, version of the engine)

MOST_CALLS = 1000  # maximum calls per turn
READ_ONNX = ("onnxruntime", "openvino")


def ordered(wanted: Sequence[str], given: Mapping[str, object]) -> list[Any]:
    """Return the arrays in an engine's order: by name if the engine has names, otherwise by
    position.
    """
    if set(wanted) <= set(given):
        return [given[name] for name in wanted]
    if len(wanted) != len(given):
        names = ", ".join(wanted)
        raise ValueError(f"expected {len(wanted)} inputs ({names}), found {len(given)}")
    return list(given.values())


def tvm_disc_engine(path: str, threads: int) -> Opened:
    """Open a saved program of tvm_disc, or compile a model."""
    import tvm_disc

    if path.endswith(".so"):
        exe = tvm_disc.load(path)
    else:
        exe = tvm_disc.build(path, options=tvm_disc.Options(threads=threads))
    names = [name for name, _, _ in exe.signature]

    def bind(given: Mapping[str, object]) -> Call:
        arrays = ordered(names, given)
        return lambda: exe(*arrays)

    return bind, tvm_disc.__version__


def onnxruntime(path: str, threads: int) -> Opened:
    """Open ONNX Runtime on the CPU."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def bind(given: Mapping[str, object]) -> Call:
        feeds = dict(zip(names, ordered(names, given), strict=True))
        return lambda: session.run(None, feeds)

    return bind, ort.__version__


def openvino(path: str, threads: int) -> Opened:
    """Open OpenVINO on the CPU, in float32, with one stream."""
    import openvino as ov

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    model = ov.Core().compile_model(path, "CPU", config)
    request = model.create_infer_request()
    names = [next(iter(i.names), str(k)) for k, i in enumerate(model.inputs)]

    def bind(given: Mapping[str, object]) -> Call:
        arrays = ordered(names, given)
        infer, outputs = request.infer, model.outputs

        def call() -> list[Any]:
            found = infer(arrays, share_inputs=True, share_outputs=True)
            return [found[o] for o in outputs]

        return call

    return bind, ov.__version__.partition("-")[0]


def torch_eager(path: str, threads: int) -> Opened:
    """Open an exported program in eager PyTorch."""
    return _torch(path, threads, lambda torch, module: module)


def torch_compiled(path: str, threads: int) -> Opened:
    """Open an exported program under ``torch.compile(dynamic=True)``."""
    return _torch(path, threads, lambda torch, module: torch.compile(module, dynamic=True))


def _torch(path: str, threads: int, made: Callable[[Any, Any], Any]) -> Opened:
    import torch

    torch.set_num_threads(threads)
    module = made(torch, torch.export.load(path).module())
    return torch_call(torch, module), torch.__version__


def torch_call(torch: Any, module: Any) -> Bind:
    """Return a function that binds arrays to a call of the module; the tensors share their
    memory.
    """

    def bind(given: Mapping[str, object]) -> Call:
        tensors = [torch.from_numpy(a) for a in given.values()]

        def call() -> list[Any]:
            with torch.no_grad():
                found = module(*tensors)
            leaves = torch.utils._pytree.tree_leaves(found)
            return [x.numpy() if hasattr(x, "numpy") else x for x in leaves if x is not None]

        return call

    return bind


def relax_vm(path: str, threads: int) -> Opened:
    """Open TVM's virtual machine, with its default pipeline, on the module imported by tvm_disc."""
    import tvm
    from tvm import relax

    import tvm_disc
    from tvm_disc.codegen.target import host_target
    from tvm_disc.frontends.sources import read

    module = read(path)
    names = [p.name_hint for p in module["main"].params]
    target = tvm.target.Target(host_target())
    imported = tvm_disc.relay.to_relax(module)
    library = relax.build(imported, target, relax_pipeline=relax.get_default_pipeline(target))
    main = relax.VirtualMachine(library, tvm.cpu())["main"]

    def bind(given: Mapping[str, object]) -> Call:
        tensors = [tvm.runtime.tensor(np.ascontiguousarray(a)) for a in ordered(names, given)]
        return lambda: main(*tensors)

    return bind, str(tvm.__version__)


ENGINES: Mapping[str, Callable[[str, int], Opened]] = {
    "tvm_disc": tvm_disc_engine,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "torch": torch_eager,
    "torch.compile": torch_compiled,
    "relax_vm": relax_vm,
}


def as_onnx(path: str) -> str:
    """Export a program to a temporary ONNX file by PyTorch's exporter."""
    import tempfile

    import torch

    file = os.path.join(tempfile.mkdtemp(prefix="tvm_disc_bench"), "model.onnx")
    atexit.register(shutil.rmtree, os.path.dirname(file), True)
    torch.onnx.export(torch.export.load(path), f=file, dynamo=True, verbose=False)
    return file


def engine_of(name: str) -> Callable[[str, int], Opened]:
    """Return an engine by its name, or by its file and function."""
    file, colon, function = name.rpartition(":")
    if not colon:
        return ENGINES[name]
    import runpy

    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(file))))
    found: Callable[[str, int], Opened] = runpy.run_path(file)[function]
    return found


def leaves(value: object) -> list[Any]:
    """Return the arrays of a nested result."""
    if isinstance(value, np.ndarray):
        return [value]
    if hasattr(value, "numpy") and hasattr(value, "dtype"):
        return [value.numpy()]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return [np.asarray(value)]
    return [leaf for item in value for leaf in leaves(item)]


def turn(call: Call, seconds: float) -> float:
    """Return the median time of calls during ``seconds``, after one warm-up call."""
    call()
    times: list[float] = []
    begin = time.perf_counter()
    while not times or (len(times) < MOST_CALLS and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def text_of(error: BaseException) -> str:
    """Return an exception as one line of at most 300 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def serve(
    engine: str, path: str, threads: int, answer: Callable[[dict[str, object]], None]
) -> None:
    """Open the engine, and answer requests until the input ends."""
    try:
        if engine in READ_ONNX and path.endswith(".pt2"):
            path = as_onnx(path)
        begin = time.perf_counter()
        bind, version = engine_of(engine)(path, threads)
    except ImportError as error:
        answer({"absent": str(error)})
        return
    except Exception as error:  # the engine may raise any class
        answer({"error": text_of(error)})
        return
    answer({"seconds": time.perf_counter() - begin, "version": version})
    call: Call | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "inputs" in request:
                with np.load(request["inputs"]) as arrays:
                    given = {n: arrays[str(k)] for k, n in enumerate(request["names"])}
                call = bind(given)
                results = {str(k): _plain(x) for k, x in enumerate(leaves(call()))}
                np.savez(request["results"], **results)
                answer({})
            else:
                assert call is not None, "inputs come first"
                answer({"seconds": turn(call, request["seconds"])})
        except Exception as error:  # the engine may raise any class
            answer({"error": text_of(error)})


def _plain(array: object) -> Any:
    """Return an array as a type that ``.npz`` files can hold."""
    array = np.asarray(array)
    return array.astype("float32") if array.dtype.kind == "V" else array


def main(argv: Sequence[str]) -> None:
    """Serve one engine.

    Answers are written to the original standard output. The engine's own output is redirected to
    standard error, so that it cannot corrupt the answers.
    """
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(fields: dict[str, object]) -> None:
        channel.write(json.dumps(fields) + "\n")
        channel.flush()

    engine, path, threads = argv
    serve(engine, path, int(threads), answer)


if __name__ == "__main__":
    main(sys.argv[1:])
