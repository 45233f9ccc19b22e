"""One Relay function per row of the operator table, and the inputs to run it with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.relay.helpers import make_inputs, resolve
from tests.relay.samples import Sample, samples_of, symbols
from tvm_disc import relay
from tvm_disc.relay.attrs import complete_attrs
from tvm_disc.relay.ops.row import OpRow
from tvm_disc.relay.ops.table import OPS

Env = Mapping[str, int]
# The rows that compile, for whatever target, and whose meaning is known.
COMPILED = [
    row
    for row in OPS.values()
    if samples_of(row) and row.reference is not None and (row.lower or row.value)
]


@dataclass
class Case:
    """A row's samples as one function of several results.

    ``fields`` says for each sample which results are its own.
    """

    row: OpRow
    function: relay.Function
    fields: list[tuple[int, bool]]


def is_symbol(dim: Any) -> bool:
    """Whether a dim of a sample is to be decided at run time."""
    return isinstance(dim, str)


Shown = Callable[[int, Any], Any]


def symbols_open(position: int, dim: Any) -> Any:
    """Every symbolic dim is an anonymous ``?``."""
    return relay.Any() if is_symbol(dim) else dim


def make_case(
    row: OpRow, shown: Shown = symbols_open, samples: Sequence[Sample] | None = None
) -> Case:
    """Return one function of all samples of a row; ``shown`` maps a dim to that of the type."""
    builder = _Builder(shown)
    results: list[Any] = []
    fields = []
    for k, sample in enumerate(samples_of(row) if samples is None else samples):
        call = builder.call(row, sample, k)
        several = bool(sample.out) and isinstance(sample.out[0], tuple)
        count = len(sample.out) if several else 1
        results += [relay.TupleGetItem(call, i) for i in range(count)] if several else [call]
        fields.append((count, several))
    body = results[0] if len(results) == 1 else relay.Tuple(results)
    return Case(row, relay.Function(builder.params, body), fields)


class _Builder:
    def __init__(self, shown: Shown) -> None:
        self.params: list[relay.Var] = []
        self.shown = shown

    def call(self, row: OpRow, sample: Sample, number: int) -> relay.Call:
        args: list[Any] = []
        for position, spec in enumerate(sample.inputs):
            name = f"s{number}_{row.args[position].lstrip('*')}"
            if position in sample.values and spec and isinstance(spec[0], tuple):
                parts = zip(sample.values[position], spec, strict=True)
                args.append(relay.Tuple([self._fixed(name, v, s) for v, s in parts]))
            elif position in sample.values:
                args.append(self._fixed(name, sample.values[position], spec))
            elif spec and isinstance(spec[0], tuple):
                parts = [self._param(f"{name}{i}", s, position) for i, s in enumerate(spec)]
                args.append(relay.Tuple(parts))
            else:
                args.append(self._param(name, spec, position))
        return relay.Call(relay.op.get(row.name), args, complete_attrs(row, sample.attrs))

    def _param(self, name: str, spec: Any, position: int) -> relay.Var:
        *dims, dtype = spec
        shape = [self.shown(position, d) for d in dims]
        var = relay.var(name, shape=tuple(shape), dtype=dtype)
        self.params.append(var)
        return var

    def _fixed(self, name: str, value: Any, spec: Any) -> Any:
        """A shape argument: a literal, or computed from the dims of one more input."""
        *_, dtype = spec
        if not any(is_symbol(v) for v in (value if isinstance(value, tuple) else (value,))):
            return relay.const(np.array(value, dtype), dtype)
        items = value if isinstance(value, tuple) else (value,)
        carrier = self._param(f"{name}_dims", (*[v for v in items if is_symbol(v)], "float32"), -1)
        sizes = relay.op.shape_of(carrier, dtype=dtype)
        parts, k = [], 0
        for v in items:
            if is_symbol(v):
                parts.append(relay.op.take(sizes, relay.const(k, "int64"), axis=0))
                k += 1
            else:
                parts.append(relay.const(np.array(v, dtype), dtype))
        return relay.op.stack(parts, axis=0) if isinstance(value, tuple) else parts[0]


def _detected(values: list[Any]) -> list[Any]:
    """Boxes of few classes, and counts and numbers of them."""
    data, count, names, *limits = values
    data[..., 0] = np.floor(np.abs(data[..., 0]) if data.shape[2] < 6 else data[..., 0])
    rng = np.random.default_rng(1)
    count = rng.integers(0, data.shape[1] + 1, count.shape).astype(count.dtype)
    names = np.argsort(rng.random(names.shape), 1).astype(names.dtype)
    return [data, count, names, *limits]


def _compressed(values: list[Any]) -> list[Any]:
    """Rows that divide the entries at random; without a row there are none."""
    *dense, data, columns, begins = values
    rows = max(len(begins) - 1, 0)
    data, columns = (data, columns) if rows else (data[:0], columns[:0])
    cuts = np.random.default_rng(2).integers(0, len(columns) + 1, max(rows - 1, 0))
    ends = [0, *np.sort(cuts), len(columns)] if rows else [0]
    return [*dense, data, columns, np.array(ends, begins.dtype)]


def _square(values: list[Any]) -> list[Any]:
    data, columns, begins = _compressed(values)
    most = max(len(begins) - 1, 1)
    columns = np.random.default_rng(3).integers(0, most, columns.shape).astype(columns.dtype)
    return [data, columns, begins]


def _by_row(values: list[Any]) -> list[Any]:
    """Coordinates inside of the dense shape, row after row."""
    coords, entries, shape, default = values
    if not shape[0]:
        coords, entries = coords[:0], entries[:0]
    coords[:, 0] = np.sort(coords[:, 0] % max(int(shape[0]), 1))
    return [coords, entries, shape, default]


def _regions(values: list[Any]) -> list[Any]:
    """Regions of images that are there, of several pixels."""
    data, rois = values
    rois[:, 0] = np.floor(rois[:, 0] * len(data))
    rois[:, 1:3] = rois[:, 1:3] * 6 - 1
    rois[:, 3:] = rois[:, 1:3] + rois[:, 3:] * 8
    return [data, rois]


def _permutation(values: list[Any]) -> list[Any]:
    (given,) = values
    if np.array_equal(np.sort(given), np.arange(len(given))):
        return [given]
    return [np.random.default_rng(4).permutation(len(given)).astype(given.dtype)]


# Inputs that the operator wants in a certain form.
PREPARED = {
    "invert_permutation": _permutation,
    "searchsorted": lambda values: [np.sort(values[0], -1), *values[1:]],
    "nn.internal.sparse_dense_padded": _compressed,
    "nn.sparse_conv2d": _compressed,
    "nn.sparse_dense": _compressed,
    "nn.sparse_add": _compressed,
    "nn.sparse_transpose": _square,
    "sparse_fill_empty_rows": _by_row,
    "vision.roi_align": _regions,
    "vision.roi_pool": _regions,
    "vision.non_max_suppression": _detected,
}


def environments(sample: Sample) -> Iterator[dict[str, int]]:
    """The sample's own sizes, then all ones, then each symbol zero in turn."""
    names = symbols(sample)
    for sizes in sample.sizes:
        yield dict(zip(names, sizes, strict=False))
    yield dict.fromkeys(names, 1)
    first = dict(zip(names, sample.sizes[-1], strict=False))
    for name in names:
        yield {**first, name: 0}


