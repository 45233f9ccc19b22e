"""Text, JSON and parameters that nobody writes: refused at their place, in bounded time."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

import pytest

import tvm_disc
from tests.relay.helpers import JSONS
from tvm_disc import relay
from tvm_disc.errors import BadInput, ParseError, TypeMismatch
from tvm_disc.relay.files import located

HEAD = '#[version = "0.0.5"]\n'
MAIN = "def @main(%x: Tensor[(?, 4), float32]) {{ {} }}"


def graph(*nodes: Any, root: Any = 1, **more: Any) -> str:
    """The JSON of a legacy graph; node 0 is null."""
    empty = {"type_key": ""}
    return json.dumps({"root": root, "nodes": [empty, *nodes], "b64ndarrays": [], **more})


def node(key: Any, **attrs: Any) -> dict[str, Any]:
    return {"type_key": key, "attrs": attrs}


TEXTS = {
    "9" * 4301: "2:42: expected a number of at most .* found 4301",
    "(" * 5000 + "%x": r"2:\d+: nested too deeply here",
    "add(%x, %x). " + "1" * 500: "2:5[0-9]: ",
    "%x." + "1" * 5000: "2:44: expected a number of at most .* found 5001",
    "let %y: int4096 = %x; %y": r"2:50: unknown type 'int4096'",
    "let %y: Tensor[(1), int4096] = %x; %y": r"2:62: unknown element type 'int4096'",
    "let %y: Tensor[(99999999999999999999), int8] = %x; %y": r"2:58: a dimension must be .*2\*\*63",
    "let %y: Tensor[(1), float327] = %x; %y": r"2:62: unknown element type 'float327'",
    "add(%x, 99999999999i8)": r"2:50: 99999999999 does not fit int8",
    "meta[relay.Constant][99999999999999999999]": r"2:42: there is no metadata section",
    "%x /* span=a:" + "9" * 5000 + ":1 */ y": r"2:\d+: expected '}'",
}


@pytest.mark.parametrize("body", TEXTS, ids=range(len(TEXTS)))
def test_text(body: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError, match=TEXTS[body]) as caught:
        relay.parse(HEAD + MAIN.format(body))
    assert caught.value.line == 2 and caught.value.column > 0
    assert time.process_time() - start < 2


def test_errors_in_the_metadata_are_at_lines_of_the_text(tmp_path: Any) -> None:
    text = HEAD + MAIN.format("meta[relay.Constant][0]") + "\n#[metadata]\n"
    for section, message in (
        ('{\n "root": x }', r"5:10: in #\[metadata\]: not JSON"),
        (graph({"type_key": "Map"}, root="one"), r"3:12: in #\[metadata\]: the root of the graph"),
        (graph({"type_key": "Map", "keys": 5}), r"3:12: in #\[metadata\]: node 1: \"keys\""),
        ("[" * 100_000, r"3:12: in #\[metadata\]: .*nested too deeply"),
    ):
        with pytest.raises(ParseError, match=message) as caught:
            relay.parse(text + section)
        assert caught.value.line >= 3
    path = tmp_path / "bad.relay"
    path.write_text(text + "{")
    with pytest.raises(ParseError, match=r"bad\.relay:4:2: in #\[metadata\]") as caught:
        tvm_disc.build(path)
    assert (caught.value.line, caught.value.column, caught.value.source) == (4, 2, str(path))


NODES = {
    graph(root="exp"): "the root of the graph: expected a node index .an integer., found 'exp'",
    graph(root=None): "the root of the graph: expected a node index .an integer., found None",
    graph(root=9): "there is no node 9; the file has 1 node",
    graph(None): "node 1: expected an object with .type_key., found None",
    graph({"attrs": {}}): "node 1: expected an object with .type_key.",
    graph({"type_key": ["x"]}): "node 1: expected an object with .type_key.",
    graph({"type_key": "Array", "data": "12"}): "node 1: .data.: expected a list, found '12'",
    graph({"type_key": "Op", "attrs": []}): r"node 1: .attrs.: expected an object, found \[\]",
    graph({"type_key": "Array", "data": ["x"]}): r"node 1 \(Array\): expected a node index",
    graph({"type_key": "Array", "data": ["²"]}): r"node 1 \(Array\): expected a node index",
    graph({"type_key": "Array", "data": ["9" * 5000]}): r"node 1 \(Array\): expected a node index",
    graph({"type_key": "Array", "data": [1]}): r"node 1 \(Array\): the node contains itself",
    graph({"type_key": "Map", "data": [2, 2]}, {"type_key": "Array"}): "a key: .* found list",
    graph({"type_key": "Map", "keys": ["a"], "data": []}): "as many keys as values, found 1 and 0",
    graph(node("relay.Constant")): r"node 1 \(relay.Constant\): the field 'data' is missing",
    graph(node("relay.Constant", data="0")): "there is no stored tensor 0",
    graph(node("relay.Constant", data="0"), b64ndarrays=["é"]): r"b64ndarrays\[0\]: .* not base64",
    graph(node("relay.Constant", data="0"), b64ndarrays=[5]): r"b64ndarrays\[0\]: .* found int",
    graph(b64ndarrays={}): "b64ndarrays.: expected a list",
    graph(node("relay.Id", name_hint="2"), {"type_key": "Array"}): r"name_hint: expected a name",
    graph(node("relay.Tuple", fields="2"), node("IntImm", value="1")): "fields: expected an array",
    graph(node("relay.Var", vid="2"), node("PrimType", dtype="int4096")): "found 'int4096'",
    graph(node("IntImm", value="x")): r"node 1 \(IntImm\): .* invalid value: invalid",
    graph(node("IntImm", value="9" * 5000)): r"node 1 \(IntImm\): a field has an invalid value",
    graph(node("relay.TupleGetItem", tuple_value="2", index="-1"), node("relay.Tuple", fields="3"),
          {"type_key": "Array"}): "a field has an invalid value: a tuple index cannot be negative",
    graph(node("relay.Call", op="2", args="3"), {"type_key": "Op", "repr_str": "none"},
          {"type_key": "Array"}): r"node 1 \(relay.Call\): unknown operator none",
    graph(node("IRModule", functions="2"), {"type_key": "Map", "keys": ["a"], "data": [3]},
          node("IntImm", value="1")): "@a: expected a function, found int",
    '{"root": 1, "nodes": ' + "[" * 100_000: "its JSON is nested too deeply",
    '{"root": ' + "9" * 5000 + ', "nodes": []}': "not a legacy TVM graph|a node index",
    '{"root": 1, "nodes": []}': "there is no node 1; the file has 0 nodes",
}  # fmt: skip


@pytest.mark.parametrize("text", NODES, ids=range(len(NODES)))
def test_json(text: str) -> None:
    with pytest.raises(ParseError, match=NODES[text]):
        relay.load_json(text)


def test_types_that_are_large_when_written_out() -> None:
    """Each tuple holds the next one twice: 2**n parts, which hashes and printers walk."""
    levels = 60
    nodes = []
    for level in range(levels):
        nodes.append(node("TupleType", fields=str(2 * level + 2)))
        inner = 2 * level + 3
        nodes.append({"type_key": "Array", "data": [inner, inner]})
    nodes.append({"type_key": "TupleType", "attrs": {"fields": str(2 * levels + 2)}})
    nodes.append({"type_key": "Array"})
    with pytest.raises(ParseError, match=r"node \d+ .*expected at most 1000000 nodes"):
        relay.load_json(graph(*nodes))


def test_json_of_something_else() -> None:
    with pytest.raises(ParseError, match="expected a module or an expression, found int"):
        tvm_disc.build(graph(node("IntImm", value="1")))


def test_a_module_without_main() -> None:
    text = HEAD + "def @f(%x: int32) { %x }\ndef @g(%x: int32) { %x }"
    with pytest.raises(TypeMismatch, match=r"a function @main, found functions: @f, @g"):
        tvm_disc.build(text)
    with pytest.raises(TypeMismatch, match="a function @main, found functions: none"):
        tvm_disc.build(HEAD)


def test_files_that_cannot_be_read(tmp_path: Any) -> None:
    for path, message in (
        ("nowhere.relay", r"nowhere\.relay: No such file"),
        ("nowhere.json", r"nowhere\.json: No such file"),
        (tmp_path, "Is a directory"),
        ("zero\0byte.relay", "null byte"),
    ):
        with pytest.raises(BadInput, match=message):
            tvm_disc.build(path)


def params(name: bytes, *fields: int) -> bytes:
    """A parameter file of one tensor of these dims."""
    head = struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 1, len(name)) + name
    shape = struct.pack(f"<{len(fields)}q", *fields)
    tensor = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, len(fields), 2, 32, 1)
    return head + struct.pack("<Q", 1) + tensor + shape + struct.pack("<q", 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated"),
        (params(b"\xff\xff", 0), "byte 32: the name of a tensor is not UTF-8 text"),
        (params(b"w", -1, -8), r"byte 41: 'w': .* found \(-1, -8\)"),
        (params(b"w", 1 << 32, 1 << 32), r"byte 41: 'w': .* a declared size of 0 bytes"),
        (params(b"w", *[1] * 40), r"byte 41: 'w': .* at most 32 dims"),
    ],
)
def test_parameters(data: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        relay.load_param_dict(data)


def test_good_files_are_read_as_before() -> None:
    for path in JSONS:
        with located(path):
            relay.load_json(path.read_text())
