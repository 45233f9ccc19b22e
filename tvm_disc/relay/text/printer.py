"""Printer of Relay text.

Every operation gets a line ``%N = ...;`` (A-normal form in the text) in the innermost block that
encloses all its uses; a block ends with its value. The first pass finds the blocks, users first.
The second pass writes the lines, operands first. The blocks are joined at the end. No pass
recurses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay import types as ty
from tvm_disc.relay.attrs import ARGUMENT_ATTRS
from tvm_disc.relay.expr import (
    Call,
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
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tvm_disc.relay.ops.row import REQUIRED
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay.text.lexer import VERSION
from tvm_disc.relay.text.meta_writer import MetaWriter, scalar_text
from tvm_disc.relay.visit import binders, children, free_vars, post_order

# Nodes whose type is printed.
_TYPED = (Var, Constant, Call, Tuple, TupleGetItem, Function)
_ATOMS = (Var, GlobalVar, Op, Constructor, Constant)
_NO_META = (
    "/* For debugging purposes the metadata section has been omitted.\n"
    " * If you would like to see the full metadata section you can set the \n"
    " * option to `True` when invoking `astext`. \n */\n"
)


class Printable(Protocol):
    """The members of a module that printing reads."""

    @property
    def functions(self) -> Mapping[GlobalVar, Function]:
        """Return functions by name."""

    @property
    def type_definitions(self) -> Mapping[str, ty.TypeData]:
        """Return data types by name."""


Annotate = Callable[[Expr], str]


def astext(
    value: Printable | Expr | ty.Type,
    show_meta_data: bool = True,
    annotate: Annotate | None = None,
) -> str:
    """Return the text of a value; with metadata it parses to an equal module or expression.

    Args:
        annotate: returns the text printed after a bound variable, constant, call, tuple, item or
            function, in place of its inferred type and span.
    """
    if isinstance(value, ty.Type):
        return pretty_print(value)
    text = _printed(value, show_meta_data, annotate)
    if isinstance(value, Expr):
        text = text.removesuffix("\n")  # only a module's text ends with a newline
    return f'#[version = "{VERSION}"]\n{text}'


def pretty_print(value: Printable | Expr | ty.Type) -> str:
    """Return the text without version line and metadata; it is for display, not for parsing."""
    if isinstance(value, ty.Type):
        return _Printer(None).type(value)
    return _printed(value, False, None)


def _printed(value: Printable | Expr, show_meta_data: bool, annotate: Annotate | None) -> str:
    if annotate is not None and not callable(annotate):
        raise BadNode(
            f"annotate: expected a function that takes an expression, found {shown(annotate)}"
        )
    printer = _Printer(annotate)
    if not hasattr(value, "type_definitions") and not isinstance(value, Expr):
        found = type(value).__name__
        raise BadNode(f"expected a relay module, expression or type, found {found}")
    body = printer.expression(value) if isinstance(value, Expr) else printer.module(value)
    tail = printer.meta.text() if show_meta_data else _NO_META
    return f"{body}\n{tail}" if printer.meta else body


class _Block:
    """The lines between two braces; ``value`` is the expression that ends the block."""

    def __init__(self, parent: _Block | None, value: Expr | None = None) -> None:
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.value = value
        self.lines: list[list[_Part]] = []
        self.next: _Block | None = None  # the rest after a let, at the same indentation


_Part = str | _Block


class _Place:
    """Where a node is printed: the block that encloses all its uses, and the number of uses."""

    def __init__(self, block: _Block, inline: bool) -> None:
        self.block = block
        self.uses = 1
        self._inline = inline

    @property
    def inline(self) -> bool:
        """Return whether the node needs no ``%N``: its only use ends a block or is bound by a
        let.
        """
        return self._inline and self.uses == 1

    def use(self, block: _Block) -> None:
        self.uses += 1
        self.block = _enclosing(self.block, block)


def _enclosing(a: _Block, b: _Block) -> _Block:
    """Return the innermost block that encloses both."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a