def tensors(row: OpRow, sample: Sample, env: Env, seed: int) -> tuple[list[Any], list[np.ndarray]]:
    """(arguments of the reference, inputs of the function)."""
    given = make_inputs(sample, dict(env), seed)
    given = PREPARED.get(row.name, lambda values: values)(given)
    flat: list[np.ndarray] = []
    for position, (spec, value) in enumerate(zip(sample.inputs, given, strict=True)):
        if position in sample.values:
            fixed = sample.values[position]
            items = fixed if isinstance(fixed, tuple) else (fixed,)
            dims = [v for v in items if is_symbol(v)]
            if dims:
                flat.append(np.zeros(resolve(tuple(dims), dict(env)), "float32"))
        elif spec and isinstance(spec[0], tuple):
            flat.extend(value)
        else:
            flat.append(value)
    return given, flat


def expected(row: OpRow, sample: Sample, given: list[Any]) -> tuple[np.ndarray, ...] | None:
    """The reference's results; None where it is not defined, such as the maximum of nothing."""
    assert row.reference is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            out = row.reference(*given, **complete_attrs(row, sample.attrs))
        except (ValueError, IndexError, ZeroDivisionError, RuntimeWarning):
            return None
    return out if isinstance(out, tuple) else (out,)


def calls(row: OpRow) -> Iterator[tuple[list[np.ndarray], list[tuple[str, np.ndarray]]]]:
    """Inputs of a row's function, and results by what to say of them: for every size of a dim."""
    sizes = [list(environments(s)) for s in samples_of(row)]
    for k in range(max(map(len, sizes))):
        inputs: list[np.ndarray] = []
        wanted: list[tuple[str, np.ndarray]] = []
        for sample, choices in zip(samples_of(row), sizes, strict=True):
            env = choices[min(k, len(choices) - 1)]
            given, flat = tensors(row, sample, env, seed=k)
            results = expected(row, sample, given)
            if results is None:  # not defined for such dims, in NumPy as well
                env = choices[0]
                given, flat = tensors(row, sample, env, seed=k)
                results = expected(row, sample, given)
            assert results is not None
            inputs += flat
            wanted += [(f"{row.name} at {env}", r) for r in results]
        yield inputs, wanted


