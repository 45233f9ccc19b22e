"""Sizes as text: integer expressions over dims in Python's syntax."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tvm import tirx

from tvm_disc.abi.formula import evaluate_all, value_of
from tvm_disc.codegen.plan.placement import tops
from tvm_disc.codegen.plan.program import Define, Region
from tvm_disc.errors import Unsupported
from tvm_disc.shape.chains import ROW, joined, terms
from tvm_disc.support.alike import ByStructure
from tvm_disc.typing import Expr

MAX_STACKS = 8  # maximum number of slot stacks in a formula without named steps
READABLE = 4000  # maximum characters of a formula that is made readable
LONG = 40  # minimum characters of a part of a formula that gets a name

_OPERATORS: dict[type, str] = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.Div: "//",
    tirx.FloorMod: "%",
    tirx.Mod: "%",
    tirx.EQ: "==",
    tirx.NE: "!=",
    tirx.LT: "<",
    tirx.LE: "<=",
    tirx.GT: ">",
    tirx.GE: ">=",
    tirx.And: "and",
    tirx.Or: "or",
}
_EXTREMES: dict[type, str] = {tirx.Max: "max", tirx.Min: "min"}


def formula(expr: Expr) -> str:
    """Return an integer expression in Python's syntax.

    Raises:
        Unsupported: the expression is not arithmetic on dims.
    """
    return _text(expr, formula)


def readable_formula(expr: Expr) -> str:
    """Return an expression as a formula with few parentheses, or in TVM's notation if it is not
    arithmetic.
    """
    try:
        return readable(formula(expr))
    except Unsupported:
        return str(expr)


def readable(text: str) -> str:
    """Return a formula with few parentheses; a formula of more than ``READABLE`` characters is
    unchanged.
    """
    return text if len(text) > READABLE else ast.unparse(ast.parse(text, mode="eval"))


def _text(expr: Expr, inner: Callable[[Expr], str]) -> str:
    """Return an expression as text; ``inner`` returns the texts of its operands."""
    kind: object = type(expr)  # types are compared: isinstance is slow for TVM's classes
    if kind is tirx.Add and len(parts := terms(expr)) > ROW:
        return joined([inner(part) for part in parts], lambda a, b: f"({a} + {b})")
    if kind in _OPERATORS:
        return f"({inner(expr.a)} {_OPERATORS[kind]} {inner(expr.b)})"
    if kind in _EXTREMES:
        return f"{_EXTREMES[kind]}({inner(expr.a)}, {inner(expr.b)})"
    if kind is tirx.Select:
        taken, other = inner(expr.true_value), inner(expr.false_value)
        return f"({taken} if {inner(expr.condition)} else {other})"
    if kind is int:
        return str(expr)
    if kind is tirx.IntImm:
        return str(int(expr.value))
    if isinstance(expr, tirx.Var):
        return str(expr.name)
    raise Unsupported(f"no formula for {expr}")


class Formulas:
    """Formulas of many expressions that share parts; long parts get names and are written once.

    The sizes of a model's kernels contain the sizes of earlier kernels. Without names, their length
    would grow exponentially with the depth of the model.

    Attributes:
        steps: ``name = text``, where ``text`` may contain dims and earlier names.
        dims: the variables in the expressions.
    """

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.dims: set[str] = set()
        self._names: dict[str, str] = {}
        self._texts: dict[int, str] = {}
        self._whole = ByStructure[str]()  # cache of texts: a model has few distinct sizes
        self._seen: list[Expr] = []  # keeps them alive: hashes are addresses
        self._lengths: dict[str, int] = {}

    def text(self, expr: Expr) -> str:
        """Return the formula of an expression.

        Raises:
            Unsupported: the expression is not arithmetic on dims.
        """
        if isinstance(expr, int):
            return str(expr)
        text = self._whole.get(expr)
        if text is None:
            text = self._part(expr)
            self._whole.add(expr, text)
        return text

    def _part(self, expr: Expr) -> str:
        if isinstance(expr, int):
            return str(expr)
        if (key := hash(expr)) not in self._texts:
            self._seen.append(expr)
            if isinstance(expr, tirx.Var):
                self.dims.add(str(expr.name))
            self._texts[key] = self._named(_text(expr, self._part))
        return self._texts[key]

    def _named(self, text: str) -> str:
        if len(text) < LONG:
            return text
        if text not in self._names:
            name = self._names[text] = f"_t{len(self._names)}"
            parts = re.findall(r"\b_t\d+\b", text)
            self._lengths[name] = len(text) + sum(self._lengths.get(p, 0) for p in parts)
            self.steps.append(f"{name} = {text}")
        return self._names[text]

    def whole(self, text: str) -> int:
        """Return the length that a formula would have without names."""
        return self._lengths.get(text, len(text))

    def values(self, texts: Sequence[str], dims: Mapping[str, int]) -> list[int]:
        """Return the values of formulas of this object for given dims."""
        return evaluate_all(self.steps, texts, dims)


def steps_of(definitions: Sequence[Define]) -> list[str]:
    """Return definitions as the steps ``name = formula`` of a longer formula."""
    return [f"{step.var.name} = {formula(step.value)}" for step in definitions]


def workspace_formula(region: Region) -> str:
    """Return a formula for the bytes of a region's workspace: the height of the highest stack of
    slots, each slot aligned.

    The result is one expression if it is short. Otherwise its parts, and the end of each slot, are
    named: ``_a0 = align(4*n); _s0 = _a0; _s1 = _s0 + _a0; max(_s1, ...)``.
    """
    shared = Formulas()
    sizes = [shared.text(slot.size_bytes) for slot in region.slots]
    if sum(map(shared.whole, dict.fromkeys(sizes))) > READABLE:
        return _in_steps(region, shared.steps, sizes)
    stacks: list[list[Counter[str]]] = []
    for slot in region.slots:
        below = [stack for k in slot.above for stack in stacks[k]] or [Counter[str]()]
        size = formula(slot.size_bytes)
        stacks.append(_highest([stack + Counter([size]) for stack in below]))
        if len(stacks[-1]) > MAX_STACKS:
            return _in_steps(region, shared.steps, sizes)
    highest = _highest([stack for k in tops(region.slots) for stack in stacks[k]])
    sums = [" + ".join(f"{n} * align({size})" for size, n in s.items()) for s in highest]
    return _tidied(_largest(sums) or "0")


def _in_steps(region: Region, steps: Sequence[str], sizes: Sequence[str]) -> str:
    """Return a formula that names the end of every slot, followed by the maximum."""
    named: dict[str, str] = {}
    for size in sizes:
        named.setdefault(size, f"_a{len(named)}")
    steps = [*steps, *(f"{name} = align({size})" for size, name in named.items())]
    for k, (slot, size) in enumerate(zip(region.slots, sizes, strict=True)):
        ground = _largest([f"_s{j}" for j in slot.above])
        steps.append(f"_s{k} = " + (f"{ground} + " if ground else "") + named[size])
    return "; ".join([*steps, _largest([f"_s{k}" for k in tops(region.slots)])])


def _largest(texts: Sequence[str]) -> str:
    return f"max({', '.join(texts)})" if len(texts) > 1 else "".join(texts)


def under(condition: str, one: str, other: str) -> str:
    """Return a formula that selects one of two formulas by a condition on dims."""
    (*first, yes), (*second, no) = (t.split("; ") for t in (one, _renamed(other)))
    return "; ".join([*first, *second, f"(({yes}) if {condition} else ({no}))"])


def _renamed(text: str) -> str:
    """Rename the steps of a formula, so that their names differ from those of another formula."""
    names = {step.partition(" = ")[0] for step in text.split("; ")[:-1]}
    return re.sub(r"\b[^\W\d]\w*", lambda w: f"{w[0]}_" if w[0] in names else w[0], text)


def _tidied(text: str) -> str:
    return ast.unparse(_tidy(ast.parse(text, mode="eval").body))


def _tidy(node: ast.AST) -> ast.expr:
    return _Tidy().visit(node)  # type: ignore[no-any-return]


class _Tidy(ast.NodeTransformer):
    """Folds constants, and removes factors of one."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Mult) and isinstance(left, ast.Constant) and left.value == 1:
            return right
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return ast.Constant(value_of(node, {}))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if all(isinstance(a, ast.Constant) for a in node.args):
            return ast.Constant(value_of(node, {}))
        return node


def _highest(stacks: Sequence[Counter[str]]) -> list[Counter[str]]:
    """Return the stacks that are not a subset of another stack."""
    kept: list[Counter[str]] = []
    for stack in sorted(stacks, key=lambda s: -s.total()):
        if not any(stack <= other for other in kept):
            kept.append(stack)
    return kept
