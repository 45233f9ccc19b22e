"""``DonateInputs``: inputs whose memory a call may use for its results.

    before   f(x, past[b, h, c, d]):      now = scatter(past, at, new);  return ..., now
    after    f(x, past[b, h, c, d]):      now = update(past, new, at);   return ..., now

A scatter into a donated input becomes an update in place (``caches/fixed.py``). Results that take
the memory of other donated inputs are chosen with the order of kernels, by
``codegen/plan/donation.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from tvm_disc.errors import BadOption
from tvm_disc.graph.nodes import is_tensor, like_blocks
from tvm_disc.relay.object_ops import uses_boxes
from tvm_disc.relay_passes.caches.fixed import FixedCaches, checks_first, results_of
from tvm_disc.relay_passes.caches.named import named_inputs
from tvm_disc.relay_passes.module_facts import DONATED, STATE, solver_of
from tvm_disc.relay_passes.rewrite import map_functions
from tvm_disc.shape import Solver
from tvm_disc.typing import Binding, PassContext, TVMFunction, TVMModule, Var


def DonateInputs(donate: Sequence[str | int], solver: Solver | None = None) -> object:
    """Return a module pass that donates the inputs that ``donate`` lists.

    Args:
        donate: names of inputs, with ``*`` and ``?`` as in ``fnmatch``, and positions of inputs.

    The attribute ``disc.donated`` of the main function lists their names.

    Raises:
        BadOption: an entry matches no input, or one that is no tensor or belongs to a state.
    """

    def run(mod: TVMModule, ctx: PassContext) -> object:
        main = mod["main"]
        donated = _chosen(main, donate)
        # A boxed result cannot have the memory of an argument.
        boxed = uses_boxes(mod)
        changed = main if boxed else _updated(main, donated, solver_of(mod, solver))
        changed = changed.with_attr(DONATED, [str(p.name) for p in donated])
        return map_functions(mod, lambda f: changed if f.same_as(main) else f)

    return tvm.transform.module_pass(run, opt_level=0, name="DonateInputs")


def _chosen(main: TVMFunction, donate: Sequence[str | int]) -> list[Var]:
    """Return the donated inputs, in the order of the inputs."""
    owned = {str(buffer) for buffer, *_ in (main.attrs or {}).get(STATE, ())}
    donated = named_inputs("donate", donate, main.params)
    for param in donated:
        if str(param.name) in owned:
            raise BadOption(
                f"donate: input '{param.name}' is a cache listed in state; leave it out"
            )
        if not is_tensor(param.ty):
            raise BadOption(f"donate: input '{param.name}': expected a tensor, found {param.ty}")
    return donated


def _updated(main: TVMFunction, donated: Sequence[Var], solver: Solver) -> TVMFunction:
    """Return the function with updates in place instead of scatters into donated inputs."""
    values = {b.var: b for block in main.body.blocks for b in block.bindings}
    found = FixedCaches(main, results_of(main, values), solver).found
    updates = {found[p].binding.var: found[p] for p in donated if p in found}
    if not updates:
        return main
    dead = {found[p].dead for p in donated if p in found}
    bindings: list[Binding] = []
    for block in main.body.blocks:
        for binding in block.bindings:
            update = updates.get(binding.var)
            if update is not None:
                bindings += update.update()
            elif binding.var not in dead:
                bindings.append(binding)
    bindings = checks_first(bindings, main.params)
    seq = relax.SeqExpr(like_blocks(main.body.blocks, bindings), main.body.body)
    return relax.Function(main.params, seq, main.ret_ty, main.is_pure, main.attrs)


__all__ = ["DonateInputs"]
