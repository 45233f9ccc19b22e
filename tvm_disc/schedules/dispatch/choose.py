"""Choose the variants that a kernel keeps, and fit the decision tree that picks among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.dispatch import tree as trees
from tvm_disc.schedules.dispatch.cost import cost_table, operations
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate, sample, with_likely
from tvm_disc.schedules.dispatch.tree import Split, Tree
from tvm_disc.schedules.dispatch.tree_fit import Limits, grow, keep, losses
from tvm_disc.schedules.dispatch.variant import Choice, Variant, joined, layout_sets
from tvm_disc.schedules.group import Group
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show
from tvm_disc.tir.builder import i64, storage_dtype
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Expr

# in elements; dims are not sampled if the operands and results have more elements in total
LARGEST_TENSOR = 1 << 28
# The analytical model is imprecise, so a variant or split must save clearly more than with records.
UNMEASURED = Limits(gain=0.02, split_gain=0.0003, depth=8, run_gain=0.00025)
REMAINDERS = (16,)  # the features ``d % 16`` of every dim
# Products and minima of pairs are features only of the first 12 dims: their number is quadratic.
PAIRED = 12
WASTED_THREADS = 24.0  # factor on the loss of a threaded variant against the serial run of its plan


def group_features(
    group: Group, variants: Sequence[Variant], solver: Solver
) -> list[tuple[Expr, str]]:
    """Return the features that a tree may compare, as (expression, text).

    They are dims, products and minima of two dims, the plans' features, tasks and work, and
    remainders.
    """
    symbols = group.symbols()
    exprs: list[Expr] = list(symbols)
    for variant in variants:
        plan = variant.plan
        exprs += [*plan.features, *(() if plan.stages else (plan.tasks, plan.work))]
    paired = symbols[:PAIRED]
    pairs = [(a, b) for k, a in enumerate(paired) for b in paired[k + 1 :]]
    exprs += [made for pair in pairs for made in (product(pair), tirx.min(*pair))]
    exprs += [s % r for s in symbols for r in REMAINDERS]
    found: dict[str, Expr] = {}
    for expr in exprs:
        if static_dim(expr) is None:
            found.setdefault(show(expr), expr)
    return [(expr, text) for text, expr in found.items()]


def table(values: Sequence[tuple[Expr, str]], points: Points, count: int) -> Values:
    """Return the features at the points: a row for each point, a column for each feature."""
    columns = [np.broadcast_to(evaluate(e, points), (count,)) for e, _ in values]
    return np.stack(columns, axis=1) if columns else np.zeros((count, 0))


def analytic(
    group: Group,
    variants: Sequence[Variant],
    solver: Solver,
    model: CostModel,
    limits: Limits = UNMEASURED,
) -> Choice:
    """Return the analytical model's choice, fitted at sampled dims that satisfy the facts."""
    if len(variants) == 1:
        return Choice(list(variants), trees.Leaf(0))
    symbols = group.symbols()
    try:
        size = sum_of(product(n.shape) for n in (*group.params, *group.outputs))
        points, weights = with_likely(sample(symbols, solver, size, LARGEST_TENSOR), solver)
        count = len(weights)
        features = group_features(group, variants, solver)
        asked = table(features, points, count)
        costs = cost_table(list(variants), points, count, model)
        costs[:, [not v.plan.guessed for v in variants]] = np.inf
    except Unsupported:
        return _by_work(variants, model)
    return fit(variants, features, asked, costs, weights, solver, limits)


def _by_work(variants: Sequence[Variant], model: CostModel) -> Choice:
    """Return a choice without sampled dims: the first plan, threaded if it has enough work."""
    plan = variants[0].plan
    runs = [v for v in variants if v.plan is plan]
    work = operations(plan, model)
    if len(runs) == 1 or static_dim(work) is not None:
        return Choice(runs[:1], trees.Leaf(0))
    enough = int(2 * model.wake_ns / model.op_ns)
    asked = [(work, str(work))]
    return Choice(runs[:2], trees.Split(0, enough, trees.Leaf(0), trees.Leaf(1)), asked)


def require_safe(variants: Sequence[Variant]) -> None:
    """Require a variant that serves every shape: it runs where others cannot.

    Raises:
        Unsupported: there is none.
    """
    if not any(v.safe for v in variants):
        raise Unsupported("one variant must serve every shape, but each one requires a condition")


