"""Parser of types, literals and attribute values of the text format."""

from __future__ import annotations

import re

import numpy as np

from tvm_disc.relay import types as ty
from tvm_disc.relay.attrs import AttrError, LegacyAttrs, plain_value
from tvm_disc.relay.expr import Array, AttrValue, Constant, Expr
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.text.lexer import Token
from tvm_disc.relay.text.token_stream import TokenStream

_INT = re.compile(r"(-?\d+)(?:([iu])(\d*))?$")


class TypeParser(TokenStream):
    """Parser of types; ``type_scopes`` holds the type parameters in scope, ``types`` the data
    types.
    """

    type_scopes: list[dict[str, ty.TypeVar]]
    types: dict[str, ty.GlobalTypeVar]
    mod: IRModule

    def parse_type(self) -> ty.Type:
        """Parse one type; ParseError if there is none."""
        token = self.token
        if token.text == "(":
            return self._tuple_type()
        if token.kind != "name":
            self.fail("expected a type")
        if token.text == "fn":
            return self._func_type()
        if token.text == "Tensor":
            return self._tensor_type()
        if token.text == "meta":
            return self._meta_type()
        self.next()
        if token.text == "_":
            return ty.IncompleteType()
        return self._named_type(token)

    def type_params(self) -> tuple[ty.TypeVar, ...]:
        """Parse an optional ``[A, B]`` and add the parameters to the innermost scope."""
        names: list[ty.TypeVar] = []
        if self.accept("["):
            while not self.accept("]"):
                token = self.expect_kind("name", "a type parameter")
                var = ty.TypeVar(token.text)
                if var in names:
                    self.fail(f"type parameter {var.name} is defined twice", token)
                names.append(var)
                self.type_scopes[-1][var.name] = var
                if not self.at("]"):
                    self.expect(",", "between type parameters")
        return tuple(names)

    def _named_type(self, token: Token) -> ty.Type:
        name = token.text
        for scope in reversed(self.type_scopes):
            if name in scope:
                return scope[name]
        if name in self.types:
            return ty.TypeCall(self.types[name], self._type_args())
        if ty.is_dtype(name):
            return ty.scalar_type(name)
        if name == "Ref" and self.at("["):
            values = self._type_args()
            if len(values) != 1:
                self.fail(f"expected one type in a reference, found {len(values)}", token)
            return ty.RefType(values[0])
        if name == "ref" and self.accept("("):
            value = self.parse_type()
            self.expect(")", "after the type in the reference")
            return ty.RefType(value)
        self.fail(f"unknown type {name!r}; known data types: {sorted(self.types)}", token)
        return None

    def _type_args(self) -> tuple[ty.Type, ...]:
        return self._types("[", "]", "between type arguments")

    def _types(self, begin: str, end: str, between: str) -> tuple[ty.Type, ...]:
        """Parse types in brackets; return an empty tuple if the brackets are missing."""
        found: list[ty.Type] = []
        if self.accept(begin):
            while not self.accept(end):
                found.append(self.parse_type())
                if not self.at(end):
                    self.expect(",", between)
        return tuple(found)

    def _tuple_type(self) -> ty.Type:
        self.expect("(")
        fields: list[ty.Type] = []
        comma = False
        while not self.accept(")"):
            fields.append(self.parse_type())
            if not self.at(")"):
                self.expect(",", "between tuple types")
                comma = True
        if len(fields) == 1 and not comma:
            return fields[0]
        return ty.TupleType(tuple(fields))

    def _func_type(self) -> ty.Type:
        self.expect("fn")
        self.type_scopes.append({})
        params = self.type_params()
        self.expect("(", "in a function type")
        args: list[ty.Type] = []
        while not self.accept(")"):
            args.append(self.parse_type())
            if not self.at(")"):
                self.expect(",", "between parameter types")
        self.expect("->", "in a function type")
        result = self.parse_type()
        self.type_scopes.pop()
        return ty.FuncType(tuple(args), result, params)

    def _tensor_type(self) -> ty.Type:
        self.expect("Tensor")
        self.expect("[", "after Tensor")
        if self.at("meta"):
            shape = self.meta_ref()
            if not isinstance(shape, list):
                self.fail("expected a shape")
            dims = [ty.as_dim(d) for d in shape]
        else:
            dims = self._dims()
        self.expect(",", "between the shape and the element type")
        dtype = self.expect_kind("name", "an element type")
        if not ty.is_dtype(dtype.text):
            self.fail(f"unknown element type {dtype.text!r}", dtype)
        self.expect("]", "after the element type")
        return ty.TensorType(tuple(dims), dtype.text)

    def _dims(self) -> list[ty.Dim]:
        self.expect("(", "before the dimensions")
        dims: list[ty.Dim] = []
        while not self.accept(")"):
            dims.append(self._dim())
            if not self.at(")"):
                self.expect(",", "between dimensions")
        return dims

    def _dim(self) -> ty.Dim:
        token = self.token
        if self.accept("?"):
            return ty.Any()
        if token.text == "meta":
            dim = self.meta_ref()
            if not isinstance(dim, (int, ty.DimExpr)):
                self.fail(f"expected a dimension, found {type(dim).__name__}", token)
            return dim
        text = self.expect_kind("int", "a dimension: a number, ? or meta[...]").text
        if not text.isdigit():
            self.fail(f"a dimension: expected a non-negative integer, found {text}", token)
        if len(text) > 19 or int(text) >= 1 << 63:
            self.fail("a dimension must be less than 2**63", token)
        return int(text)

    def _meta_type(self) -> ty.Type:
        token = self.token
        found = self.meta_ref()
        if not isinstance(found, ty.Type):
            self.fail(f"expected a type, found {type(found).__name__}", token)
        return found

    def _type_def(self) -> None:
        extern = self.accept("extern")
        self.expect("type")
        name = self.expect_kind("name", "the name of a type").text
        self.type_scopes.append({})
        params = self.type_params()
        ctors: list[ty.ConstructorSig] = []
        if not extern or self.at("{"):
            self.expect("{", "before the constructors")
            while not self.accept("}"):
                token = self.token
                ctors.append(self._constructor_sig())
                known = [*self.mod.constructors, *(c.name for c in ctors[:-1])]
                if token.text in known:
                    self.fail(f"constructor {token.text} is defined twice", token)
                if not self.at("}"):
                    self.expect(",", "between constructors")
        self.accept(";")
        self.type_scopes.pop()
        self.mod.add_type(ty.TypeData(self.types[name], params, tuple(ctors)))

    def _constructor_sig(self) -> ty.ConstructorSig:
        name = self.expect_kind("name", "the name of a constructor").text
        return ty.ConstructorSig(name, self._types("(", ")", "between field types"))

    # -- literals and attribute values

    def number(self, token: Token) -> Array:
        """Return the value of a number token in its own type (int32 and float32 by default)."""
        if token.kind == "int":
            match = _INT.match(token.text)
            assert match is not None
            kind = {"i": "int", "u": "uint", None: "int"}[match[2]]
            dtype = np.dtype(f"{kind}{match[3] or 32}")
            value = int(match[1])
            if match[2] is None and match[3] is None and not -(2**31) <= value < 2**31:
                dtype = np.dtype("int64")  # Relay's type of a number without a suffix
            if not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                self.fail(f"{value} does not fit {dtype}; write {value}i64", token)
            return np.asarray(value, dtype)
        text, _, bits = token.text.rpartition("f") if "inf" not in token.text else _inf(token)
        value_read = float(text or bits)
        with np.errstate(over="ignore"):  # a value that overflows is refused below
            made = np.asarray(value_read, f"float{bits if text and bits else 32}")
        most = np.finfo(made.dtype).max  # the shortest text of the largest number may round up
        if "inf" not in token.text and abs(value_read) > max(float(most), float(str(most))):
            self.fail(f"{text or bits} does not fit {made.dtype}", token)
        return made

    def attr_number(self, token: Token) -> int | float:
        """Return the value of a number token in an attribute: an unbounded int, or a double."""
        if token.kind == "int":
            match = _INT.match(token.text)
            assert match is not None
            return int(match[1])
        if "inf" in token.text:
            return float(_inf(token)[0])
        return float(token.text.partition("f")[0])

    def attr_value(self) -> AttrValue:
        """Parse one attribute value; an expression (a constant or variable) becomes None."""
        token = self.token
        if token.kind in ("int", "float"):
            return self.attr_number(self.next())
        if token.kind == "string":
            return self.next().text[1:-1]
        if token.kind in ("local", "graph", "global"):
            self.next()
            return None
        if token.text in ("[", "("):
            return self._attr_list("]" if self.next().text == "[" else ")")
        if token.text == "meta":
            return self._meta_attr()
        words = {"True": True, "False": False, "None": None, "nullptr": None}
        if token.kind == "name" and token.text in words:
            return words[self.next().text]
        self.fail('expected an attribute value: a number, bool, "string", [list] or meta[...]')
        return None

    def _attr_list(self, close: str) -> AttrValue:
        items: list[object] = []
        while not self.accept(close):
            items.append(self.attr_value())
            if not self.at(close):
                self.expect(",", "between attribute values")
        return tuple(items)

    def _meta_attr(self) -> AttrValue:
        token = self.token
        value = self.meta_ref()
        if isinstance(value, (Expr, LegacyAttrs)):
            return None
        try:
            return plain_value(value)
        except AttrError as error:
            self.fail(str(error), token)

    def scalar(self) -> Constant:
        """Parse a number or bool literal as a rank-0 constant."""
        token = self.next()
        if token.kind == "name":
            return Constant(np.array(token.text == "True"))
        return Constant(self.number(token))


def _inf(token: Token) -> tuple[str, str, str]:
    sign = "-" if token.text.startswith("-") else ""
    return f"{sign}inf", "f", token.text.rpartition("inf")[2].lstrip("f")
