"""Import of data types, ``match`` and references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tvm import relax

from tvm_disc.errors import TypeMismatch, counted
from tvm_disc.relay import expr as ast
from tvm_disc.relay.importer.forms import Forms
from tvm_disc.relay.importer.kinds import (
    DataKind,
    Hole,
    Kind,
    RefKind,
    TupleKind,
    from_type,
    resolve,
)
from tvm_disc.relay.importer.scopes import FAILED, Bottom, Scope
from tvm_disc.relay.importer.tensor import Boxed
from tvm_disc.relay.importer.walk import Evaluator, ModuleWalk
from tvm_disc.typing import Expr


class Chooser(Protocol):
    """Emits branches."""

    def choose(
        self, cond: Expr, then: Callable[[], object], otherwise: Callable[[], object], failure: str
    ) -> object:
        """Emit a branch on ``cond`` and return its value."""


class Objects:
    """Imports operations on values whose structure is known only at run time."""

    def __init__(
        self, walk: ModuleWalk, forms: Forms, branches: Chooser, evaluator: Evaluator
    ) -> None:
        self.walk, self.forms, self.kinds = walk, forms, walk.kinds
        self._branches, self._evaluator = branches, evaluator

    # -- data types ----------------------------------------------------------------------------

    def fields_of(self, ctor: ast.Constructor, args: Sequence[Kind], node: object) -> list[Kind]:
        """Return the kinds of a constructor's fields for the given type arguments."""
        data = self.walk.source.type_definitions.get(ctor.belong_to)
        if data is None:
            text = f"{ctor.name_hint}: the module has no data type {ctor.belong_to}"
            raise TypeMismatch(self.walk.at(node, text))
        names = [v.name for v in data.type_vars]
        found = dict(zip(names, args, strict=True))
        return [from_type(t, lambda v: found[v.name], id(node)) for t in ctor.inputs]

    def construct(self, ctor: ast.Constructor, values: Sequence[object], node: object) -> object:
        """Return the value of ``ctor(values)``."""
        if any(isinstance(v, Bottom) for v in values):
            return next(v for v in values if isinstance(v, Bottom))
        data = self.walk.source.type_definitions.get(ctor.belong_to)
        args = tuple(Hole(id(node)) for _ in (data.type_vars if data is not None else ()))
        fields = self.fields_of(ctor, args, node)
        if len(fields) != len(values):
            raise TypeMismatch(
                self.walk.at(
                    node,
                    f"{ctor.name_hint}: expected {counted(len(fields), 'field')}, "
                    f"found {len(values)}",
                )
            )
        exprs = []
        for k, (value, kind) in enumerate(zip(values, fields, strict=True)):
            what = self.walk.at(node, f"field {k} of {ctor.name_hint}")
            exprs.append(self.forms.boxed(self.forms.converted(value, kind, what)))
        kind = DataKind(ctor.belong_to, args)
        return Boxed(kind, self.forms.object("construct", relax.ObjectType(), ctor.tag, *exprs))

    def match(self, node: ast.Match, data: Boxed, scope: Scope) -> Any:
        """Return the value of a match, compiled to a decision tree that reads no field and
        tests no tag twice on any path.
        """
        if isinstance(data, Bottom):
            return data
        rows = [_Row([(data, c.lhs)], [], c.rhs) for c in node.clauses]
        return self._match_rows(rows, node, scope)

    def _match_rows(self, rows: Sequence[_Row], node: ast.Match, scope: Scope) -> object:
        rows = [self._settled(r, node) for r in rows]
        if not rows:
            return FAILED
        first = rows[0]
        if not first.tests:
            inner = self.walk.scope(scope)
            inner.variables.update(first.bound)
            return self._evaluator.evaluate(first.body, inner)
        source, pattern = first.tests[0]
        assert isinstance(pattern, ast.PatternConstructor)
        return self._test(source, pattern.constructor, rows, node, scope)

    def _settled(self, row: _Row, node: ast.Match) -> _Row:
        """Return a clause whose only tests are of constructors: other patterns are resolved."""
        tests: list[tuple[Any, ast.Pattern]] = []
        bound = list(row.bound)
        stack = list(reversed(row.tests))
        while stack:
            value, pattern = stack.pop()
            if isinstance(pattern, ast.PatternWildcard):
                continue
            if isinstance(value, _Field):
                value = value.read(self.forms)
            if isinstance(pattern, ast.PatternVar):
                bound.append((pattern.var, value))
            elif isinstance(pattern, ast.PatternTuple):
                if not isinstance(value, tuple) or len(value) != len(pattern.patterns):
                    wanted = f"a tuple of {counted(len(pattern.patterns), 'field')}"
                    text = f"match: expected {wanted}, found {self.forms.kind_of(value)}"
                    raise TypeMismatch(self.walk.at(node, text))
                stack.extend(reversed(list(zip(value, pattern.patterns, strict=True))))
            else:
                tests.append((value, pattern))
        return _Row(tests, bound, row.body, row.ruled_out)

    def _test(
        self,
        source: Boxed,
        ctor: ast.Constructor,
        rows: Sequence[_Row],
        node: ast.Match,
        scope: Scope,
    ) -> object:
        kind = resolve(source.kind) if isinstance(source, Boxed) else None
        args = [Hole(id(node)) for _ in self.walk.source.type_definitions[ctor.belong_to].type_vars]
        if kind is None:
            raise TypeMismatch(
                self.walk.at(
                    node,
                    f"match: {ctor.name_hint} is a constructor of {ctor.belong_to}, "
                    f"found {self.forms.kind_of(source)}",
                )
            )
        self.kinds.unify(DataKind(ctor.belong_to, tuple(args)), kind, self.walk.at(node, "match"))
        kinds = self.fields_of(ctor, args, node)
        siblings = self.walk.source.type_definitions[ctor.belong_to].constructors
        excluded = rows[0].excluded(source)
        if len(excluded) + 1 == len(siblings):
            fields = [_Field(source.expr, k, f) for k, f in enumerate(kinds)]
            return self._match_rows(_with(rows, source, ctor, fields), node, scope)
        plain = int(not ctor.inputs)
        cond = self.forms.object(
            "has_tag", relax.TensorType([], "bool"), ctor.tag, plain, source.expr
        )

        def then() -> object:
            fields = [_Field(source.expr, k, f) for k, f in enumerate(kinds)]
            return self._match_rows(_with(rows, source, ctor, fields), node, scope)

        def otherwise() -> object:
            return self._match_rows(_without(rows, source, ctor), node, scope)

        return self._branches.choose(
            cond, then, otherwise, self.walk.at(node, "no clause of the match fits")
        )

    # -- references ----------------------------------------------------------------------------

    def reference(self, node: ast.Expr, operands: Sequence[Expr]) -> Any:
        """Return the value of ``ref``, ``ref_read`` or ``ref_write``."""
        for value in operands:
            if isinstance(value, Bottom):
                return value
        if isinstance(node, ast.RefCreate):
            inner = Hole(id(node))
            content = self.forms.boxed(
                self.forms.converted(operands[0], inner, self.walk.at(node, "ref"))
            )
            return Boxed(RefKind(inner), self.forms.object("ref", relax.ObjectType(), content))
        cell = operands[0]
        inner = Hole(id(node))
        if not isinstance(cell, Boxed):
            found = self.forms.kind_of(cell)
            raise TypeMismatch(self.walk.at(node, f"expected a reference, found {found}"))
        self.kinds.unify(RefKind(inner), cell.kind, self.walk.at(node, "a reference"))
        if isinstance(node, ast.RefWrite):
            content = self.forms.boxed(
                self.forms.converted(operands[1], inner, self.walk.at(node, "ref_write"))
            )
            self.forms.object("write", relax.TupleType([]), cell.expr, content)
            return ()
        kind = resolve(inner)
        if not isinstance(kind, TupleKind):
            return self.forms.opened(
                self.forms.object("read", self.forms.relax_type(kind), cell.expr), kind
            )
        held = self.forms.object("read", relax.ObjectType(), cell.expr)
        return tuple(self.forms.field(held, k, f) for k, f in enumerate(kind.fields))