class _Printer:
    """State of one print; names, numbers and metadata are shared by the whole text."""

    def __init__(self, annotate: Annotate | None) -> None:
        self.annotate = annotate
        self.meta = MetaWriter()
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.last = -1
        self.text: dict[int, str] = {}
        self.parts: dict[int, list[_Part]] = {}
        self.places: dict[int, _Place] = {}
        self.blocks: dict[int, list[_Block]] = {}
        self.keep: list[Expr] = []

    # -- whole texts

    def module(self, mod: Printable) -> str:
        types = sorted(mod.type_definitions.items())
        texts = [self.type_data(data) for _, data in types]
        for var in sorted(mod.functions, key=lambda g: g.name_hint):
            func = mod.functions[var]
            self.name_binders(func)
            block = self.place(func.body)
            texts.append(
                _join([f"def @{var.name_hint}{self.signature(func)} {{", block, "}"], self)
            )
        return "\n".join(texts)

    def expression(self, expr: Expr) -> str:
        self.name_binders(expr)
        heads: list[list[_Part]] = [[f"free_var {self.binder(v)};"] for v in free_vars(expr)]
        block = self.place(expr)
        block.lines[:0] = heads
        return _join([block], self, outer=True)

    def type_data(self, data: ty.TypeData) -> str:
        params = f"[{', '.join(v.name for v in data.type_vars)}]" if data.type_vars else ""
        if not data.constructors:
            return f"extern type {data.header.name}{params}\n"
        lines = [f"type {data.header.name}{params} {{"]
        for sig in data.constructors:
            inputs = f"({', '.join(map(self.type, sig.inputs))})" if sig.inputs else ""
            lines.append(f"  {sig.name}{inputs},")
        return "\n".join([*lines, "}"]) + "\n"

    # -- pass 1 and 2: blocks, then lines

    def place(self, root: Expr) -> _Block:
        """Print everything under ``root`` and return its block.

        A node that a previously printed function contains too is printed again.
        """
        self.text, self.parts, self.places, self.blocks = {}, {}, {}, {}
        order = post_order(root)
        self.keep.extend(order)  # keeps nodes alive: the tables are keyed by identity
        top = _Block(None, root)
        self.use(root, top, inline=True)
        for node in reversed(order):
            if not isinstance(node, _ATOMS):
                self.open_blocks(node, self.places[id(node)])
        self.write_lines(root)
        return top

    def write_lines(self, root: Expr) -> None:
        """Write lines in TVM's order: a node's line is written when its first user is visited."""
        stack: list[tuple[Expr, str]] = [(root, "meet")]
        seen: set[int] = set()
        while stack:
            node, todo = stack.pop()
            if isinstance(node, _ATOMS):
                continue
            if todo == "line":
                self.line(node)
            elif todo == "done":
                for operand in _lifted(node):
                    self.line(operand)
                self.write(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, "done"))
                inside = [(child, "meet") for child in children(node)]
                # the condition, data or bound value comes before the lines of inner blocks
                if isinstance(node, If | Match | Let):
                    first = 1 if isinstance(node, Let) else 0
                    inside.insert(first + 1, (inside[first][0], "line"))
                stack.extend(reversed(inside))

    def line(self, node: Expr) -> None:
        """Write ``%N = ...;`` once, in the block of ``node``, unless the node is printed inline."""
        place = self.places.get(id(node))
        if place is None or place.inline or id(node) in self.text:
            return
        self.last += 1
        self.text[id(node)] = f"%{self.last}"
        place.block.lines.append([f"%{self.last} = ", *self.parts.pop(id(node)), ";"])

    def use(self, node: Expr, block: _Block, inline: bool = False) -> None:
        if isinstance(node, _ATOMS):
            return
        known = self.places.get(id(node))
        if known:
            known.use(block)
        else:
            self.places[id(node)] = _Place(block, inline)

    def open_blocks(self, node: Expr, place: _Place) -> None:
        """Make the blocks inside ``node`` and record the uses of its operands."""
        here = place.block
        if isinstance(node, Let):
            if not (place.inline and here.value is node):
                here = _Block(here, node)
                self.blocks[id(node)] = [here]
            here.next = _Block(here, node.body)
            self.use(node.value, here, inline=True)
            self.use(node.body, here.next, inline=True)
            return
        inner: Iterable[Expr] = ()
        if isinstance(node, Function):
            inner = (node.body,)
        elif isinstance(node, If):
            self.use(node.cond, here)
            inner = (node.true_branch, node.false_branch)
        elif isinstance(node, Match):
            self.use(node.data, here)
            inner = (clause.rhs for clause in node.clauses)
        else:
            for operand in _operands(node):
                self.use(operand, here)
        made = []
        for value in inner:
            made.append(_Block(here, value))
            self.use(value, made[-1], inline=True)
        self.blocks[id(node)] = made

    def write(self, node: Expr) -> None:
        """Store the text of ``node`` for its own line or for its user; a let writes its line at
        once.
        """
        if isinstance(node, Let):
            block = self.blocks.get(id(node), [self.places[id(node)].block])[0]
            block.lines.append([f"let {self.binder(node.var)} = ", *self.value(node.value), ";"])
            if id(node) not in self.blocks:
                return  # the block continues with the body of the let
            parts: list[_Part] = ["(", block, ")"]
        else:
            parts = self.render(node)
        parts[-1] = f"{parts[-1]}{self.comment(node)}"
        self.parts[id(node)] = parts

    def value(self, node: Expr) -> list[_Part]:
        """Return the text of a block's value or of a let's bound value: inline, or its name."""
        return self.parts.get(id(node)) or [self.atom(node)]

    def render(self, node: Expr) -> list[_Part]:
        inner = self.blocks.get(id(node), [])
        if isinstance(node, Call):
            return [self.call(node)]
        if isinstance(node, Tuple):
            fields = ", ".join(map(self.atom, node.fields))
            return [f"({fields},)" if len(node.fields) == 1 else f"({fields})"]
        if isinstance(node, TupleGetItem):
            return [f"{self.atom(node.tuple_value)}.{node.index}"]
        if isinstance(node, Function):
            return [f"fn {self.signature(node)} {{", inner[0], "}"]
        if isinstance(node, If):
            return [f"if ({self.atom(node.cond)}) {{", inner[0], "} else {", inner[1], "}"]
        if isinstance(node, Match):
            return self.match(node, inner)
        name = {RefCreate: "ref", RefRead: "ref_read", RefWrite: "ref_write"}[type(node)]
        return [f"{name}({', '.join(map(self.atom, _operands(node)))})"]

    def match(self, node: Match, inner: list[_Block]) -> list[_Part]:
        word = "match" if node.complete else "match?"
        clauses = _Block(None)
        for clause, block in zip(node.clauses, inner, strict=False):
            clauses.lines.append([f"{self.pattern(clause.lhs)} => {{", block, "},"])
        return [f"{word} ({self.atom(node.data)}) {{", clauses, "}"]

    def pattern(self, pattern: Pattern) -> str:
        if isinstance(pattern, PatternVar):
            return self.binder(pattern.var)
        if isinstance(pattern, PatternTuple):
            return f"({', '.join(map(self.pattern, pattern.patterns))})"
        if isinstance(pattern, PatternConstructor):
            inner = ", ".join(map(self.pattern, pattern.patterns))
            return f"{pattern.constructor.name_hint}({inner})".removesuffix("()")
        return "_"

    # -- one line

    def call(self, node: Call) -> str:
        op = self.atom(node.op)
        args = [self.atom(arg) for arg in node.args]
        if isinstance(node.op, Constructor) and not args and not node.attrs:
            return op
        return f"{op}({', '.join([*args, *self.attrs(node, args)])})"

    def attrs(self, node: Call, args: list[str]) -> list[str]:
        name = node.op.name if isinstance(node.op, Op) else ""
        defaults = OPS[name].attrs if name in OPS else {}
        repeated = ARGUMENT_ATTRS.get(name, {})
        out = []
        for key, value in node.attrs.items():
            if value is None and key in repeated and repeated[key] < len(args):
                out.append(f"{key}={args[repeated[key]]}")
            elif not _is_default(value, defaults.get(key, REQUIRED)):
                out.append(self.attr(key, value))
        return out

    def attr(self, key: str, value: object) -> str:
        plain = re.fullmatch(r"[A-Za-z_][\w/]*(\.[A-Za-z_][\w/]*)*", key)
        return f"{key if plain else chr(34) + key + chr(34)}={self.attr_value(value)}"

    def attr_value(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int)):
            return str(value)
        if isinstance(value, float):
            return f"{value!r}f".replace(".0f", "f")
        if isinstance(value, str):
            odd = '"' in value or "\n" in value
            return self.meta.string(value) if odd else f'"{value}"'
        return f"[{', '.join(map(self.attr_value, value))}]"

    def signature(self, func: Function) -> str:
        """Return ``[A](%x: T, attr=1) -> R``."""
        params = f"[{', '.join(v.name for v in func.type_params)}]" if func.type_params else ""
        inside = [self.binder(p) for p in func.params]
        inside += [self.attr(k, v) for k, v in func.attrs.items()]
        ret = f" -> {self.type(func.ret_type)}" if func.ret_type is not None else ""
        return f"{params}({', '.join(inside)}){ret}"

    def binder(self, var: Var) -> str:
        """Return the text of a variable in binding position, with its type."""
        annotation = var.type_annotation
        typed = f": {self.type(annotation)}" if annotation is not None else ""
        return f"%{self.name(var)}{typed}{self.comment(var)}"

    def comment(self, node: Expr) -> str:
        """Return the comment after a node: its inferred type and its span, if known."""
        if self.annotate is not None:
            return self.annotate(node) if isinstance(node, _TYPED) else ""
        found = getattr(node, "_checked_type", None) if isinstance(node, _TYPED) else None
        words = [] if found is None else [f"ty={self.type(found)}"]
        span = node.span
        if span is not None and not span.implied and not re.search(r"/\*|\*/", span.source):
            words.append(f"span={span}")
        return f" /* {' '.join(words)} */" if words else ""

    def name_binders(self, root: Expr) -> None:
        """Assign names to variables in reading order."""
        stack, seen = [root], set[int]()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            for var in binders(node):
                self.name(var)
            stack.extend(reversed(children(node)))

    def name(self, var: Var) -> str:
        """Return a name unique to the variable object: ``x``, ``x1``, ``x2``."""
        if id(var) not in self.names:
            base = re.sub(r"[^A-Za-z0-9_/]", "_", var.name_hint).replace("/*", "/_")
            base = base.replace("//", "/_").rstrip("/")
            base = base if base[:1].isalpha() or (base[:1] in "_/" and base) else f"v{base}"
            name, count = base, 0
            while name in self.taken:
                count += 1
                name = f"{base}{count}"
            self.taken.add(name)
            self.names[id(var)] = name
            self.keep.append(var)
        return self.names[id(var)]

    def atom(self, node: Expr) -> str:
        """Return the text of a node as an operand: a name, a literal, or ``%N``."""
        if isinstance(node, Var):
            return f"%{self.name(node)}"
        if isinstance(node, GlobalVar):
            return f"@{node.name_hint}"
        if isinstance(node, Op):
            return node.name
        if isinstance(node, Constructor):
            return node.name_hint
        if isinstance(node, Constant):
            text = scalar_text(node.data)
            return (self.meta.constant(node) if text is None else text) + self.comment(node)
        return self.text[id(node)]

    # -- types

    def type(self, value: ty.Type) -> str:
        """Return a type in the form that the parser reads."""
        return ty.type_text(value, self.dim)

    def dim(self, value: ty.Dim) -> str:
        if isinstance(value, int):
            return str(value)
        if isinstance(value, ty.Any) and value.name is None:
            return "?"
        return self.meta.dim(value)


