"""Check one row on one path: export and compile it, run it on its dims, and compare with
PyTorch.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import tvm_disc
from benchmarks.zoo.export import ExporterFailed, kept_onnx, quiet, to_onnx, to_torch
from benchmarks.zoo.row import Dims, Row, first_tensors, floats
from tvm_disc import dynamo
from tvm_disc.compile import compile_counter
from tvm_disc.errors import BuildTimeout

PATHS = {"onnx": kept_onnx, "torch": to_torch}
TOLERANCE = 1e-4
FEWEST_COMPILED = 0.95  # least share of operators that torch.compile must compile for "right"
FLOOR = 1e-6  # errors are relative to the largest element of a result, or to this if it is larger
FEWEST = 6  # least number of combinations of dims that PyTorch can run


class Differs(Exception):
    """Raised if the number or a shape of the results differs from PyTorch's."""


def check(row: Row, path: str, limit: float) -> dict[str, Any]:
    """Return the record of a row: plain values with ``status`` and ``reason``.

    ``limit`` is in seconds.
    """
    end = time.perf_counter() + limit
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    record: dict[str, Any] = {"row": row.name, "path": path}
    measured = _compiled if path == "compile" else _measured
    try:
        return record | measured(row, path, record, end)
    except ExporterFailed as error:
        return record | {"status": "exporter", "reason": str(error)}
    except BuildTimeout as error:
        return record | {"status": "slow", "reason": str(error)}
    except tvm_disc.DiscError as error:
        return record | {"status": "refused", "reason": _text(error)}
    except Differs as error:
        return record | {"status": "wrong", "reason": str(error)}
    except Exception as error:  # a bug of tvm_disc or of the row
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('site-packages/')[2]}:{where.lineno}"
        return record | {"status": "internal", "reason": f"{_text(error)} ({place})"}


def warm() -> None:
    """Import modules that exports and builds import late, so that child processes need not."""
    module = torch.nn.Linear(2, 2).eval()
    row = Row("warm", lambda: module, {"x": floats("b 2")}, ({"b": 3},), {})
    for path in (to_onnx, to_torch):
        tvm_disc.build(path(row, module)[0])


def _measured(row: Row, path: str, record: dict[str, Any], end: float) -> dict[str, Any]:
    torch.manual_seed(0)
    module = row.make().eval()
    wanted = _wanted(row, module)
    if len(wanted) < FEWEST:
        return {"status": "row", "reason": f"PyTorch runs {len(wanted)} combinations only"}
    if _is_nothing(wanted):
        return {"status": "row", "reason": f"no element of a result is larger than {FLOOR}"}
    start = time.perf_counter()
    model, record["exporter"] = PATHS[path](row, module)
    record["export_s"] = round(time.perf_counter() - start, 2)
    start = time.perf_counter()
    with compile_counter() as compiles:
        left = max(end - start, 1.0)
        exe = tvm_disc.build(model, options=tvm_disc.Options(time_limit=left))
        record["build_s"] = round(time.perf_counter() - start, 2)
        record |= facts(exe)
        worst, at = 0.0, ""
        guarded: list[str] = []
        for dims, want in wanted:
            try:
                error = largest_error(_run(exe, arguments(exe, row, dims)), want)
            except Exception as problem:
                theirs = _refusal(path, model, row, dims)
                if theirs and isinstance(problem, tvm_disc.DiscError):
                    guarded.append(f"at {_dims(dims)}: {theirs}")
                    continue
                problem.args = (f"at {_dims(dims)}: {problem}",)
                raise
            if not error <= worst:
                worst, at = error, _dims(dims)
    record["compiles"] = compiles[0]
    ran = len(wanted) - len(guarded)
    if not ran:
        raise ExporterFailed(f"the exported model refuses all dims: {guarded[0]}")
    status, reason = "right", ""
    if guarded:
        status = "guarded"
        reason = f"the exported model and the program refuse {len(guarded)}, {guarded[0]}"
    if not worst <= TOLERANCE:
        status, reason = "wrong", f"at {at}: largest error {worst:.2g}"
        if path == "onnx" and _as_the_file_says(model, exe, row, [d for d, _ in wanted]):
            status = "exporter"
            reason += "; ONNX Runtime computes the same result: the exported model differs from "
            reason += "the module"
    return {"status": status, "error": worst, "combinations": ran, "reason": reason}


def _compiled(row: Row, path: str, record: dict[str, Any], end: float) -> dict[str, Any]:
    """Return the record of a row under ``torch.compile(dynamic=True)``."""
    torch.manual_seed(0)
    module = row.make().eval()
    wanted = _few_graphs(_wanted(row, module))
    if _is_nothing(wanted):
        return {"status": "row", "reason": f"no element of a result is larger than {FLOOR}"}
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=dynamo.backend, dynamic=True)
    worst, at = 0.0, ""
    start = time.perf_counter()
    with torch.no_grad(), quiet(), compile_counter() as compiles, dynamo.reporting() as report:
        for dims, want in wanted:
            inputs = row.at(dims)
            if row.static:
                _mark_static(row, inputs)
            got = [r.numpy() for r in first_tensors(compiled(*inputs))]
            error = largest_error(got, want)
            if not error <= worst:
                worst, at = error, _dims(dims)
            if time.perf_counter() > end:
                raise BuildTimeout(f"at {_dims(dims)}: the limit of the row has passed")
    record |= {"build_s": round(time.perf_counter() - start, 2), "compiles": compiles[0]}
    record |= {"graphs": report.graphs, "share": round(report.share, 4)}
    said = "; ".join(dict.fromkeys(" ".join(r.split())[:300] for r in report.reasons))
    counts = {"error": worst, "combinations": len(wanted)}
    if not worst <= TOLERANCE:
        return {"status": "wrong", "reason": f"at {at}: largest error {worst:.2g}", **counts}
    part = f"{report.share:.1%} of {report.compiled + report.in_pytorch} operators in programs"
    status = "right" if report.share >= FEWEST_COMPILED else "partly"
    return {"status": status, "reason": f"{part}; {said}" if said else part, **counts}


