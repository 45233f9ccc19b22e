"""``FoldScaleAxis``: a factor per channel around a product goes into its weight."""

from __future__ import annotations

from ..dataflow_pattern.known_types import KnownTypes
from ..dataflow_pattern.matcher import Graph
from ..expr import Call, Expr, Function
from ..expr_functor import rewrite_post_order
from .rules import attrs_of, op_call, op_name


class _Folder:
    """One function."""

    def __init__(self, func: Function) -> None:
        self.func = func
        self.types, self.graph = KnownTypes(func), Graph(func)

    def forward(self, before: Expr, made: Expr) -> Expr:
        """A product of a scaled input."""
        if not isinstance(before, Call) or not isinstance(made, Call):
            return made
        found = self._scaled(before.args[0], made.args[0]) if before.args else None
        if found is None or not self._alone(before.args[0]):
            return made
        data, scale = found
        if op_name(made) == "nn.dense" and self._along(before.args[0], scale, 1):
            weight = op_call("multiply", made.args[1], scale)
        elif self._plain_conv(made) and self._along(before.args[0], scale, 3):
            factor = op_call("expand_dims", self._vector(scale), axis=1, num_newaxis=2)
            weight = op_call("multiply", made.args[1], factor)
        else:
            return made
        return Call(made.op, (data, weight), made.attrs, (), made.span)

    def backward(self, before: Expr, made: Expr) -> Expr:
        """A product that is scaled."""
        if op_name(before) != "multiply" or not isinstance(before, Call):
            return made
        assert isinstance(made, Call)
        for place in (0, 1):
            product, scale = made.args[place], made.args[1 - place]
            if not isinstance(product, Call) or not self._alone(before.args[place]):
                continue
            if op_name(product) == "nn.dense" and self._along(before.args[place], scale, 1):
                factor = op_call("expand_dims", scale, axis=1)
            elif self._plain_conv(product) and self._along(before.args[place], scale, 3):
                factor = op_call("expand_dims", self._vector(scale), axis=1, num_newaxis=3)
            else:
                continue
            weight = op_call("multiply", product.args[1], factor)
            return Call(product.op, (product.args[0], weight), product.attrs, (), product.span)
        return made

    def _plain_conv(self, expr: Expr) -> bool:
        if op_name(expr) != "nn.conv2d" or not isinstance(expr, Call):
            return False
        attrs = attrs_of(expr)
        layouts = (attrs["data_layout"], attrs["kernel_layout"])
        return attrs["groups"] == 1 and layouts == ("NCHW", "OIHW")

    def _alone(self, value: Expr) -> bool:
        """Whether nobody else reads a value."""
        return len(self.graph.users[value]) == 1

    def _scaled(self, before: Expr, made: Expr) -> tuple[Expr, Expr] | None:
        """What is multiplied, and the smaller factor."""
        if op_name(made) != "multiply" or not isinstance(made, Call):
            return None
        ranks = [self.types.rank(arg) for arg in made.args]
        if None in ranks or ranks[0] == ranks[1]:
            return None
        first = (ranks[0] or 0) > (ranks[1] or 0)
        return made.args if first else made.args[::-1]  # type: ignore[return-value]

    def _along(self, value: Expr, scale: Expr, from_end: int) -> bool:
        """Whether ``scale`` has one factor for each index of an axis, counted from the end."""
        shape, whole = self.types.shape(scale), self.types.tensor(value)
        if shape is None or whole is None or len(shape) != from_end:
            return False
        axis = len(whole.shape) - from_end
        return shape == (whole.shape[axis], *(1,) * (from_end - 1))

    @staticmethod
    def _vector(scale: Expr) -> Expr:
        return op_call("squeeze", scale, axis=(1, 2))


def fold_scale_axis(func: Function, forward: bool) -> Expr:
    """Factors of inputs go forward into weights; those of results backward."""
    folder = _Folder(func)
    return rewrite_post_order(func, folder.forward if forward else folder.backward)


__all__ = ["fold_scale_axis"]
