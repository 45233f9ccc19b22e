"""Sample calls of the operators of the table, read from text.

``ops/samples/*.txt`` has one section per operator, or per group of operators with equal samples::

    nn.dense:
        f32[n,4] f32[5,4] -> f32[n,5] {units=5}
    acos, asin: f32[n,3]:-0.9..0.9 -> f32[n,3]

A sample lists the arguments, the results, attributes in braces, and the sizes of the symbols::

    i8[n,8]:-128..128 (f32[n],f32[m]) i64[2]=(n,3) f32=0.5 -> f32[n*2,3] {axis=1} for n=1,5 m=3,2

``:low..high`` bounds the random contents of an argument, ``=value`` gives its contents. A tuple of
tensors is in parentheses. More indented lines continue a sample.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_disc.relay.ops.row import OpRow

FOLDER = Path(__file__).parent / "ops" / "samples"
DEFAULT_SIZES = ((1, 2, 3), (5, 3, 2), (7, 4, 6))
_KINDS = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint"}
_TENSOR = re.compile(r"(bf|[fiu])?(\d+|bool)(?:\[(.*)\])?")
_SAMPLE = re.compile(
    r"(?P<args>.*?)-> (?P<out>[^{]*?)(?: \{(?P<attrs>.*)\})?(?: for (?P<sizes>.*))?"
)


@dataclass(frozen=True)
class Sample:
    """One example call, for tests that iterate over the table.

    Attributes:
        inputs: one spec per argument: dims then a dtype, ``("n", 3, "float32")``, where a dim is a
            number or a symbol; a tuple argument is a tuple of specs.
        out: the result's shape in the same notation, or a tuple of shapes. Dims may be arithmetic,
            ``"n*2"``, or ``"?"`` if they depend on data.
        out_dtypes: the dtype of each result.
        sizes: values of the symbols, in order of first appearance, for each run.
        ranges: bounds of the random contents of an argument.
        values: fixed contents of an argument; entries may be symbols.
    """

    inputs: tuple[Any, ...]
    out: tuple[Any, ...]
    out_dtypes: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[tuple[int, ...], ...] = DEFAULT_SIZES
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    values: Mapping[int, Any] = field(default_factory=dict)


def symbols(sample: Sample) -> list[str]:
    """Return the dimension symbols of a sample, in order of first appearance."""
    found: list[str] = []

    def walk(item: Any) -> None:
        if isinstance(item, (tuple, list)):
            for part in item:
                walk(part)
        elif isinstance(item, str) and re.fullmatch("[a-z]", item) and item not in found:
            found.append(item)

    for spec in sample.inputs:
        walk(spec)
    walk(list(sample.values.values()))
    return found


def parse_sample(text: str) -> Sample:
    """Return the sample that ``text`` describes; raises ValueError with the part that is wrong."""
    parts = _SAMPLE.fullmatch(text)
    if parts is None:
        raise ValueError(f"a sample has the form 'f32[n] -> f32[n] {{axis=0}}', found {text!r}")
    inputs, ranges, values = [], {}, {}
    for position, argument in enumerate(parts["args"].split()):
        spec, fixed, value = argument.partition("=")
        spec, ranged, bounds = spec.partition(":")
        inputs.append(_argument(spec))
        if fixed:
            values[position] = _literal(value)
        if ranged:
            low, _, high = bounds.partition("..")
            ranges[position] = (_literal(low), _literal(high))
    results = [_tensor(r) for r in parts["out"].split()]
    shapes = tuple(dims for dims, _ in results)
    sample = Sample(
        tuple(inputs),
        shapes[0] if len(shapes) == 1 else shapes,
        tuple(dtype for _, dtype in results),
        _attributes(parts["attrs"] or ""),
        ranges=ranges,
        values=values,
    )
    sizes = _sizes(sample, parts["sizes"]) if parts["sizes"] else DEFAULT_SIZES
    return Sample(**{**vars(sample), "sizes": sizes})


def _argument(text: str) -> tuple[Any, ...]:
    """Return the spec of a tensor, or of a tuple of tensors."""
    if not text.startswith("("):
        dims, dtype = _tensor(text)
        return (*dims, dtype)
    fields = re.findall(r"\w+(?:\[[^\]]*\])?", text)
    if f"({','.join(fields)})" != text:
        raise ValueError(f"a tuple of tensors has the form '(f32[n],f32)', found {text!r}")
    return tuple(_argument(f) for f in fields)


def _tensor(text: str) -> tuple[tuple[int | str, ...], str]:
    """Return the dims and the dtype of ``f32[n,3]``."""
    match = _TENSOR.fullmatch(text)
    if match is None or (match[1] is None) != (match[2] == "bool"):
        raise ValueError(f"a tensor has the form 'f32[n,3]', found {text!r}")
    dims = match[3].split(",") if match[3] else []
    dtype = _KINDS[match[1]] + match[2] if match[1] else "bool"
    return tuple(int(d) if re.fullmatch(r"-?\d+", d) else d for d in dims), dtype


def _literal(text: str) -> Any:
    """Return a Python value; names are symbols, and ``weights(5,8)`` is a matrix of int8."""
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"not a value: {text!r}") from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "weights":
        return weights(*map(_value, node.args))
    return ast.literal_eval(node)


def weights(*shape: int) -> Any:
    """Return nested tuples of pseudo-random int8 weights."""
    count = 1
    for n in shape:
        count *= n
    flat: list[Any] = [(37 * k + 11) % 255 - 127 for k in range(count)]
    for n in reversed(shape[1:]):
        flat = [tuple(flat[k : k + n]) for k in range(0, len(flat), n)]
    return tuple(flat)


def _attributes(text: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if not call.args:
            return {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg is not None}
    except (SyntaxError, ValueError):
        pass
    raise ValueError(f"attributes have the form 'axis=1, mode=\"clip\"', found {text!r}")


def _sizes(sample: Sample, text: str) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of ``n=1,5 m=3,2``, in the order of the sample's symbols."""
    columns = dict(column.split("=") for column in text.split())
    names = symbols(sample)
    if sorted(columns) != sorted(names):
        raise ValueError(f"sizes are given for {sorted(columns)}, but the symbols are {names}")
    return tuple(zip(*(map(int, columns[n].split(",")) for n in names), strict=True))


def read(text: str) -> Iterator[tuple[str, tuple[Sample, ...]]]:
    """Yield each operator of a file with its samples."""
    joined = re.sub(r"\n {8,}", " ", re.sub(r"^#.*\n|\n+(?=\n)", "", text, flags=re.MULTILINE))
    for section in re.split(r"\n(?! )", joined.strip()):
        names, _, rest = section.partition(":")
        samples = tuple(map(parse_sample, filter(None, map(str.strip, rest.split("\n")))))
        yield from ((name.strip(), samples) for name in names.split(","))


def _read_all() -> dict[str, tuple[Sample, ...]]:
    found: dict[str, tuple[Sample, ...]] = {}
    for path in sorted(FOLDER.glob("*.txt")):
        for name, samples in read(path.read_text(encoding="utf-8")):
            assert name not in found, f"{path}: {name} has two sections"
            found[name] = samples
    return found


SAMPLES: Mapping[str, tuple[Sample, ...]] = _read_all()


def samples_of(row: OpRow) -> tuple[Sample, ...]:
    """Return the samples of an operator."""
    return SAMPLES.get(row.name, ())
