"""``LambdaLift``: move nested functions to the module."""

from __future__ import annotations

from tvm_disc.relay.expr import Call, Expr, Function, GlobalVar, Let, Var
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.visit import free_vars, post_order
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.fuse_groups import is_primitive
from tvm_disc.relay_api.transform.manager import replaced
from tvm_disc.relay_api.transform.substitute import fresh, substituted


def lambda_lift(mod: IRModule) -> IRModule:
    """Move nested functions to the module.

    A function with free variables becomes a module function that takes these variables and returns
    the original function.
    """
    functions: dict[GlobalVar, Function] = {}
    lifter = _Lifter(mod)
    for name, func in mod.functions.items():
        functions[name] = func if is_primitive(func) else lifter.over(func)
    return replaced(mod, {**functions, **lifter.lifted})


class _Lifter:
    """State of the pass: the functions moved so far."""

    def __init__(self, mod: IRModule) -> None:
        self.taken = {g.name_hint for g in mod.functions}
        self.lifted: dict[GlobalVar, Function] = {}

    def over(self, func: Function) -> Function:
        """Return a function of the module without nested functions."""
        named = {n.value: n.var for n in post_order(func) if isinstance(n, Let)}

        def leave(before: Expr, made: Expr) -> Expr:
            if not isinstance(made, Function) or before is func or is_primitive(made):
                return made
            return self._moved(made, named.get(before))

        result = rewrite_post_order(func, leave)
        assert isinstance(result, Function)
        return result

    def _moved(self, func: Function, var: Var | None) -> Expr:
        """Return a reference to the moved function, or a call that builds it from its captured
        variables.
        """
        name = self._fresh_name()
        outside = [v for v in free_vars(func) if v is not var]
        itself: Expr = name if not outside else Call(name, outside)
        body = substituted(func, {var: itself}) if var is not None else func
        assert isinstance(body, Function)
        if not outside:
            self.lifted[name] = body
            return name
        result = body.ret_type and body.checked_signature
        maker = Function(outside, body, result or None, attrs={"Closure": 1})
        copy = fresh(maker)
        assert isinstance(copy, Function)
        self.lifted[name] = copy
        return itself

    def _fresh_name(self) -> GlobalVar:
        number = len(self.lifted)
        while f"lifted_{number}" in self.taken:
            number += 1
        self.taken.add(f"lifted_{number}")
        return GlobalVar(f"lifted_{number}")


__all__ = ["lambda_lift"]
