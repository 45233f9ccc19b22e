"""`build` and `Options`: every argument that is refused, and what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput, BadOption, ParseError, TypeMismatch, Unsupported
from tvm_disc.options import Options

X = rows("n", 4)
ONES = np.ones((3, 4), "float32")

SOURCES = [
    (5, TypeMismatch, "source: expected a Relay module, .* found int"),
    (None, TypeMismatch, "found NoneType"),
    (b"x", TypeMismatch, "found bytes"),
    ([X], TypeMismatch, "found list"),
    ("", ParseError, r"1:1: expected #\[version"),
    ("hello", ParseError, r"1:1: expected #\[version"),
    ("{", ParseError, "1:2: not JSON"),
    ("none.onnx", BadInput, "no such ONNX file"),
    ("none.json", BadInput, r"none\.json: No such file"),
    (relay.TensorType((1,)), TypeMismatch, "found TensorType"),
    (relay.IRModule(), TypeMismatch, "a function @main, found functions: none"),
    (function(relay.var("x", shape=(1,), dtype="handle"), relay.const(1)), Unsupported, "handle"),
    (function(relay.var("x", shape=(1,), dtype="int2"), relay.const(1)), Unsupported, "int2"),
]


@pytest.mark.parametrize(("source", "kind", "message"), SOURCES)
def test_sources(source: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        tvm_disc.build(source)


ARGUMENTS = [
    ({"constraints": 5}, BadInput, "constraints: expected a list of strings .* found 5"),
    ({"constraints": [5]}, BadInput, "constraints: expected a list of strings .* found 5"),
    (
        {"constraints": "n > 1"},
        BadInput,
        "constraints: expected a list of strings .* found 'n > 1'",
    ),
    ({"constraints": [""]}, ParseError, "expected a dim, found the end"),
    ({"constraints": ["n >"]}, ParseError, "column 4: expected a dim, found the end"),
    ({"constraints": ["n > " + "9" * 5000]}, ParseError, r"column 5: .* less than 2\*\*63"),
    ({"constraints": [f"n > {2**63}"]}, ParseError, r"column 5: .* less than 2\*\*63"),
    ({"constraints": ["(" * 5000]}, ParseError, "column 51: nested too deeply"),
    ({"constraints": ["n > ²"]}, ParseError, "column 5: unexpected '²'"),
    ({"target": 5}, Unsupported, "target: expected a string .* found 5"),
    ({"target": [1]}, Unsupported, r"target: expected a string .* found 1"),
    ({"target": " "}, Unsupported, "target: expected a string .* found ' '"),
    ({"target": 'llvm "'}, Unsupported, "No closing quotation"),
    ({"target": '{"a":' * 5000}, Unsupported, "is not JSON"),
    ({"target": {"kind": 5}}, Unsupported, "expected an llvm target, found 5"),
    ({"target": "llvm -mattr"}, Unsupported, r"-mattr takes a list such as \+a,\+b, found ''"),
    ({"target": "llvm -mtriple=foo-bar"}, Unsupported, "such as x86_64 or aarch64 .* 'foo-bar'"),
    ({"params": 5}, BadInput, "params: expected a mapping of input names to arrays, found int"),
    ({"params": [ONES]}, BadInput, "params: expected a mapping .* found list"),
    ({"params": {5: ONES}}, BadInput, "params: expected names of inputs, found 5"),
    ({"params": {"x": "abc"}}, BadInput, "params: 'x': expected an array of numbers, found str"),
    ({"params": {"x": None}}, BadInput, "params: 'x': expected an array .* found NoneType"),
    ({"params": {"x": np.array([None])}}, BadInput, "params: 'x': .* found object"),
    ({"params": {"x": np.ma.array(ONES, mask=ONES > 0)}}, BadInput, "'x': .* a masked array"),
    ({"params": {"x": ONES.astype("float64")}}, TypeMismatch, r"'x': expected Tensor.* float64"),
    (
        {"params": {"x": np.ones((3, 5), "float32")}},
        TypeMismatch,
        r"'x': .* found Tensor\[\(3, 5\), float32\]",
    ),
    ({"params": {"w": ONES}}, TypeMismatch, "w"),
    ({"options": 3}, BadOption, "options: expected tvm_disc.Options, found int"),
    ({"options": {"threads": 1}}, BadOption, "options: expected tvm_disc.Options, found dict"),
    ({"options": Options(dump_dir="/proc/none")}, BadOption, "dump_dir: /proc/none cannot be writ"),
    ({"options": Options(dump_dir=__file__)}, BadOption, "dump_dir: .* cannot be written"),
    ({"options": Options(records="/none")}, BadInput, "records: there is no file /none"),
    ({"options": Options(dispatch="/none")}, BadInput, "dispatch: /none: "),
    ({"options": Options(dispatch=__file__)}, BadInput, "dispatch: .*test_bad_arguments"),
]


@pytest.mark.parametrize(("given", "kind", "message"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_arguments(given: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        tvm_disc.build(function(X, relay.exp(X)), **given)


OPTIONS = [
    ({"threads": 1.5}, "threads: expected an integer, found 1.5"),
    ({"threads": "2"}, "threads: expected an integer, found '2'"),
    ({"threads": True}, "threads: expected an integer, found True"),
    ({"threads": 0}, "threads: expected at least 1, found 0"),
    ({"threads": 2**64}, "threads: expected at most 65536"),
    ({"debug": None}, "debug: expected an integer, found None"),
    ({"debug": 6}, r"debug: expected 0 \.\. 5, found 6"),
    ({"fuse": 1}, "fuse: expected True or False, found 1"),
    ({"versions": None}, "versions: expected True or False"),
    ({"verify": "yes"}, "verify: expected True or False"),
    ({"load": 0}, "load: expected True or False"),
    ({"dump_dir": 5}, "dump_dir: expected a path, found 5"),
    ({"records": b"x"}, "records: expected a path, found b'x'"),
    ({"dispatch": {}}, "dispatch: expected a path, found {}"),
]


@pytest.mark.parametrize(("given", "message"), OPTIONS)
def test_options(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        Options(**given)


QUESTION = '{"if": "n", "below": 1, "else": {"run": 1}, "then": '
TREES = [
    ("[]", "expected a JSON object with a tree for each group"),
    ('{"g": 5}', r"group 'g': expected \{\"run\": ...\} or .*, found 5"),
    ('{"g": {"if": "n", "below": "x", "then": {}, "else": {}}}', "group 'g': expected"),
    ('{"g": {"if": 5, "below": 1, "then": {}, "else": {}}}', "group 'g': expected"),
    (
        '{"g": ' + QUESTION * 80 + '{"run": 1}' + "}" * 81,
        "at most 64 splits from the root to a leaf",
    ),
    ("[" * 100_000, "recursion"),
]


@pytest.mark.parametrize(("text", "message"), TREES, ids=range(len(TREES)))
def test_dispatch_files(tmp_path: Any, text: str, message: str) -> None:
    path = tmp_path / "trees.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=f"dispatch: .*trees.json: .*{message}"):
        tvm_disc.build(function(X, relay.exp(X)), options=Options(dispatch=path))


def loop(arguments: str) -> str:
    return (
        '#[version = "0.0.5"]\n'
        "def @f(%i: int32, %x: Tensor[(?), float32]) -> Tensor[(?), float32] {\n"
        f"  if (less(%i, 1)) {{ %x }} else {{ @f({arguments}) }}\n}}\n"
        "def @main(%i: int32, %x: Tensor[(?), float32]) { @f(%i, %x) }"
    )


CALLS = {
    "one more inside": loop("subtract(%i, 1), tanh(%x), %x"),
    "one less inside": loop("subtract(%i, 1)"),
    "one more": loop("subtract(%i, 1), tanh(%x)").replace("@f(%i, %x) }", "@f(%i, %x, %x) }"),
    "one less": loop("subtract(%i, 1), tanh(%x)").replace("@f(%i, %x) }", "@f(%i) }"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_a_loop_with_other_than_its_arguments(name: str) -> None:
    with pytest.raises(TypeMismatch, match="f: expected 2 arguments, found"):
        tvm_disc.build(relay.parse(CALLS[name]))


OTHER_TYPES = {
    "rank": (loop("%i, expand_dims(%x, axis=0)"), r"argument '%x' of f: expected .*, found "),
    "type": (loop('%i, cast(%x, dtype="int32")'), "expected .*float32.*, found .*int32"),
    "rank at first": (
        loop("%i, %x").replace("@f(%i, %x) }", "@f(%i, expand_dims(%x, axis=0)) }"),
        "argument '%x' of",
    ),
    "type at first": (
        loop("%i, %x").replace("@f(%i, %x) }", '@f(%i, cast(%x, dtype="int8")) }'),
        "expected .*float32.*, found .*int8",
    ),
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_calls_of_a_loop_with_arguments_of_other_types(name: str) -> None:
    text, message = OTHER_TYPES[name]
    with pytest.raises(TypeMismatch, match=message):
        tvm_disc.build(relay.parse(text))


def test_constants_that_do_not_fit_an_operator() -> None:
    x = relay.const(np.zeros((2, 3), "float32"))
    with pytest.raises(TypeMismatch, match="transpose"):
        tvm_disc.build(function(relay.transpose(x, (0, 1, 2))))


def test_padding_of_another_rank() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, 8, 8))
    pads = (0, 0, 0, 1, 1, 1)
    with pytest.raises(TypeMismatch, match=r"padding: expected 1, 2 or 4 numbers, found"):
        tvm_disc.build(function(x, relay.nn.max_pool2d(x, (2, 2), padding=pads)))
