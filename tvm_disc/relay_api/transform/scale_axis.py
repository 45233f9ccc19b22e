"""``FoldScaleAxis``: fold per-channel factors around a matmul or convolution into its weight.

The pass walks twice over the expressions of a function. The first walk finds the values that accept
a factor of their channels. Forward, all users of the value must accept the factor; backward, the
value's own operator must. A matmul or a convolution accepts a factor and folds it into its weight.
Operators that commute with a factor pass it on: bias additions, pooling, and relu for positive
factors. The second walk moves the factors.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_disc.relay.expr import Call, Constant, Expr, Function
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.dataflow_pattern.matcher import UserGraph
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name

_POSITIVE = frozenset(["nn.relu", "nn.leaky_relu", "nn.max_pool2d"])
_LINEAR = frozenset(["nn.avg_pool2d", "nn.global_avg_pool2d"])
# Operators that change the shape of a constant, not its elements.
_MOVES = frozenset(["expand_dims", "layout_transform", "reshape", "squeeze", "transpose"])
_CONVOLUTIONS = frozenset(["nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose"])
_SUMS = frozenset(["add", "subtract"])


Ones = tuple[int, ...]


@dataclass(frozen=True)
class ScaledAxis:
    """An axis that accepts a factor, and its conditions.

    ``positive`` and ``nonzero`` require a constant factor whose elements are positive or nonzero.
    """

    axis: int
    positive: bool = False
    nonzero: bool = False

    def takes(self, scale: Expr) -> bool:
        """Return whether a factor meets the conditions."""
        if not self.positive and not self.nonzero:
            return True
        while op_name(scale) in _MOVES and isinstance(scale, Call):
            scale = scale.args[0]
        if not isinstance(scale, Constant):
            return False
        return bool((scale.data > 0).all() if self.positive else scale.data.all())


class _Folder:
    """State of the pass over one function, and queries of both directions."""

    def __init__(self, func: Function) -> None:
        self.types, self.graph = KnownTypes(func), UserGraph(func)
        self.func = func
        self.places: dict[Expr, ScaledAxis] = {}
        self.scales: dict[Expr, Expr] = {}  # value -> vector of factors of its channels

    # -- queries of both directions

    def product(self, call: Expr) -> tuple[int, int, int, int, int] | None:
        """Return the axes of a matmul or convolution; None for other calls.

        The tuple has the channel axes of input and output, the axes of the weight that correspond
        to them, and the rank of the weight.
        """
        if not isinstance(call, Call):
            return None
        rank = self.types.rank(call.args[0]) if call.args else None
        if op_name(call) == "nn.dense" and rank is not None:
            return rank - 1, rank - 1, 1, 0, 2
        if op_name(call) not in _CONVOLUTIONS:
            return None
        attrs = attrs_of(call)
        data, kernel = attrs["data_layout"], attrs["kernel_layout"]
        out = attrs["out_layout"] or data
        if not all(layout.isalpha() and layout.isupper() for layout in (data, kernel, out)):
            return None
        weight, image = self.types.shape(call.args[1]), self.types.tensor(call.args[0])
        if weight is None or image is None or len(weight) != len(kernel):
            return None
        inner, outer = kernel.index("I"), kernel.index("O")
        groups, channels = attrs["groups"], image.shape[data.index("C")]
        if groups > 1 and op_name(call).endswith("_transpose"):
            return None
        if groups > 1:  # depthwise: each channel has its own kernel
            many = outer if weight[outer] == groups and weight[inner] == 1 else inner
            if channels != groups or weight[outer] * weight[inner] != groups:
                return None
            inner = outer = many
        return data.index("C"), out.index("C"), inner, outer, len(kernel)

    def along(self, value: Expr, factor: Expr, axis: int | None = None) -> tuple[int, Ones] | None:
        """Return the axis of ``value`` along which ``factor`` varies, and the axes of length 1 of
        ``factor``.

        Without these axes ``factor`` is a vector. Returns None if it varies along several axes.
        """
        shape, whole = self.types.shape(factor), self.types.tensor(value)
        if shape is None or whole is None or not 0 < len(shape) <= len(whole.shape):
            return None
        behind = len(whole.shape) - len(shape)
        several = [i for i, d in enumerate(shape) if d != 1]
        at = several[0] if several else (0 if axis is None else axis - behind)
        if len(several) > 1 or not 0 <= at < len(shape) or whole.shape[behind + at] != shape[at]:
            return None
        return behind + at, tuple(i for i in range(len(shape)) if i != at)

    def split(self, call: Expr, place: ScaledAxis) -> tuple[int, Ones] | None:
        """Return (operand position, axes of length 1) of the factor, if ``call`` multiplies by a
        factor that ``place`` accepts; else None.
        """
        if op_name(call) != "multiply" or not isinstance(call, Call):
            return None
        for position in (1, 0):
            value, factor = call.args[1 - position], call.args[position]
            found = self.along(value, factor, place.axis)
            whole = self.types.rank(value) == self.types.rank(call)
            if found is not None and found[0] == place.axis and whole and place.takes(factor):
                return position, found[1]
        return None

    def passes(self, call: Expr, place: ScaledAxis) -> ScaledAxis | None:
        """Return the conditions under which an operator of one operand passes a factor on; None
        for other operators.
        """
        if op_name(call) in _LINEAR | _POSITIVE:
            attrs = attrs_of(call) if isinstance(call, Call) else {}
            layout = attrs.get("layout", "")
            if layout and (not layout.isupper() or layout.index("C") != place.axis):
                return None
            return ScaledAxis(
                place.axis, place.positive or op_name(call) in _POSITIVE, place.nonzero
            )
        return None

    def bias(self, call: Expr, place: ScaledAxis) -> tuple[int, Ones] | None:
        """Return (position, axes of length 1) of a per-channel addend of ``call``, or None."""
        if not isinstance(call, Call):
            return None
        if op_name(call) == "nn.bias_add":
            rank = self.types.rank(call.args[0])
            return (1, ()) if rank and attrs_of(call)["axis"] % rank == place.axis else None
        if op_name(call) not in _SUMS:
            return None
        for position in (1, 0):
            found = self.along(call.args[1 - position], call.args[position], place.axis)
            if found is not None and found[0] == place.axis:
                return position, found[1]
        return None

    def with_bias(self, before: Call, made: Call, op: str, scale: Expr) -> Expr:
        """Return ``made`` with its per-channel addend multiplied or divided by ``scale``."""
        place = self.places[before]
        found = self.bias(before, place)
        if found is None or self.passes(before, place) is not None:
            return made
        position, ones = found
        vector = op_call(op, _squeezed(made.args[position], ones), scale)
        rank = self.types.rank(before) or 0
        args = list(made.args)
        args[position] = vector if op_name(made) == "nn.bias_add" else _laid(vector, place, rank)
        return Call(made.op, args, made.attrs, (), made.span)


class _Forward(_Folder):
    """Folds factors of the input of a matmul or convolution into its weight."""

    def fold(self) -> Expr:
        """Return the function with factors moved towards its result."""
        for node in reversed(self.graph.order):
            asked = [self._asks(user, node) for user in self.graph.users[node]]
            known = [p for p in asked if p is not None]
            if not known or len(known) < len(asked) or len({p.axis for p in known}) > 1:
                continue
            positive, nonzero = any(p.positive for p in known), any(p.nonzero for p in known)
            self.places[node] = ScaledAxis(known[0].axis, positive, nonzero)
        return rewrite_post_order(self.func, self._moved)

    def _asks(self, user: Expr, node: Expr) -> ScaledAxis | None:
        """Return the axis and conditions of a factor of ``node`` that ``user`` accepts, or None."""
        if not isinstance(user, Call) or list(user.args).count(node) != 1:
            return None
        product = self.product(user)
        if product is not None:
            return ScaledAxis(product[0]) if user.args[0] is node else None
        place = self.places.get(user)
        if place is None:
            return None
        if (through := self.passes(user, place)) is not None:
            return through
        factor = self.split(user, place)
        if factor is not None:
            return place if user.args[1 - factor[0]] is node else None
        sums = self.bias(user, place)
        if sums is not None and user.args[1 - sums[0]] is node:
            return ScaledAxis(place.axis, place.positive, nonzero=True)
        return None

    def _moved(self, before: Expr, made: Expr) -> Expr:
        if not isinstance(before, Call) or not isinstance(made, Call):
            return made
        scale = next((self.scales[a] for a in before.args if a in self.scales), None)
        place = self.places.get(before)
        factor = None if place is None else self.split(before, place)
        if factor is not None:
            position, ones = factor
            own = _squeezed(made.args[position], ones)
            self.scales[before] = own if scale is None else op_call("multiply", scale, own)
            return made.args[1 - position]
        if scale is None:
            return made
        product = self.product(before)
        if product is not None:
            return _weighted(made, scale, product[2], product[4])
        self.scales[before] = scale
        return self.with_bias(before, made, "divide", scale)


class _Backward(_Folder):
    """Folds factors of the result of a matmul or convolution into its weight."""

    def fold(self) -> Expr:
        """Return the function with factors moved towards its inputs."""
        for node in self.graph.order:
            if len(self.graph.users[node]) == 1:
                place = self._asks(node)
                if place is not None:
                    self.places[node] = place
        self.gone: dict[Expr, int] = {}
        for node in reversed(self.graph.order):
            self._hand_on(node)
        return rewrite_post_order(self.func, self._moved)

    def _asks(self, node: Expr) -> ScaledAxis | None:
        """Return the axis and conditions of a factor that a value accepts, or None."""
        if not isinstance(node, Call):
            return None
        product = self.product(node)
        if product is not None:
            return ScaledAxis(product[1])
        places = [self.places.get(a) for a in node.args]
        known = [p for p in places if p is not None]
        if len(known) == 2 and self._both(node):
            return ScaledAxis(known[0].axis, known[0].positive or known[1].positive)
        for k, place in enumerate(places):
            if place is None:
                continue
            if (through := self.passes(node, place)) is not None:
                return through
            for found in (self.split(node, place), self.bias(node, place)):
                if found is not None and found[0] != k:
                    return place
        return None

    def _both(self, node: Expr) -> bool:
        """Return whether both operands of a sum accept a factor of the same axis."""
        if op_name(node) not in _SUMS or not isinstance(node, Call):
            return False
        found = set()
        for arg in node.args:
            place, whole = self.places.get(arg), self.types.tensor(arg)
            if place is None or whole is None or not isinstance(whole.shape[place.axis], int):
                return False
            found.add((len(whole.shape), place.axis, whole.shape[place.axis]))
        return len(found) == 1

    def _hand_on(self, node: Expr) -> None:
        """Set the factor of the operands of a value to the value's own factor.

        If the value is a product with a factor, this factor is multiplied in and removed.
        """
        if not isinstance(node, Call) or self.product(node) is not None:
            return
        scale = self.scales.get(node)
        for k, arg in enumerate(node.args):
            place = self.places.get(arg)
            factor = None if place is None else self.split(node, place)
            if factor is not None and factor[0] != k:
                own = _squeezed(node.args[factor[0]], factor[1])
                self.scales[arg] = own if scale is None else op_call("multiply", own, scale)
                self.gone[node] = k
                return
        if scale is None:
            return
        sums = None if self._both(node) else self.bias(node, self.places[node])
        for k, arg in enumerate(node.args):
            if arg in self.places and (sums is None or sums[0] != k):
                self.scales[arg] = scale

    def _moved(self, before: Expr, made: Expr) -> Expr:
        if not isinstance(before, Call) or not isinstance(made, Call):
            return made
        if before in self.gone:
            return made.args[self.gone[before]]
        scale, product = self.scales.get(before), self.product(before)
        if scale is None:
            return made
        if product is not None:
            return _weighted(made, scale, product[3], product[4])
        return made if self._both(before) else self.with_bias(before, made, "multiply", scale)


def _squeezed(factor: Expr, ones: Ones) -> Expr:
    return op_call("squeeze", factor, axis=ones) if ones else factor


def _laid(vector: Expr, place: ScaledAxis, rank: int) -> Expr:
    """Return a vector reshaped to broadcast along an axis of a tensor of rank ``rank``."""
    behind = rank - place.axis - 1
    return op_call("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector


def _weighted(made: Call, vector: Expr, axis: int, rank: int) -> Call:
    """Return a matmul or convolution with its weight scaled."""
    weight = op_call("multiply", made.args[1], _laid(vector, ScaledAxis(axis), rank))
    return Call(made.op, (made.args[0], weight), made.attrs, (), made.span)


def fold_scale_axis(func: Function, forward: bool) -> Expr:
    """Return ``func`` with factors of inputs (``forward``) or of results folded into weights."""
    return (_Forward if forward else _Backward)(func).fold()


__all__ = ["fold_scale_axis"]
