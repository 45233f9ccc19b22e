"""Conditions on sizes that PyTorch's exporter records, as text of the constraint language.

If Python code tests a size during tracing (`if n % 2 == 0`, `int(n * 0.2)`), the trace is valid
only for sizes with the same result. The exporter records the test as a guard in two forms: as
Python text in ``ExportedProgram._guards_code``, which is also saved and loaded, and as a sympy
expression in the shape environment, which a loaded program does not have. Assertions in the graph
are sympy expressions too. Expressions are printed as Python text, so one translation handles all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from tvm_disc.errors import Unsupported
from tvm_disc.typing import ExportedProgram, SymExpr

T = TypeVar("T")
Keys = tuple[Any, ...]
# Returns the text of a dim in the constraint language, for the path of keys to an input and an
# axis. If the axis is None, the text is that of an input or symbol that is a number.
Place = Callable[[Keys, int | None], str]


class LayoutCondition(Exception):
    """Raised for a condition on strides or storage offsets, which the caller drops (internal)."""


_SAME = ("abs", "ceil", "float", "floor", "int", "max", "min", "round", "sqrt", "trunc")
_FUNCTIONS: Mapping[str, str] = {
    **{name: name for name in _SAME},
    **{f"sym_{name}": name for name in ("float", "int", "max", "min")},
    "_sym_sqrt": "sqrt",
}
_MODULES = ("math", "torch")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_SIGNS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def constraint_of(text: str, place: Place) -> str:
    """Return a guard of PyTorch as text of the constraint language.

    Args:
        text: the guard, as PyTorch prints it.
        place: returns the text of a dim or number. The path of a symbol is ``(name,)``.

    Raises:
        LayoutCondition: the guard is a condition on strides.
        Unsupported: the constraint language cannot express the guard; the message quotes it.
    """
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval").body
        return ast.unparse(_Translation(lambda *key: ast.Name(place(*key))).visit(tree))
    except (SyntaxError, Unsupported) as error:
        raise Unsupported(
            f"the exported program requires `{text}` of its inputs, which cannot be checked: "
            f"{error}; export the module for sizes that do not need it"
        ) from None


def _balanced(node: ast.Compare) -> ast.Compare:
    """Return `a + -1 * b <= 0` as `a <= b`, and other comparisons unchanged."""
    terms = _terms(node.left)
    right = node.comparators[-1]
    is_zero = isinstance(right, ast.Constant) and right.value == 0
    kept = [term for term in terms if _negated(term) is None]
    moved = [term for term in map(_negated, terms) if term is not None]
    if len(node.ops) != 1 or not is_zero or not kept or not moved:
        return node
    return ast.Compare(_sum(kept), node.ops, [_sum(moved)])


def _terms(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def _negated(node: ast.expr) -> ast.expr | None:
    """Return x if the node is `-1 * x`, else None."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        factor = node.left
        if isinstance(factor, ast.UnaryOp) and isinstance(factor.op, ast.USub):
            one = factor.operand
            return node.right if isinstance(one, ast.Constant) and one.value == 1 else None
    return None


def _sum(terms: list[ast.expr]) -> ast.expr:
    first, *rest = terms
    for term in rest:
        first = ast.BinOp(first, ast.Add(), term)
    return first


class ConditionVisitor(ast.NodeVisitor, Generic[T]):
    """Converts Python text that PyTorch prints; ``given`` converts the numbers that it reads.

    The arguments of ``given`` are those of ``Place``.
    """

    def __init__(self, given: Callable[[Keys, int | None], T]) -> None:
        self.given = given

    def generic_visit(self, node: ast.AST) -> T:
        raise Unsupported(f"`{ast.unparse(node)}` is not supported")

    def visit_Name(self, node: ast.Name) -> T:
        """Convert a symbol."""
        return self.given((node.id,), None)

    def visit_Subscript(self, node: ast.Subscript) -> T:
        """Convert ``L['x'].size()[0]``, or an input ``L['n']`` that is a number."""
        return self.given(*reads_input(node))

    def visit_Attribute(self, node: ast.Attribute) -> T:
        """Convert ``L['x'].n``, a field of an input, which is a number."""
        return self.given(keys_of(node), None)


