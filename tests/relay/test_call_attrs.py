"""Attributes of Relax's calls."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from tvm_disc.relay.call_attrs import fields_of, with_dtypes


def _call(build: str) -> relax.Call:
    x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    if build == "matmul":
        return relax.op.matmul(x, relax.op.permute_dims(x), out_dtype="float32")
    return relax.op.astype(x, "float16")


@pytest.mark.parametrize(
    ("build", "name"), [("matmul", "out_dtype"), ("astype", "dtype")], ids=["matmul", "astype"]
)
def test_types_are_named_anew_and_the_rest_is_kept(build: str, name: str) -> None:
    attrs = _call(build).attrs
    key, fields = fields_of(attrs)
    changed = with_dtypes(attrs, [name], "bfloat16")
    assert type(changed) is type(attrs)
    assert fields_of(changed)[0] == key
    assert str(getattr(changed, name)) == "bfloat16"
    others = {n: str(v) for n, v in fields_of(changed)[1].items() if n != name}
    assert others == {n: str(v) for n, v in fields.items() if n != name}


def test_dictionaries_of_attributes() -> None:
    attrs = tvm.ir.make_node("ir.DictAttrs", dtype="float32", count=3)
    changed = with_dtypes(attrs, ["dtype"], "float16")
    assert (str(changed["dtype"]), int(changed["count"])) == ("float16", 3)
    assert with_dtypes(attrs, [], "float16") is attrs


def test_a_field_that_there_is_not_is_an_error() -> None:
    with pytest.raises(KeyError, match="no_such"):
        with_dtypes(_call("astype").attrs, ["no_such"], "float16")
