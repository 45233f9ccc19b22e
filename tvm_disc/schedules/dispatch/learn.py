"""Choice by measured times: a regressor completes the cost table, and a tree is fitted to it.

The regressor (gradient-boosted trees, XGBoost) predicts the ratio of a measured time to the time of
the analytical model, so that without data it equals the analytical model. It has two parts: the
common error of all variants at a point, and each variant's deviation from that error. Choices
depend only on the deviations, which do not change if a disturbance scales all times of a point.
"""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from tvm import tirx

from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.schedules.dispatch import tree as trees
from tvm_disc.schedules.dispatch.choose import (
    analytic,
    fit,
    group_features,
    prune_proved,
    require_safe,
    table,
)
from tvm_disc.schedules.dispatch.cost import cost_table
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Values, spread
from tvm_disc.schedules.dispatch.tree import Split
from tvm_disc.schedules.dispatch.tree_fit import Limits
from tvm_disc.schedules.dispatch.variant import Choice, Variant, joined, layout_sets
from tvm_disc.schedules.gemm.vendor import calls_vendor
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr

Times: TypeAlias = Mapping[tuple[int, ...], Mapping[str, float]]  # dims -> variant -> ns

# Executing a split takes about 1 ns.
MEASURED = Limits(gain=0.005, split_gain=0.0001, depth=10, copy_bytes=Machine.copy_bytes)
FEWEST = 24  # fewest measured times with which the regressor is trained
NEVER_NS = 1e6  # with a larger ``vendor_call_ns``, a model never chooses a library
FOLDS = 5  # folds of cross-validation
ROUNDS = 150  # boosting rounds
BETWEEN = 2048  # number of predicted points between measured ones; they smooth measurement noise
LIBRARY = {"vendor_call_ns": 150.0, "vendor_elem_ns": 0.1, "vendor_fma_ns": 0.025}
_TRAINING = {"max_depth": 5, "eta": 0.1, "nthread": 1, "seed": 0}
PREDICTED_WEIGHT = 1.0  # weight of all predicted points relative to that of all measured points


def learner(what: str) -> ModuleType:
    """Return the module XGBoost, which is required only to learn from measured times.

    Raises:
        Unsupported: XGBoost is not installed; the message begins with ``what``.
    """
    try:
        return importlib.import_module("xgboost")
    except ModuleNotFoundError:
        raise Unsupported(
            f"{what}: expected the package 'xgboost', which is not installed; "
            "pip install 'tvm_disc[tune]'"
        ) from None


@dataclass
class Regressor:
    """Predicts the nanoseconds of variants at points; one row per point, one column per variant."""

    group: Group
    variants: Sequence[Variant]
    model: CostModel
    features: list[tuple[Expr, str]]
    booster: Any = None  # predicts the deviation of a variant from the common error
    level: Any = None  # predicts the common error of all variants

    def learn(self, dims: Values, times: Values) -> None:
        """Train on measured times (points x variants, NaN if missing), if at least ``FEWEST`` of
        them can be used.
        """
        expected = self._analytic(dims)
        # A variant may have been measured where its present needs are not met; such times are not
        # used.
        known = np.isfinite(times) & np.isfinite(expected)
        if known.sum() < FEWEST:
            return
        xgboost = learner("measured times (records=)")
        ratio = np.log(np.where(known, times, 1.0) / np.where(known, expected, 1.0))
        some = known.any(axis=1)
        level = ratio.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        data = xgboost.DMatrix(self._asked(dims)[some], level[some])
        self.level = xgboost.train(_TRAINING, data, num_boost_round=ROUNDS)
        apart = (ratio - level[:, None])[known]
        data = xgboost.DMatrix(self._inputs(dims)[known.reshape(-1)], apart)
        self.booster = xgboost.train(_TRAINING, data, num_boost_round=ROUNDS)

    def predict(self, dims: Values) -> Values:
        """Return predicted times (points x variants); inf if a variant's needs are not met.

        Without training, they are those of the analytical model.
        """
        times = self._analytic(dims)
        if self.booster is None:
            return times
        xgboost = learner("measured times (records=)")
        apart = self.booster.predict(xgboost.DMatrix(self._inputs(dims))).reshape(times.shape)
        level = self.level.predict(xgboost.DMatrix(self._asked(dims)))
        return np.asarray(times * np.exp(apart + level[:, None]), np.float64)

    def _points(self, dims: Values) -> dict[Expr, Values]:
        return dict(zip(self.group.symbols(), dims.T, strict=True))

    def _analytic(self, dims: Values) -> Values:
        return cost_table(list(self.variants), self._points(dims), len(dims), self.model)

    def _asked(self, dims: Values) -> Values:
        """Return the logarithms of the features, a row for each point."""
        return np.log1p(np.maximum(table(self.features, self._points(dims), len(dims)), 0))

    def _inputs(self, dims: Values) -> Values:
        """Return the inputs of the regressor, a row for each point and variant.

        Columns: features, knobs, the logarithm of the analytical time, and of its ratio to the
        best.
        """
        asked = self._asked(dims)
        knobs = encoded(self.variants)
        count, width = len(dims), len(self.variants)
        expected = np.minimum(self._analytic(dims), 1e15)
        rows = [np.repeat(asked, width, axis=0), np.tile(knobs, (count, 1))]
        over = np.log(expected / expected.min(axis=1, keepdims=True))
        return np.hstack([*rows, np.log(expected).reshape(-1, 1), over.reshape(-1, 1)])