def fit(
    variants: Sequence[Variant],
    features: list[tuple[Expr, str]],
    asked: Values,
    costs: Values,
    weights: Values,
    solver: Solver,
    limits: Limits,
) -> Choice:
    """Return the choice for a table of costs and one of features at the same points.

    Args:
        features: (expression, text) of each feature.
        asked: the values of the features (points x features).
        costs: predicted or measured nanoseconds (points x variants).
        weights: the weight of each point; only ratios of weights matter.

    Raises:
        Unsupported: no variant is safe, so that no variant serves every shape.
    """
    require_safe(variants)
    loss = _wary(losses(costs, weights), variants)
    best: tuple[float, list[int]] | None = None
    codes = [(v.plan.code, v.run.parts) for v in variants]
    bodies = np.array([codes.index(c) for c in codes])
    for layouts in layout_sets([v.plan for v in variants], limits.copy_bytes):
        usable = np.array([v.plan.layout in layouts for v in variants])
        safe = usable & np.array([v.safe for v in variants])
        if not safe.any():
            continue
        kept = keep(np.where(usable, loss, 1e6), safe, limits, bodies)
        left = float(np.round(loss[:, kept].min(axis=1).sum(), 9))
        left += limits.gain * (len(layouts) - 1)  # each layout is a copy of the weights
        if best is None or left < best[0]:
            best = (left, kept)
    assert best is not None
    kept = best[1]
    tree = grow(loss[:, kept], asked, limits)
    if limits.run_gain is not None:
        kept = _with_runs(kept, variants)
        once = replace(limits, depth=1, split_gain=limits.run_gain)
        tree = _by_run(tree, variants, kept, (loss, asked), once)
    tree = prune_proved(tree, features, solver)
    used = trees.leaves(tree)
    needed = used if any(variants[kept[k]].safe for k in used) else sorted({0, *used})
    numbers = {k: i for i, k in enumerate(needed)}
    picked = joined([variants[kept[k]] for k in needed])
    return Choice(picked, trees.renumber(tree, numbers), features)


def _wary(loss: Values, variants: Sequence[Variant]) -> Values:
    """Return the loss, with a penalty for threaded variants that are slower than their serial run.

    The penalty is ``WASTED_THREADS`` times the difference: thresholds are approximate, and each
    thread requires scratch memory.
    """
    serial = {id(v.plan): k for k, v in enumerate(variants) if v.run.parts == 1}
    result: Values = loss.copy()
    for k, variant in enumerate(variants):
        alone = loss[:, serial.get(id(variant.plan), k)]
        result[:, k] += WASTED_THREADS * np.maximum(np.minimum(loss[:, k], 1.0) - alone, 0)
    return result


def _with_runs(kept: Sequence[int], variants: Sequence[Variant]) -> list[int]:
    """Return ``kept``, followed by the variants of the same plans with other numbers of threads."""
    plans = {id(variants[k].plan) for k in kept}
    more = (k for k, v in enumerate(variants) if id(v.plan) in plans and k not in kept)
    return [*kept, *more]


def _by_run(
    tree: Tree,
    variants: Sequence[Variant],
    kept: Sequence[int],
    tables: tuple[Values, Values],
    once: Limits,
) -> Tree:
    """Return ``tree`` with a split between serial and threaded runs at leaves where this gains.

    Args:
        tables: loss (points x variants) and features (points x features) of the points at the leaf.
        once: limits of the added split.
    """
    loss, asked = tables
    if isinstance(tree, Split):
        goes = asked[:, tree.feature] < tree.at
        below, rest = (
            _by_run(part, variants, kept, (loss[side], asked[side]), once)
            for part, side in ((tree.below, goes), (tree.rest, ~goes))
        )
        return Split(tree.feature, tree.at, below, rest)
    plan = variants[kept[tree.variant]].plan
    own = [i for i, k in enumerate(kept) if variants[k].plan is plan]
    own.sort(key=lambda i: i != tree.variant)  # ties keep the leaf's variant
    found = grow(loss[:, [kept[i] for i in own]], asked, once)
    return trees.renumber(found, dict(enumerate(own)))


def prune_proved(tree: Tree, features: Sequence[tuple[Expr, str]], solver: Solver) -> Tree:
    """Return the tree without the splits that the solver's facts decide."""
    below: Callable[[int, int], bool | None] = lambda f, at: solver.known_lt(features[f][0], at)  # noqa: E731
    return trees.prune(tree, below)


def moved_bytes(group: Group) -> Expr:
    """Return the bytes of a group's operands and results."""
    nodes = (*group.params, *group.outputs)
    return sum_of(
        mul(product(n.shape), max(1, int(tvm.DataType(storage_dtype(n.dtype)).bits) // 8))
        for n in nodes
    )


def sum_of(exprs: Any) -> Expr:
    """Return the sum of expressions."""
    total: Expr = i64(0)
    for e in exprs:
        total = total + e
    return total