def _mark_static(row: Row, inputs: Sequence[torch.Tensor]) -> None:
    """Declare to PyTorch that the axes of fixed size have this size in every call."""
    for tensor, kind in zip(inputs, row.inputs.values(), strict=True):
        for axis in range(tensor.dim()):
            if axis not in kind.dynamic:
                torch._dynamo.mark_static(tensor, axis)


def _few_graphs(wanted: list[Any]) -> list[Any]:
    """Return the combinations without dims of 0 and 1, then the one with the most dims of 1 and
    the one with the most dims of 0.

    PyTorch compiles another graph for each pattern of dims of 0 and 1.
    """
    found = [(d, w) for d, w in wanted if min(d.values()) > 1]
    for size in (1, 0):
        counts = [(list(d.values()).count(size), (d, w)) for d, w in wanted]
        most = max(count for count, _ in counts)
        found += [pair for count, pair in counts if count == most > 0][:1]
    return found


def _refusal(path: str, model: Any, row: Row, dims: Dims) -> str:
    """Return the error of the exported model on inputs that PyTorch's module accepts, or "".

    Exporters turn sizes of the example, and assumptions about strides, into conditions.
    """
    try:
        if path == "torch":
            with torch.no_grad():
                model.program.module()(*row.at(dims))
        else:
            _session(model, row)(dims)
    except Exception as error:  # the exceptions of PyTorch and ONNX Runtime have no common class
        return _text(error)
    return ""


def _session(model: Any, row: Row) -> Callable[[Dims], Any]:
    """Return a function from dims to ONNX Runtime's results."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [i.name for i in session.get_inputs()]

    def run(dims: Dims) -> Any:
        given = {n: x.numpy() for n, x in zip(row.inputs, row.at(dims), strict=True) if n in names}
        return session.run(None, given)

    return run


def _as_the_file_says(model: Any, exe: Any, row: Row, combinations: Sequence[Dims]) -> bool:
    """Return whether our results equal ONNX Runtime's for all dims that ONNX Runtime can run."""
    run, compared = _session(model, row), 0
    for dims in combinations:
        try:
            theirs = run(dims)
        except Exception:  # ONNX Runtime cannot run these dims
            continue
        compared += 1
        if not largest_error(_run(exe, arguments(exe, row, dims)), theirs) <= TOLERANCE:
            return False
    return compared > 0


def _wanted(row: Row, module: Any) -> list[tuple[Dims, tuple[np.ndarray, ...]]]:
    """Return PyTorch's results, for the dims that PyTorch can run."""
    found = []
    with torch.no_grad():
        for dims in row.combinations:
            try:
                results = first_tensors(module(*row.at(dims)))
            except Exception:  # undefined for these dims, such as the mean of no elements
                continue
            found.append((dims, tuple(r.numpy() for r in results)))
    return found


def _is_nothing(wanted: Sequence[tuple[Dims, tuple[np.ndarray, ...]]]) -> bool:
    """Return whether some result has only elements that are too small to compare."""
    largest = [[np.abs(r).max(initial=0) for r in results] for _, results in wanted]
    return any(max(column) < FLOOR for column in zip(*largest, strict=True))


def arguments(exe: Any, row: Row, dims: Dims) -> list[np.ndarray]:
    """Return the arguments of a program, without inputs that the exporter removed as unused."""
    arrays = {n: x.numpy() for n, x in zip(row.inputs, row.at(dims), strict=True)}
    names = [name for name, _, _ in exe.signature]
    return [arrays[n] for n in names] if set(names) <= set(arrays) else list(arrays.values())


def _run(exe: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    made = exe(*inputs)
    return [np.asarray(x) for x in (made if isinstance(made, list | tuple) else [made])]


def largest_error(got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> float:
    """Return the largest difference, relative to the largest element of the same result.

    Raises:
        Differs: the number or a shape of the results differs.
    """
    if len(got) != len(want):
        raise Differs(f"{len(got)} results for {len(want)}")
    return max((_error(g, w) for g, w in zip(got, want, strict=True)), default=0.0)


def _error(got: np.ndarray, want: np.ndarray) -> float:
    if got.shape != want.shape:
        raise Differs(f"shape {got.shape} for {want.shape}")
    if not want.size:
        return 0.0
    a, b = got.astype("float64"), want.astype("float64")
    bad = ~np.isfinite(b)
    if not np.array_equal(a[bad], b[bad], equal_nan=True):
        return float("inf")
    a, b = np.where(bad, 0, a), np.where(bad, 0, b)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), FLOOR))


def facts(exe: Any) -> dict[str, Any]:
    """Return figures of a program: dims without a fixed size, guards, kernels and launches."""
    symbols, _, rest = exe._manifest["shapes"].partition("\nfacts\n")
    guards = rest.partition("\nguards\n")[2].partition("\nwould help")[0].splitlines()
    return {
        "symbols": len(symbols.splitlines()) - 1,
        # Each guard is followed by an indented line with its cost, which is not counted.
        "guards": [
            g.strip() for g in guards if g.startswith("  ") and g[2] != " " and g != "  none"
        ],
        "kernels": len(exe.kernels),
        "launches": len(exe.launches),
    }


def _dims(dims: Dims) -> str:
    return " ".join(f"{n}={v}" for n, v in dims.items())


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:900]}"


__all__ = ["PATHS", "arguments", "check", "facts", "largest_error", "warm"]