def encoded(variants: Sequence[Variant]) -> Values:
    """Return a row of numbers for each variant; different keys have different rows.

    A numeric knob is one column, NaN if a variant lacks it; families and text knobs are one-hot.
    """
    numbers, words = zip(*(_knobs(v) for v in variants), strict=True)
    named = sorted(set().union(*numbers))
    asked = sorted(set().union(*words))
    return np.array(
        [
            [*(own.get(name, np.nan) for name in named), *(float(word in said) for word in asked)]
            for own, said in zip(numbers, words, strict=True)
        ],
        np.float64,
    )


def _knobs(variant: Variant) -> tuple[dict[str, float], set[tuple[str, str]]]:
    """Return the numeric knobs of a variant, and its other knobs as (name, JSON)."""
    numbers, words = {"run parts": float(variant.run.parts)}, {("family", variant.plan.family)}
    for name, value in variant.plan.knobs.to_json().items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers[f"knob {name}"] = float(value)
        else:
            words.add((f"knob {name}", json.dumps(value, sort_keys=True)))
    return numbers, words


def time_table(variants: Sequence[Variant], found: Times) -> tuple[Values, Values]:
    """Return (dims, times) of the measured points, sorted; NaN if a variant was not measured."""
    keys = [v.key for v in variants]
    points = sorted(d for d, times in found.items() if any(k in times for k in keys))
    dims = np.array(points, np.float64).reshape(len(points), len(points[0]) if points else 0)
    times = np.array([[found[p].get(k, np.nan) for k in keys] for p in points])
    return dims, times.reshape(len(points), len(keys))


def library_known(model: CostModel) -> CostModel:
    """Return the model with typical costs of a library call, as a prior for the regressor.

    The shipped coefficients rule out library calls. They are no useful prior: the predicted time of
    a call is about 1 s.
    """
    return replace(model, **LIBRARY) if model.vendor_call_ns > NEVER_NS else model


def choose_measured(
    group: Group,
    variants: Sequence[Variant],
    solver: Solver,
    model: CostModel,
    found: Times,
    limits: Limits = MEASURED,
) -> Choice | None:
    """Return a choice by measured times inside the measured box of dims, by the model outside.

    None if no variant was measured.
    """
    made = choose_inside(group, variants, solver, model, found, limits)
    return None if made is None else _with_outside(group, *made, solver, model)


def choose_inside(
    group: Group,
    variants: Sequence[Variant],
    solver: Solver,
    model: CostModel,
    found: Times,
    limits: Limits = MEASURED,
) -> tuple[Choice, Values] | None:
    """Return a choice by measured times, and the points that it was fitted to.

    None if no variant was measured.
    """
    dims, times = time_table(variants, found)
    if not len(dims) or dims.shape[1] != len(group.symbols()):
        return None
    features = group_features(group, variants, solver)
    regressor = Regressor(group, variants, library_known(model), features)
    regressor.learn(dims, times)
    unknown = np.isnan(times).all(axis=0) & np.array([calls_vendor(v.plan) for v in variants])

    def predict(at: Values) -> Values:
        # Without measurements it is unknown whether the machine has the library, so exclude it.
        return np.where(unknown, np.inf, regressor.predict(at))

    predicted = predict(dims)
    costs = np.where(np.isnan(times) | np.isinf(predicted), predicted, times)
    weights = np.ones(len(dims))
    if regressor.booster is not None and dims.shape[1]:
        between = spread(dims.min(axis=0), dims.max(axis=0), BETWEEN)
        costs = np.vstack([costs, predict(between)])
        share = PREDICTED_WEIGHT * min(1.0, len(dims) / BETWEEN)
        weights = np.concatenate([weights, np.full(BETWEEN, share)])
        dims = np.vstack([dims, between])
    points = dict(zip(group.symbols(), dims.T, strict=True))
    asked = table(features, points, len(dims))
    return fit(variants, features, asked, costs, weights, solver, limits), dims


