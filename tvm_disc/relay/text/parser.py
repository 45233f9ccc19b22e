"""Parser of Relay text: modules and expressions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tvm_disc.errors import BadNode, ParseError, shown
from tvm_disc.relay import types as ty
from tvm_disc.relay.attrs import LegacyAttrs
from tvm_disc.relay.expr import (
    Attrs,
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Span,
    Tuple,
    TupleGetItem,
    Var,
    get_op,
)
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.ops.table import OPS, call_attrs
from tvm_disc.relay.text.lexer import SourceText, Token, tokenize
from tvm_disc.relay.text.type_parser import TypeParser

_BINARY = {
    "*": (12, "multiply"),
    "/": (12, "divide"),
    "+": (10, "add"),
    "-": (10, "subtract"),
    "<": (8, "less"),
    "<=": (8, "less_equal"),
    ">": (8, "greater"),
    ">=": (8, "greater_equal"),
    "==": (7, "equal"),
    "!=": (7, "not_equal"),
}
MetaTable = dict[str, list[Any]]


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: MetaTable | None = None,
) -> IRModule:
    """Parse text that starts with ``#[version = "0.0.5"]``.

    Args:
        source_name: name of the text in error messages.
        init_module: functions and types that the text may use; the result contains them too.
        init_meta_table: ``meta[Key][k]`` objects for a text printed without metadata.

    Raises:
        ParseError: with line:column, the line, what was expected and what was found.
    """
    if not isinstance(source_name, str):
        raise BadNode(f"parse: source_name: expected a string, found {shown(source_name)}")
    if init_module is not None and not isinstance(init_module, IRModule):
        raise BadNode(f"parse: init_module: expected a relay.IRModule, found {shown(init_module)}")
    try:
        found = tokenize(source, need_header=True, name=source_name)
        parser = Parser(found, init_meta_table, init_module)
        with _guard(parser):
            return parser.module()
    except ParseError as error:
        if source_name == "from_string":
            raise
        raise type(error)(error.message, error.line, error.column, source_name) from None


def fromtext(data: str, source_name: str = "from_string") -> IRModule:
    """Parse Relay text to a module."""
    return parse(data, source_name)


def parse_expr(text: str, init_meta_table: MetaTable | None = None) -> Expr:
    """Parse Relay text to an expression; the version line is optional. Raises ParseError."""
    parser = Parser(tokenize(text, need_header=False), init_meta_table)
    with _guard(parser):
        return parser.whole_expr()


E = TypeVar("E", bound=Expr)


@contextmanager
def _guard(parser: Parser) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        parser.fail("nested too deeply here; bind inner parts with %0 = ...;", parser.token)


class Parser(TypeParser):
    """Recursive-descent parser; sequences of bindings are read in a loop.

    Two stacks have one entry per open block: ``graph`` the bindings of ``%0`` style, ``locals`` the
    variables.
    """

    def __init__(
        self, source: SourceText, table: MetaTable | None, base: IRModule | None = None
    ) -> None:
        super().__init__(source, table)
        self.mod = IRModule() if base is None else base.copy()
        self.type_scopes = [{}]
        self.types: dict[str, ty.GlobalTypeVar] = {}
        self.locals: list[dict[str, Var]] = [{}]
        self.graph: list[dict[str, Expr]] = [{}]
        self.globals: dict[str, tuple[GlobalVar, Token]] = {}
        # ids of metadata objects, which have no position in the text
        self.foreign: set[int] = set()
        if base is not None:
            self.types.update((d.header.name, d.header) for d in base.type_definitions.values())
            self.globals.update((g.name_hint, (g, self.tokens[0])) for g in base.functions)

    # -- definitions

    def module(self) -> IRModule:
        """Parse every definition up to the end of the text; return the module."""
        starts = self._definitions()
        for start, kind in starts:
            if kind != "def":
                token = self.tokens[start + (2 if kind == "extern" else 1)]
                if token.text in self.types:
                    self.fail(f"type {token.text} is defined twice", token)
                self.types[token.text] = ty.GlobalTypeVar(token.text)
        for start, kind in starts:
            self.index = start
            if kind != "def":
                self._type_def()
        for start, kind in starts:
            self.index = start
            if kind == "def":
                self._func_def()
        for name, (_, token) in self.globals.items():
            if name not in self.mod:
                self.fail(f"function @{name} is not defined in this module", token)
        return self.mod

    def _definitions(self) -> list[tuple[int, str]]:
        """Return (token index, keyword) of each definition: types are parsed before functions."""
        starts: list[tuple[int, str]] = []
        depth = 0
        for index, token in enumerate(self.tokens[:-1]):
            if token.kind == "punct":
                depth += (token.text in "([{") - (token.text in ")]}")
            elif depth == 0 and token.kind == "name" and token.text in ("def", "type", "extern"):
                after_extern = starts and starts[-1] == (index - 1, "extern")
                if not after_extern:
                    starts.append((index, token.text))
        if self.tokens[0].kind != "end" and (not starts or starts[0][0] != 0):
            self.fail("expected a definition: def, type or extern type")
        return starts

    def _func_def(self) -> None:
        start = self.expect("def")
        token = self.expect_kind("global", "the name of a function, like @main")
        name = token.text[1:]
        if name in self.mod:
            self.fail(f"function @{name} is defined twice", token)
        func = self._spanned(self._function(), start)
        self.mod[self._global_var(token)] = func
        if self.token.kind != "end" and self.token.text not in ("def", "type", "extern"):
            self.fail("expected a definition or the end of the text")

    def _global_var(self, token: Token) -> GlobalVar:
        name = token.text[1:]
        if name not in self.globals:
            self.globals[name] = (GlobalVar(name), token)
        return self.globals[name][0]

    def _function(self) -> Function:
        """Parse the part of a function after ``def @f`` or ``fn``."""
        self.type_scopes.append({})
        self.locals.append({})
        type_params = self.type_params()
        params, attrs = self._params()
        ret = self.parse_type() if self.accept("->") else None
        body = self._braced()
        self.locals.pop()
        self.type_scopes.pop()
        return Function(params, body, ret, type_params, attrs)

    def _params(self) -> tuple[list[Var], Attrs]:
        self.expect("(", "before the parameters")
        params: list[Var] = []
        attrs: Attrs = {}
        while not self.accept(")"):
            if self.token.kind == "local":
                token = self.token
                params.append(self._binder())
                if any(p.name_hint == params[-1].name_hint for p in params[:-1]):
                    self.fail(f"parameter {token.text} is defined twice", token)
            elif self.token.kind in ("name", "string"):
                self._attr_into(attrs)
            else:
                self.fail("expected a parameter like %x: type, or an attribute")
            if not self.at(")"):
                self.expect(",", "between parameters")
        return params, attrs

    def _binder(self) -> Var:
        """Parse ``%x: type`` and add the variable to the innermost scope."""
        token = self.expect_kind("local", "a variable like %x")
        name = token.text[1:]
        if self.accept("{"):  # device annotations
            while not self.accept("}"):
                if self.token.kind == "end":
                    self.fail("expected } after the annotations of a variable")
                self.next()
        annotation = self.parse_type() if self.accept(":") else None
        if isinstance(annotation, ty.IncompleteType):  # ``_`` is the same as no annotation
            annotation = None
        var = Var(name, annotation, self._span() or self.source.span(token, token))
        self.locals[-1][name] = var
        return var

    def _attr_into(self, attrs: Attrs) -> None:
        token = self.next()
        key = token.text.strip('"')
        if key in attrs:
            self.fail(f"attribute {key} is given twice", token)
        self.expect("=", f"after attribute {key}")
        attrs[key] = self.attr_value()

    # -- expressions

    def whole_expr(self) -> Expr:
        """Parse one expression that ends with the text."""
        expr = self._sequence()
        if self.token.kind != "end":
            self.fail("expected the end of the text")
        return expr

    def _braced(self) -> Expr:
        self.expect("{")
        return self._block("}")

    def _block(self, close: str) -> Expr:
        self.locals.append({})
        self.graph.append({})
        expr = self._sequence()
        self.graph.pop()
        self.locals.pop()
        self.expect(close, "after the expression")
        return expr

    def _sequence(self) -> Expr:
        """Parse bindings and a value; the ``Let`` nodes are built at the end, innermost first."""
        lets: list[tuple[Var, Expr, Token]] = []
        while True:
            start = self.token
            if self.accept("free_var"):
                self._binder()
                self.expect(";", "after free_var")
            elif self.token.kind == "graph" and self.peek().text == "=":
                self._graph_binding()
            elif self.at("let"):
                lets.append((*self._let(), start))
            else:
                value = self._binop()
                if not self.accept(";"):
                    break
                lets.append((Var(""), value, start))
        for var, bound, start in reversed(lets):
            value = Let(var, bound, value, self._place(start))
        return value

    def _graph_binding(self) -> None:
        name = self.next()
        self.expect("=")
        value = self._binop()
        if name.text in self.graph[-1]:
            self.fail(f"{name.text} is bound twice in this block", name)
        self.graph[-1][name.text] = value
        self.expect(";", f"after the binding of {name.text}")

    def _let(self) -> tuple[Var, Expr]:
        self.expect("let")
        var = self._binder()
        self.expect("=", f"after let %{var.name_hint}")
        value = self._binop()
        self.expect(";", f"after let %{var.name_hint}")
        return var, value

    def _binop(self, floor: int = 0) -> Expr:
        start = self.token
        lhs = self._call()
        while self.token.kind == "punct" and self.token.text in _BINARY:
            level, name = _BINARY[self.token.text]
            if level < floor:
                break
            self.next()
            rhs = self._binop(level + 1)
            lhs = self._spanned(Call(get_op(name), (lhs, rhs)), start)
        return lhs

    def _call(self) -> Expr:
        start = self.token
        expr = self._atom()
        called = False
        while self.at("("):
            expr = self._projections(self._spanned(self._arguments(expr, start), start), start)
            called = True
        if isinstance(expr, Constructor) and not called and not expr.inputs:
            expr = self._spanned(Call(expr, ()), start)
        return expr

    def _arguments(self, func: Expr, start: Token) -> Call:
        self.expect("(")
        args: list[Expr] = []
        attrs: Attrs = {}
        while not self.accept(")"):
            if self.token.kind == "name" and self.peek().text == "=":
                self._attr_into(attrs)
            else:
                value = self._argument()
                if isinstance(value, Expr):
                    args.append(value)
                else:
                    attrs[""] = value
            if not self.at(")"):
                self.expect(",", "between arguments")
        try:
            return Call(func, args, call_attrs(func, attrs))
        except ParseError as error:
            self.fail(str(error), start)

    def _argument(self) -> Expr | LegacyAttrs:
        if self.at("meta"):
            token = self.token
            after = self.tokens[min(self.index + 7, len(self.tokens) - 1)]
            if after.text in (",", ")"):
                found = self.meta_ref()
                if isinstance(found, LegacyAttrs):
                    return found
                return self._spanned(self._meta_expr(found, token), token)
        return self._binop()

    def _meta_expr(self, found: object, token: Token) -> Expr:
        if not isinstance(found, Expr):
            self.fail(f"expected an expression, found {type(found).__name__}", token)
        self.foreign.add(id(found))
        return found

    def _atom(self) -> Expr:
        start = self.token
        return self._projections(self._spanned(self._primary(), start), start)

    def _projections(self, expr: Expr, start: Token) -> Expr:
        while self.token.kind == "proj":
            expr = self._spanned(TupleGetItem(expr, int(self.next().text[1:])), start)
        return expr

    def _primary(self) -> Expr:
        token = self.token
        if token.kind in ("int", "float"):
            return self.scalar()
        if token.kind == "local":
            return self._lookup(self.next(), self.locals, 1)
        if token.kind == "graph":
            return self._lookup(self.next(), self.graph, 0)
        if token.kind == "global":
            return self._global_var(self.next())
        if token.text == "(":
            return self._parenthesised()
        if token.text == "{":
            return self._braced()
        if token.kind != "name":
            self.fail("expected an expression")
        keyword = _KEYWORDS.get(token.text)
        if keyword is None:
            return self._named(self.next())
        return keyword(self)

    def _lookup(self, token: Token, scopes: list[dict[str, Any]], skip: int) -> Expr:
        name = token.text[skip:]
        for scope in reversed(scopes):
            if name in scope:
                found: Expr = scope[name]
                return found
        what = "variable" if skip else "graph binding"
        self.fail(f"{what} {token.text} is not bound here", token)
        return None

    def _named(self, token: Token) -> Expr:
        if token.text in ("ref", "ref_read", "ref_write") and self.at("("):
            return self._reference(token)
        if token.text in self.mod.constructors:
            return self.mod.constructors[token.text]
        if token.text in OPS:
            return get_op(token.text)
        self.fail(f"unknown operator or constructor {token.text!r}", token)
        return None

    def _reference(self, token: Token) -> Expr:
        self.expect("(")
        args = [self._binop()]
        while self.accept(","):
            args.append(self._binop())
        self.expect(")", f"after the operands of {token.text}")
        needed = 2 if token.text == "ref_write" else 1
        if len(args) != needed:
            self.fail(f"{token.text} takes {needed} operand(s), found {len(args)}", token)
        if token.text == "ref":
            return RefCreate(args[0])
        return RefRead(args[0]) if token.text == "ref_read" else RefWrite(args[0], args[1])

    def _parenthesised(self) -> Expr:
        self.expect("(")
        if self.accept(")"):
            return Tuple(())
        self.locals.append({})
        self.graph.append({})
        first = self._sequence()
        self.graph.pop()
        self.locals.pop()
        if self.accept(")"):
            return first
        fields = [first]
        while self.accept(","):
            if self.at(")"):
                break
            fields.append(self._binop())
        self.expect(")", "after the tuple")
        return Tuple(tuple(fields))

    def _fn(self) -> Expr:
        self.expect("fn")
        return self._function()

    def _if(self) -> Expr:
        self.expect("if")
        self.expect("(", "after if")
        cond = self._block(")")
        then = self._braced()
        self.expect("else", "after the first branch of if")
        return If(cond, then, self._braced())

    def _meta(self) -> Expr:
        token = self.token
        return self._meta_expr(self.meta_ref(), token)

    def _bool(self) -> Constant:
        return self.scalar()

    # -- match

    def _match(self) -> Expr:
        self.expect("match")
        complete = not self.accept("?")
        start = self.token
        data = self._atom()
        while self.at("("):  # a call such as @f(%x), or of any expression in parentheses
            data = self._projections(self._spanned(self._arguments(data, self.token), start), start)
        if isinstance(data, Constructor) and not data.inputs:
            data = self._spanned(Call(data, ()), start)
        self.expect("{", "before the clauses of match")
        clauses: list[Clause] = []
        while not self.accept("}"):
            self.locals.append({})
            pattern = self._pattern()
            self.expect("=>", "after the pattern")
            rhs = self._braced() if self.at("{") else self._binop()
            clauses.append(Clause(pattern, rhs))
            self.locals.pop()
            if not self.at("}"):
                self.expect(",", "between clauses")
        return Match(data, tuple(clauses), complete)

    def _pattern(self) -> Pattern:
        token = self.token
        if token.kind == "local":
            return PatternVar(self._binder())
        if token.text == "(":
            return PatternTuple(self._patterns())
        if token.kind != "name":
            self.fail("expected a pattern")
        self.next()
        if token.text == "_":
            return PatternWildcard()
        ctor = self.mod.constructors.get(token.text)
        if ctor is None:
            known = sorted(self.mod.constructors)
            self.fail(f"unknown constructor {token.text!r}; known: {known}", token)
        patterns = self._patterns() if self.at("(") else ()
        if len(patterns) != len(ctor.inputs):
            self.fail(
                f"{token.text} has {len(ctor.inputs)} field(s), the pattern {len(patterns)}", token
            )
        return PatternConstructor(ctor, patterns)

    def _patterns(self) -> tuple[Pattern, ...]:
        self.expect("(")
        patterns: list[Pattern] = []
        while not self.accept(")"):
            patterns.append(self._pattern())
            if not self.at(")"):
                self.expect(",", "between patterns")
        return tuple(patterns)

    # -- spans

    def _span(self) -> Span | None:
        return self.source.spans.get(self.index - 1)

    def _place(self, start: Token) -> Span:
        return self.source.span(start, self.tokens[self.index - 1])

    def _spanned(self, expr: E, start: Token) -> E:
        """Return ``expr`` with a span: the one in the comment after it, else its position in the
        text.

        An expression that already has a position in the text keeps it.
        """
        if isinstance(expr, (Var, GlobalVar, Op, Constructor)):
            return expr
        told = self._span()
        if told is not None and (expr.span is None or expr.span.implied):
            expr.span = told
        elif expr.span is None and id(expr) not in self.foreign:
            expr.span = self._place(start)
        return expr


_KEYWORDS = {
    "fn": Parser._fn,
    "if": Parser._if,
    "match": Parser._match,
    "meta": Parser._meta,
    "True": Parser._bool,
    "False": Parser._bool,
}
