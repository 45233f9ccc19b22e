"""Text as TVM prints it: order, numbers, names, types, and what is left out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.relay.helpers import DATA, TEXTS
from tests.relay.language.programs import LIST, module
from tvm_disc import relay

# The prelude's text has types of thousands of calls; that of TVM's importer has attributes apart.
PRINTED = [p for p in TEXTS if p.parent.name == "printed" and "adt" not in p.name]


def lines(text: str) -> list[str]:
    """Without comments and metadata; boxed numbers as numbers."""
    text = text.partition("#[metadata]")[0].replace("meta[runtime.BoxInt][0]", "4")
    while (shorter := re.sub(r" ?/\*(?:(?!/\*).)*?\*/", "", text, flags=re.S)) != text:
        text = shorter
    return text.strip().splitlines()


@pytest.mark.parametrize("path", PRINTED, ids=lambda p: p.name)
def test_text_is_that_of_tvm(path: Path) -> None:
    text = path.read_text()
    assert lines(relay.parse(text).astext()) == lines(text)


def test_bodies_of_the_prelude_are_those_of_tvm() -> None:
    text = (DATA / "printed" / "adt_list_map.relay").read_text()
    printed = lines(relay.parse(text).astext())
    different = [(a, b) for a, b in zip(printed, lines(text), strict=True) if a != b]
    # TVM writes the fields' types of a constructor that is a value, and arange's operands apart.
    known = ("Cons(A, List[A])", "arange(")
    assert [b for _, b in different if not any(k in b for k in known)] == []


def text_of(source: str) -> str:
    return "\n".join(lines(relay.parse(module(source)).astext())[1:])


def test_lines_come_when_they_are_first_needed() -> None:
    found = text_of(
        "def @f(%x: int32) { %0 = add(%x, 1); %1 = negative(%0); "
        "%2 = subtract(%x, 2); %3 = (%1, %2); %3.0 }"
    )
    assert found.splitlines()[1:-1] == [
        "  %0 = add(%x, 1);",
        "  %1 = negative(%0);",
        "  %2 = subtract(%x, 2);",
        "  %3 = (%1, %2);",
        "  %3.0",
    ]
    late = text_of(
        "def @f(%x: int32) { %0 = negative(negative(%x)); %1 = abs(abs(%x)); add(%0, %1) }"
    )
    assert late.splitlines()[1:-1] == [
        "  %0 = negative(%x);",
        "  %1 = abs(%x);",
        "  %2 = negative(%0);",
        "  %3 = abs(%1);",
        "  add(%2, %3)",
    ]


def test_conditions_come_before_branches() -> None:
    found = text_of(
        "def @f(%x: int32) { %0 = if (less(%x, 1)) { add(add(%x, 1), 2) } else { 3 }; add(%0, %0) }"
    )
    assert found.splitlines()[1:3] == ["  %0 = less(%x, 1);", "  %2 = if (%0) {"]


def test_a_binding_of_two_branches_stands_before_them() -> None:
    mod = relay.parse(
        module("def @f(%x: int32) { %0 = add(%x, 1); if (True) { add(%0, 1) } else { %0 } }")
    )
    assert "  %0 = add(%x, 1);\n  if (True)" in mod.astext()
    assert relay.structural_equal(relay.parse(mod.astext()), mod)


def test_names() -> None:
    x, y = relay.var("x"), relay.var("x")
    inner = relay.Let(y, x, y)
    assert lines(relay.astext(relay.Function([x], inner))) == [
        '#[version = "0.0.5"]',
        "fn (%x) {",
        "  let %x1 = %x;",
        "  %x1",
        "}",
    ]
    assert "%v1" in relay.astext(relay.var("1")) and "%v;" in relay.astext(relay.var(""))
    assert "let %v = 1;\nlet %v1 = 2;\n3" in relay.astext(relay.parse_expr("1; 2; 3"))


def test_types_and_annotations_are_comments() -> None:
    x = relay.var("x", shape=(2, 3))
    call = relay.exp(x)
    call._checked_type = x.type_annotation
    found = relay.astext(relay.Function([x], call))
    assert "exp(%x) /* ty=Tensor[(2, 3), float32] */" in found
    told = relay.astext(relay.Function([x], call), annotate=lambda n: f" /* {type(n).__name__} */")
    assert "fn (%x: Tensor[(2, 3), float32] /* Var */) {\n  exp(%x) /* Call */\n} /* Fun" in told
    assert relay.structural_equal(relay.parse_expr(told), relay.parse_expr(found))
    mod = relay.IRModule.from_expr(relay.Function([x], call))
    assert "/* Call */" in mod.astext(annotate=lambda n: f" /* {type(n).__name__} */")


def test_version_and_metadata() -> None:
    x = relay.var("x", shape=(2,))
    mod = relay.IRModule.from_expr(relay.Function([x], x + relay.const(np.ones(2, "float32"))))
    assert mod.astext().startswith('#[version = "0.0.5"]\ndef @main')
    assert '#[metadata]\n{\n  "root": 1' in mod.astext()
    short = mod.astext(show_meta_data=False)
    assert short.startswith("#[version") and "metadata section has been omitted" in short
    assert str(mod) == relay.pretty_print(mod) == short.partition("\n")[2]


def test_data_types() -> None:
    found = text_of(f"type Z {{ Y, X(Z), }}\n{LIST}def @f(%x: Z) -> L[Z] {{ C(%x, N) }}")
    assert found.startswith("type L[A] {\n  C(A, L[A]),\n  N,\n}\n\ntype Z {\n  Y,\n  X(Z[]),\n}\n")
    assert "def @f(%x: Z[]) -> L[Z[]] {\n  %0 = N;\n  C(%x, %0)\n}" in found
    assert relay.astext(relay.RefType(relay.scalar_type("int32"))) == "ref(int32)"


def test_attributes_that_are_no_default_are_written() -> None:
    x = relay.var("x", shape=(2, 2))
    for call, text in [
        (relay.nn.softmax(x, axis=0), "nn.softmax(%x, axis=0)"),
        (relay.nn.softmax(x), "nn.softmax(%x)"),
        (relay.clip(x, 0.0, 6.0), "clip(%x, a_min=0f, a_max=6f)"),
        (relay.nn.dense(x, x), "nn.dense(%x, %x, units=None)"),
        (relay.cast(x, "int8"), 'cast(%x, dtype="int8")'),
        (relay.transpose(x, (1, 0)), "transpose(%x, axes=[1, 0])"),
    ]:
        assert relay.astext(call).splitlines()[-1] == text


def shared_values() -> dict[str, relay.Expr]:
    """Programs in which what a block ends with is used outside of it, too."""
    x, y, c = (
        relay.var("x", shape=(3,)),
        relay.var("y", shape=(3,)),
        relay.var("c", shape=(), dtype="bool"),
    )
    s = relay.exp(x)
    branch = relay.Let(y, relay.tanh(x), s)
    programs = {
        "branches, and outside": relay.Tuple([relay.If(c, s, branch), s]),
        "both branches": relay.If(c, s, branch),
        "a let's body": relay.Tuple([branch, s]),
        "a let's value and body": relay.Tuple([relay.Let(y, s, s), s]),
        "a function's body": relay.Tuple([relay.Call(relay.Function([y], s), [x]), s]),
        "inside of a function": relay.Tuple(
            [s, relay.Call(relay.Function([y], relay.add(s, y)), [x])]
        ),
    }
    return {name: relay.Function([x, c], body) for name, body in programs.items()}


@pytest.mark.parametrize("name", shared_values())
def test_what_is_shared_is_written_before_its_first_use(name: str) -> None:
    mod = relay.IRModule.from_expr(shared_values()[name])
    assert relay.structural_equal(relay.parse(mod.astext()), mod)