def check_results(out: Any, wanted: list[tuple[str, np.ndarray]]) -> None:
    """The results of a call of a row's function are those of its reference."""
    found = list(out) if isinstance(out, (tuple, list)) else [out]
    assert len(found) == len(wanted)
    for value, (where, want) in zip(found, wanted, strict=True):
        # A program without inputs gives tensors of TVM's.
        array = value if isinstance(value, np.ndarray) else np.from_dlpack(value)
        assert_same(array, want, where)


def assert_same(found: np.ndarray, wanted: np.ndarray, where: str, tol: float = 1e-4) -> None:
    """Equal type and shape; integers exactly, floats within ``tol``."""
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape, f"{where}: shape {found.shape}, expected {wanted.shape}"
    assert found.dtype == wanted.dtype, f"{where}: {found.dtype}, expected {wanted.dtype}"
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=tol, atol=tol, err_msg=where)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=where)


def refuse(name: str, *shapes: Any, message: str, kind: type[Exception], **attrs: Any) -> None:
    """Building one operator must fail with ``message``; a dtype may end a shape, else float32."""
    params = []
    for i, shape in enumerate(shapes):
        typed = bool(shape) and isinstance(shape[-1], str)
        dims, dtype = (shape[:-1], shape[-1]) if typed else (shape, "float32")
        params.append(relay.var(f"x{i}", shape=dims, dtype=dtype))
    call = relay.Call(relay.op.get(name), params, complete_attrs(OPS[name], attrs))
    with pytest.raises(kind, match=message):
        tvm_disc.build(relay.Function(params, call))


def compiled(name: str, *inputs: tuple[tuple[Any, ...], str], **attrs: Any) -> Any:
    """One operator as a program; dims None are ``?``."""
    params = [
        relay.var(f"x{i}", shape=tuple(relay.Any() if d is None else d for d in shape), dtype=dtype)
        for i, (shape, dtype) in enumerate(inputs)
    ]
    arguments: list[Any] = list(params)
    if OPS[name].tuple_args and OPS[name].tuple_args[0]:
        arguments = [relay.Tuple(params)]
    call = relay.Call(relay.op.get(name), arguments, complete_attrs(OPS[name], attrs))
    return tvm_disc.build(relay.Function(params, call))
