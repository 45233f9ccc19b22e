"""Whether a program of an ONNX model gives what ONNX Runtime and ONNX's evaluator give."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator

import tvm_disc
from tests.fuzz.graphs.maker import Case
from tests.fuzz.graphs.references import Results, Runtime, run_reference
from tests.fuzz.judge import place, shortened
from tests.guarded import Guarded
from tvm_disc.errors import DiscError

Tell = Callable[[str], None]
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 2e-4}


def judge(case: Case, tell: Tell = lambda stage: None) -> tuple[str, str] | None:
    """What is wrong with a case, as its class and details; None if nothing is."""
    tell("build")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exe = tvm_disc.build(case.model)
    except DiscError as error:
        return f"refused {shortened(error)}", str(error)
    except Exception as error:
        return f"build raised {place(error)}", str(error)[:1500]
    tell("reference")
    evaluator, runtime = ReferenceEvaluator(case.model), Runtime(case.model)
    # The evaluator joins rows of a loop along an existing axis.
    looped = any(n.op_type in ("Loop", "Scan") for n in case.model.graph.node)
    for number, inputs in enumerate(case.calls):
        tell(f"reference of call {number}")
        with np.errstate(all="ignore"):
            wanted = [None if looped else run_reference(evaluator, inputs)]
        tell(f"ONNX Runtime of call {number}")
        wanted.append(runtime(inputs))
        tell(f"call {number}")
        found = one_call(exe, inputs, number % 2 == 1)
        ordinary = number < case.ordinary
        full = not any(0 in a.shape for a in inputs.values())
        problem = compared(found, wanted, ordinary and full and not looped)
        if problem is not None:
            kind = problem[0] + (" of special values" if number >= case.ordinary else "")
            shapes = ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in inputs.items())
            return kind, f"call {number}: {problem[1]}; inputs {shapes}"
    return None


def one_call(exe: Any, inputs: dict[str, np.ndarray], at_start: bool) -> Results | Exception:
    """The results of a call whose inputs lie at the border of forbidden memory."""
    pages = Guarded()
    try:
        found = exe(**{n: pages.array(a, at_start) for n, a in inputs.items()})
        items = found if isinstance(found, tuple | list) else [found]
        return [np.array(np.from_dlpack(x)) for x in items]
    except Exception as error:
        return error
    finally:
        pages.release()


def compared(
    found: Results | Exception, wanted: list[Results | None], sure: bool
) -> tuple[str, str] | None:
    """What is wrong with results; wanted are those of the evaluator and of ONNX Runtime.

    ``sure`` says that a call is illegal if both refuse it.
    """
    known = [w for w in wanted if w is not None]
    if isinstance(found, Exception):
        if not isinstance(found, DiscError | MemoryError):
            return f"call raised {place(found)}", str(found)[:800]
        if not known:
            return None
        alone = "" if len(known) == 2 else f" ({'evaluator' if wanted[0] else 'runtime'} alone)"
        return f"refused a call{alone} {shortened(found)}", str(found)
    if not known:
        return ("accepted a call", "no reference accepts it") if sure else None
    told = [differences(found, w) for w in known]
    if not all(told):
        return None  # one of them agrees
    if len(known) == 2 and differences(known[0], known[1]):
        # The references differ: it is enough to agree with one of them in each result.
        each = [[differences([f], [w[k]]) for w in known] for k, f in enumerate(found)]
        if all(not all(one) for one in each):
            return None
        return "disagree", f"evaluator: {told[0]}; runtime: {told[1]}"
    alone = "" if len(known) == 2 else f" ({'evaluator' if wanted[0] else 'runtime'} alone)"
    return f"wrong result{alone}", str(told[0])


def differences(found: Results, wanted: Results) -> str | None:
    """How results differ from wanted ones, None if they do not."""
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.dtype == b.dtype and a.ndim == b.ndim and not (a.size or b.size):
            continue  # the rows of a loop without iterations have no known sizes
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {k}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if b.dtype.kind != "f":
            same = a == b
        else:
            wide, expected = a.astype("float64"), b.astype("float64")
            tol = TOLERANCE[str(b.dtype)]
            finite = expected[np.isfinite(expected)]
            room = tol * max(1.0, float(np.abs(finite).max(initial=0)))
            same = np.isclose(wide, expected, rtol=tol, atol=room, equal_nan=True)
        if not np.all(same):
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            count = int((~same).sum())
            return f"result {k}: {a[at]} at {at}, expected {b[at]}; {count} of {a.size} differ"
    return None