def _operands(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Call):
        return (node.op, *node.args)
    if isinstance(node, Tuple):
        return node.fields
    if isinstance(node, TupleGetItem):
        return (node.tuple_value,)
    if isinstance(node, RefCreate):
        return (node.value,)
    if isinstance(node, RefRead):
        return (node.ref,)
    assert isinstance(node, RefWrite)
    return (node.ref, node.value)


def _lifted(node: Expr) -> tuple[Expr, ...]:
    """Return the nodes whose lines precede ``node``, in order.

    For a call, these are the arguments and then the callee; for a node with blocks, the bodies of
    the blocks; otherwise the operands. A body has a separate line if it is used elsewhere too.
    """
    if isinstance(node, Call):
        return (*node.args, node.op)
    if isinstance(node, Let | Function):
        return (node.body,)
    if isinstance(node, If):
        return node.true_branch, node.false_branch
    if isinstance(node, Match):
        return tuple(clause.rhs for clause in node.clauses)
    return _operands(node)


def _is_default(value: object, default: object) -> bool:
    return type(value) is type(default) and bool(value == default)


def _join(parts: list[_Part], printer: _Printer, outer: bool = False) -> str:
    """Return the parts as text, blocks expanded; ``outer`` prints the first block without
    indentation.
    """
    out: list[str] = []
    stack: list[tuple[_Part, int]] = [(p, -1 if outer else 0) for p in reversed(parts)]
    while stack:
        part, indent = stack.pop()
        if isinstance(part, str):
            out.append(part)
            continue
        stack.extend(reversed(_flatten(part, indent + 1, printer)))
        if not outer or out:
            stack.append(("\n", indent))
    return "".join(out) + ("" if outer else "\n")


def _flatten(block: _Block, indent: int, printer: _Printer) -> list[tuple[_Part, int]]:
    """Return the parts of one block, with indentation and line ends; chained lets are one block."""
    margin = "  " * indent
    flat: list[tuple[_Part, int]] = []
    current: _Block | None = block
    while current is not None:
        lines = list(current.lines)
        if current.next is None and current.value is not None:
            lines.append(printer.value(current.value))
        for line in lines:
            flat.append((margin, indent))
            flat.extend((part, indent) for part in line)
            flat.append(("\n", indent))
        current = current.next
    closing = "  " * (indent - 1)
    flat.append((closing, indent))
    return flat
