"""Passes over programs in text, and what they must make of them."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_disc import relay

HEADER = '#[version = "0.0.5"]\n'


class _Bare(relay.ExprMutator):
    """A program without spelled-out types: passes may or may not spell them."""

    def visit_function(self, fn: relay.Function) -> relay.Function:
        made = super().visit_function(fn)
        return relay.Function(made.params, made.body, None, made.type_params, made.attrs)

    def visit_var(self, var: relay.Var) -> relay.Var:
        return relay.Var(var.name_hint)


def parsed(text: str) -> relay.IRModule:
    """A module from text without its header."""
    return relay.parse(HEADER + text)


def optimized(program: str | relay.IRModule, passes: Any) -> relay.IRModule:
    """The module after the passes, all of them enabled."""
    mod = parsed(program) if isinstance(program, str) else program
    with tvm.transform.PassContext(opt_level=4):
        made = tvm.transform.Sequential(passes if isinstance(passes, list) else [passes])(mod)
    assert isinstance(made, relay.IRModule)
    return made


def same(a: relay.IRModule, b: relay.IRModule) -> bool:
    """Whether two modules have the same functions, but for types that are spelled out."""
    bare = [relay.IRModule({g: _Bare().visit(f) for g, f in m.functions.items()}) for m in (a, b)]
    return relay.structural_equal(*bare, rel_tol=1e-5)


def check(passes: Any, before: str, after: str) -> None:
    """The passes make ``after`` of ``before``."""
    made = optimized(before, passes)
    assert same(made, parsed(after)), made.astext()