def _with_outside(
    group: Group, inside: Choice, dims: Values, solver: Solver, model: CostModel
) -> Choice:
    """Return ``inside`` with a split to the analytical model's choice outside the measured box."""
    if len(inside.variants) == 1 or not dims.shape[1]:
        return inside
    outside = analytic(group, inside.variants, solver, model, Limits(depth=4, gain=-1.0))
    low, high = dims.min(axis=0).astype(int), dims.max(axis=0).astype(int)
    border = outside_of(group.symbols(), low.tolist(), high.tolist())
    features = [*inside.features, *outside.features, border]
    shift = len(inside.features)
    # The analytical choice may have fewer variants, in a different order.
    places = {v.key: k for k, v in enumerate(inside.variants)}
    numbers = {k: places[v.key] for k, v in enumerate(outside.variants)}
    moved = trees.renumber(trees.shift_features(outside.tree, shift), numbers)
    tree = Split(len(features) - 1, 1, inside.tree, moved)
    return Choice(inside.variants, prune_proved(tree, features, solver), features)


def outside_of(symbols: Sequence[Any], low: Sequence[int], high: Sequence[int]) -> tuple[Expr, str]:
    """Return a feature that is 1 if some symbol is outside ``low`` to ``high``, and 0 otherwise."""
    conds = [tirx.Or(s < i64(a), s > i64(b)) for s, a, b in zip(symbols, low, high, strict=True)]
    texts = [f"{a} <= {s.name} <= {b}" for s, a, b in zip(symbols, low, high, strict=True)]
    cond = conds[0]
    for c in conds[1:]:
        cond = tirx.Or(cond, c)
    return tirx.Select(cond, i64(1), i64(0)), f"outside({', '.join(texts)})"


def import_choice(
    group: Group, variants: Sequence[Variant], solver: Solver, data: Mapping[str, object]
) -> Choice:
    """Return the choice that :meth:`Choice.to_json` wrote for a group with the same key.

    Raises:
        BadInput: this group lacks a feature or variant, or the variants pack a weight differently.
        Unsupported: no variant is safe, so that no variant serves every shape.
    """
    require_safe(variants)
    features = group_features(group, variants, solver)
    known = {text for _, text in features}
    for text in _asked(data):
        found = _OUTSIDE.fullmatch(text)
        if text not in known and found:
            ranges = [r.groups() for r in _RANGE.finditer(found[1])]
            named = {str(s.name): s for s in group.symbols()}
            if all(name in named for _, name, _ in ranges):
                low, high = ([int(r[k]) for r in ranges] for k in (0, 2))
                features.append(outside_of([named[n] for _, n, _ in ranges], low, high))
                known.add(text)
    try:
        tree = trees.from_json(data, [t for _, t in features], [v.to_json() for v in variants])
    except (ValueError, KeyError) as error:
        raise BadInput(f"dispatch of {group.name}: {error}") from None
    used = trees.leaves(tree)
    if not any(variants[k].safe for k in used):
        used = sorted({*used, next(k for k, v in enumerate(variants) if v.safe)})
    plans = [variants[k].plan for k in used]
    if frozenset(p.layout for p in plans) not in layout_sets(plans, math.inf):
        raise BadInput(
            f"dispatch of {group.name}: its variants pack a weight differently; use variants that "
            "share a packed form"
        )
    numbers = {k: n for n, k in enumerate(used)}
    kept = joined([variants[k] for k in used])
    return Choice(kept, trees.renumber(tree, numbers), features)


_OUTSIDE = re.compile(r"outside\((.*)\)")
_RANGE = re.compile(r"(\d+) <= (\w+) <= (\d+)")


def _asked(data: Mapping[str, Any]) -> list[str]:
    """Return the features that a tree in JSON reads."""
    if "if" not in data:
        return []
    return [str(data["if"]), *_asked(data.get("then", {})), *_asked(data.get("else", {}))]


def left_out(
    group: Group, variants: Sequence[Variant], solver: Solver, model: CostModel, found: Times
) -> Values:
    """Return predicted times of the measured points (points x variants), each by a regressor that
    was not trained on the point: cross-validation over ``FOLDS`` folds.
    """
    dims, times = time_table(variants, found)
    features = group_features(group, variants, solver)
    predicted = np.full(times.shape, np.nan)
    for fold in range(FOLDS):
        held = np.arange(len(dims)) % FOLDS == fold
        regressor = Regressor(group, variants, library_known(model), features)
        regressor.learn(dims[~held], times[~held])
        predicted[held] = regressor.predict(dims[held])
    return predicted


def held_out_error(
    group: Group, variants: Sequence[Variant], solver: Solver, model: CostModel, found: Times
) -> tuple[float, float] | None:
    """Return the median relative errors of the regressor and of the analytical model.

    The errors are those of every fifth point, which is not used for training. None if there are
    fewer than five points.
    """
    dims, times = time_table(variants, found)
    held = np.arange(len(dims)) % FOLDS == FOLDS - 1
    if not held.any():
        return None
    features = group_features(group, variants, solver)
    errors = []
    for learns in (True, False):
        regressor = Regressor(group, variants, library_known(model), features)
        if learns:
            regressor.learn(dims[~held], times[~held])
        known = np.isfinite(times[held])
        found_ns, expected = times[held][known], regressor.predict(dims[held])[known]
        errors.append(float(np.median(np.abs(expected / found_ns - 1))))
    return errors[0], errors[1]
