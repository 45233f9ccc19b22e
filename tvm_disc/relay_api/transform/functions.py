"""Passes over the functions of a module: inlining, removal, eta expansion."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.errors import BadNode
from tvm_disc.relay.expr import Call, Constructor, Expr, Function, GlobalVar, Var
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.types import FuncType, GlobalTypeVar, IncompleteType, TypeCall, TypeVar
from tvm_disc.relay.visit import post_order
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.manager import replaced, with_functions
from tvm_disc.relay_api.transform.substitute import applied, fresh


def _called(func: Expr) -> list[GlobalVar]:
    """Return the functions of the module that ``func`` refers to."""
    return [node for node in post_order(func) if isinstance(node, GlobalVar)]


def remove_unused_functions(mod: IRModule, entries: Sequence[str] | None) -> IRModule:
    """Return the module without functions that are unreachable from the entries."""
    names = ["main"] if entries is None else list(entries)
    known = {g.name_hint: f for g, f in mod.functions.items()}
    missing = [name for name in names if name not in known]
    if missing and entries is not None:
        raise BadNode(
            f"RemoveUnusedFunctions: expected entries among {sorted(known)}, found {missing[0]!r}"
        )
    todo, used = list(names), set()
    while todo:
        name = todo.pop()
        if name in known and name not in used:
            used.add(name)
            todo.extend(g.name_hint for g in _called(known[name]))
    return replaced(mod, {g: f for g, f in mod.functions.items() if g.name_hint in used})


def inline_globals(mod: IRModule) -> IRModule:
    """Return the module with functions that have the attribute ``Inline`` inlined at their calls.

    A function is not inlined if it is recursive or calls a function that is not inlined. Functions
    without callers are entries of the module and are kept. A function with the attribute
    ``Compiler`` stays a function: its calls apply the function expression instead of its name. A
    ``GlobalVar`` that is used as a value is replaced by the function.
    """
    names = {g.name_hint: f for g, f in mod.functions.items()}
    entries = set(names) - {g.name_hint for f in names.values() for g in _called(f)}
    able: set[str] = set()
    done: dict[str, Function] = {}
    for name in _callees_first(names):
        done[name] = _with_inlined(names[name], {n: done[n] for n in able if n in done})
        leaf = not any(g.name_hint in names for g in _called(done[name]))
        if leaf and names[name].attrs.get("Inline"):
            able.add(name)
    kept = {g: done[g.name_hint] for g in mod.functions}
    used = entries | {g.name_hint for f in kept.values() for g in _called(f)}
    return replaced(
        mod, {g: f for g, f in kept.items() if g.name_hint not in able or g.name_hint in used}
    )


def _callees_first(functions: dict[str, Function]) -> list[str]:
    order: list[str] = []
    stack, seen = [(name, False) for name in reversed(functions)], set()
    while stack:
        name, done = stack.pop()
        if done:
            order.append(name)
        elif name in functions and name not in seen:
            seen.add(name)
            stack.append((name, True))
            stack.extend((g.name_hint, False) for g in _called(functions[name]))
    return order


def _with_inlined(func: Function, able: dict[str, Function]) -> Function:
    copies: dict[str, Expr] = {}

    def leave(before: Expr, made: Expr) -> Expr:
        if isinstance(made, GlobalVar) and made.name_hint in able:
            return copies.setdefault(made.name_hint, fresh(able[made.name_hint]))
        if isinstance(made, Call) and isinstance(before, Call):
            called = before.op
            if not isinstance(called, GlobalVar) or called.name_hint not in able:
                return made
            inlined = fresh(able[called.name_hint])  # its variables may be bound only once
            assert isinstance(inlined, Function)
            if "Compiler" in inlined.attrs:
                return Call(inlined, made.args, None, (), made.span)
            return applied(inlined, made.args)
        return made

    result = rewrite_post_order(func, leave)
    assert isinstance(result, Function)
    return result


def eta_expand(mod: IRModule, expand_constructor: bool, expand_global_var: bool) -> IRModule:
    """Return the module with constructors and functions used as values wrapped in ``fn``."""
    made: dict[Expr, Function] = {}

    def leave(_before: Expr, node: Expr) -> Expr:
        if isinstance(node, Constructor) and expand_constructor:
            return made.setdefault(node, _around_constructor(mod, node))
        if isinstance(node, GlobalVar) and expand_global_var and node in mod:
            return made.setdefault(node, _around_function(mod, node))
        return node

    def over(func: Function) -> Function:
        result = rewrite_post_order(func, leave)
        assert isinstance(result, Function)
        return result

    return with_functions(mod, over)


def _around_constructor(mod: IRModule, con: Constructor) -> Function:
    data = mod.type_definitions[con.belong_to]
    params = [Var(f"eta_expand_param_{i}", t) for i, t in enumerate(con.inputs)]
    args = tuple(data.type_vars)
    result = TypeCall(GlobalTypeVar(con.belong_to), args)
    return Function(params, Call(con, params), result, [v for v in args if isinstance(v, TypeVar)])


def _around_function(mod: IRModule, name: GlobalVar) -> Function:
    func = mod[name]
    signature: FuncType = func.checked_signature
    types = [None if isinstance(t, IncompleteType) else t for t in signature.arg_types]
    params = [Var(f"eta_expand_param_{i}", t) for i, t in enumerate(types)]
    return Function(params, Call(name, params), func.ret_type, func.type_params)


__all__ = ["eta_expand", "inline_globals", "remove_unused_functions"]