class _Field:
    """A field of a node, read when the first pattern needs it."""

    def __init__(self, source: Expr, k: int, kind: Kind) -> None:
        self.source, self.k, self.kind = source, k, kind
        self.value: object = None

    def read(self, forms: Forms) -> Any:
        if self.value is None:
            self.value = forms.field(self.source, self.k, self.kind)
        return self.value


class _Row:
    """A clause: its remaining tests, its bound variables, and the constructors already excluded."""

    def __init__(
        self,
        tests: list[tuple[Any, ast.Pattern]],
        bound: list[tuple[ast.Var, Any]],
        body: ast.Expr,
        ruled_out: tuple[tuple[int, str], ...] = (),
    ) -> None:
        self.tests, self.bound, self.body, self.ruled_out = tests, bound, body, ruled_out

    def excluded(self, source: object) -> set[str]:
        return {name for key, name in self.ruled_out if key == id(source)}


def _with(
    rows: Sequence[_Row], source: object, ctor: ast.Constructor, fields: Sequence[_Field]
) -> list[_Row]:
    """Return the clauses that can match a ``source`` built by ``ctor``."""
    kept = []
    for row in rows:
        tests: list[tuple[Any, ast.Pattern]] = []
        fits = True
        for value, pattern in row.tests:
            if value is source and isinstance(pattern, ast.PatternConstructor):
                fits = fits and pattern.constructor.name_hint == ctor.name_hint
                tests += zip(fields, pattern.patterns, strict=True) if fits else []
            else:
                tests.append((value, pattern))
        if fits:
            kept.append(_Row(tests, row.bound, row.body, row.ruled_out))
    return kept


def _without(rows: Sequence[_Row], source: object, ctor: ast.Constructor) -> list[_Row]:
    """Return the clauses that can match a ``source`` not built by ``ctor``."""

    def tested(row: _Row) -> bool:
        return any(
            value is source
            and isinstance(pattern, ast.PatternConstructor)
            and pattern.constructor.name_hint == ctor.name_hint
            for value, pattern in row.tests
        )

    out = (id(source), ctor.name_hint)
    return [_Row(r.tests, r.bound, r.body, (*r.ruled_out, out)) for r in rows if not tested(r)]