class _Translation(ConditionVisitor[ast.AST]):
    """Translates to the constraint language."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Translate `a and b`."""
        return ast.BoolOp(node.op, [self.visit(v) for v in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Translate `not a` and `-a`."""
        if isinstance(node.op, ast.Not | ast.USub):
            return ast.UnaryOp(node.op, self.visit(node.operand))
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Translate `a < b`."""
        if not all(isinstance(sign, _SIGNS) for sign in node.ops):
            return self.generic_visit(node)
        others = [self.visit(c) for c in node.comparators]
        return _balanced(ast.Compare(self.visit(node.left), node.ops, others))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Translate `a + b`; shifts become products and quotients by powers of 2."""
        a, b, op = self.visit(node.left), self.visit(node.right), node.op
        if isinstance(op, ast.LShift | ast.RShift):
            op = ast.Mult() if isinstance(op, ast.LShift) else ast.FloorDiv()
            b = ast.BinOp(ast.Constant(2), ast.Pow(), b)
        if not isinstance(op, _OPERATORS):
            return self.generic_visit(node)
        return ast.BinOp(a, op, b)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Translate `a if c else b`."""
        return ast.IfExp(*(self.visit(x) for x in (node.test, node.body, node.orelse)))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Translate a literal."""
        if isinstance(node.value, bool):
            one = ast.Constant(1)
            return ast.Compare(one, [ast.Eq() if node.value else ast.NotEq()], [one])
        if not isinstance(node.value, int | float):
            return self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Translate a function of numbers."""
        name = _function(node.func)
        if name is None or node.keywords or (name not in ("max", "min") and len(node.args) != 1):
            return self.generic_visit(node)
        return ast.Call(ast.Name(name), [self.visit(a) for a in node.args], [])


def _function(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        known = isinstance(node.value, ast.Name) and node.value.id in _MODULES
        return _FUNCTIONS.get(node.attr) if known else None
    return _FUNCTIONS.get(node.id) if isinstance(node, ast.Name) else None


def reads_input(node: ast.Subscript) -> tuple[Keys, int | None]:
    """Return the path of keys to the input that an expression reads, and an axis.

    The axis is None if the expression is not a size but the input itself.

    Raises:
        LayoutCondition: a stride is read.
        Unsupported: the expression is not an input.
    """
    found = node.value
    if isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
        if found.func.attr in ("stride", "storage_offset"):
            raise LayoutCondition
        if found.func.attr == "size" and isinstance(node.slice, ast.Constant):
            return keys_of(found.func.value), int(str(node.slice.value))
    return keys_of(node), None


def keys_of(node: ast.expr) -> Keys:
    """Return ``('rest', 'b', 0)`` for ``L['rest']['b'][0]``."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return (*keys_of(node.value), node.slice.value)
    if isinstance(node, ast.Attribute):
        return (*keys_of(node.value), node.attr)
    if isinstance(node, ast.Name) and node.id == "L":
        return ()
    raise Unsupported(f"`{ast.unparse(node)}` is not an input")


def printed(expr: object) -> str:
    """Return an expression of PyTorch's symbols as Python text."""
    from torch.utils._sympy.printers import PythonPrinter

    return str(PythonPrinter().doprint(expr))


@dataclass(frozen=True)
class Recorded:
    """A guard of a shape environment.

    Attributes:
        expr: the condition as a sympy expression.
        code: the condition as the exporter prints it; empty if a symbol of it is not an input.
        place: the file and function that evaluated the condition; empty if unknown.
        inside: whether this function belongs to PyTorch's implementation of an operator.
        line: the number of the line, if the function does not belong to PyTorch; otherwise 0.
    """

    expr: Any
    code: str
    place: str
    inside: bool
    line: int = 0

    @property
    def origin(self) -> str:
        """Return the source of the guard, for ``explain``."""
        file, _, function = self.place.rpartition(" ")
        if self.line:
            return f"guard of torch.export, from {file}:{self.line}"
        return f"guard of torch.export, from {function} of PyTorch" if function else EXPORTED

    @property
    def tests_only_one(self) -> bool:
        """Return whether the guard is PyTorch's test for size 1, or for fewer than 2 elements.

        PyTorch selects strides and broadcasting by these tests. Programs have contiguous arrays and
        broadcast at run time, so that the tests do not affect their results.
        """
        return self.inside and _tests_one(self.expr, self.place)

    @property
    def tests_only_zero(self) -> bool:
        """Return whether the guard is a test for size 0 in PyTorch's implementation."""
        return self.inside and type(self.expr).__name__ == "Unequality" and 0 in self.expr.args


EXPORTED = "guard of torch.export"  # source of a guard whose place is unknown

# Functions of PyTorch that only compute or test strides.
_ABOUT_STRIDES = ("is_contiguous", "check_contiguous_sizes_strides", "convert", "compute_strides")
# Files and folders of PyTorch that implement operators; other files implement modules.
_IMPLEMENTATIONS = frozenset(
    "_ops.py _prims _prims_common _refs _decomp _meta_registrations.py _subclasses".split()
)


def _tests_one(expr: object, place: str) -> bool:
    import sympy

    if isinstance(expr, sympy.Ne):
        return any(_is_multiple(a, b) for a, b in (expr.args, expr.args[::-1]))
    if isinstance(expr, sympy.Gt | sympy.Lt):
        return bool(expr.lts == 1)
    strides = place.rpartition(" ")[2] in _ABOUT_STRIDES
    return strides and isinstance(expr, sympy.Ge | sympy.Le) and bool(expr.lts == 2)


def _is_multiple(a: Any, b: Any) -> bool:
    """Return whether ``a`` is ``b`` times an expression of sizes.

    Two strides have this relation, and are equal if the sizes are 1.
    """
    if not b.is_number:
        quotient = (a / b).as_numer_denom()
        return bool(quotient[1] == 1 and not quotient[0].is_number)
    factor, _ = a.as_coeff_Mul()
    return bool(factor == b and not a.is_number) or bool(b == 1)


def recorded_guards(program: ExportedProgram) -> list[Recorded]:
    """Return the guards of a program's shape environment, including those of assertions."""
    env = environment_of(program)
    if env is None:
        return []
    deferred = [d for group in env.deferred_runtime_asserts.values() for d in group]
    found = [_recorded(g.expr, g.sloc, env) for g in env.guards]
    return [*found, *(_recorded(d.expr, None, env) for d in deferred)]


def environment_of(program: ExportedProgram) -> Any:
    """Return the shape environment of a program's symbols, or None if all sizes are fixed."""
    for node in program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if node.op == "placeholder" and mode is not None and mode.shape_env is not None:
            return mode.shape_env
    return None


def _recorded(expr: SymExpr, location: object, env: object) -> Recorded:
    import torch

    code = code_of(expr, env)
    frame: Any = getattr(location, "framework_loc", None)
    if not hasattr(frame, "filename"):
        return Recorded(expr, code, "", False)
    path = PurePath(frame.filename)
    root = PurePath(torch.__file__).parent
    own = not path.is_relative_to(root)
    inside = not own and path.relative_to(root).parts[0] in _IMPLEMENTATIONS
    line = int(frame.lineno or 0) if own else 0
    return Recorded(expr, code, f"{path.name} {frame.name}", inside, line)


def code_of(expr: SymExpr, env: Any) -> str:
    """Return the text of a guard in ``ExportedProgram._guards_code``.

    The text is empty if a symbol of the guard is not an input.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeGuardPythonPrinter

    sources = env.var_to_sources
    if not all(sources.get(s) for s in expr.free_symbols):
        return ""
    return str(ShapeGuardPythonPrinter(sources, lambda s: s.name, sources).doprint(expr))


__all__ = [
    "EXPORTED",
    "ConditionVisitor",
    "Keys",
    "LayoutCondition",
    "Place",
    "Recorded",
    "code_of",
    "constraint_of",
    "environment_of",
    "printed",
    "recorded_guards",
]
