"""``ConvertLayout``: convolutions and pooling over images in a different layout.

A value keeps the layout in which its producer writes it. Its users read that layout if they can:
element-wise operators, and operators along an axis, whose number changes. Other users read the
original layout through a ``layout_transform``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import Call, Expr, Function, Tuple, TupleGetItem
from tvm_disc.relay.ops.row import FusionClass
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name, row_of

# Operator that can be converted -> (its spatial letters, whether it has weights).
_CONVERTED: Mapping[str, tuple[str, bool]] = {
    **{f"nn.conv{n}d": ("DHW"[3 - n :], True) for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": ("DHW"[3 - n :], True) for n in (1, 2, 3)},
    "nn.deformable_conv2d": ("HW", True),
    "qnn.conv2d": ("HW", True),
    **{f"nn.{kind}_pool2d": ("HW", False) for kind in ("max", "avg", "global_max", "global_avg")},
    "image.resize2d": ("HW", False),
    "vision.roi_align": ("HW", False),
    "nn.upsampling": ("HW", False),
}
# Operators with an attribute ``layout`` whose result has the layout of their input.
_LAID = frozenset(
    "nn.max_pool2d nn.avg_pool2d nn.global_max_pool2d nn.global_avg_pool2d nn.adaptive_max_pool2d "
    "nn.adaptive_avg_pool2d nn.max_pool1d nn.avg_pool1d nn.max_pool3d nn.avg_pool3d nn.upsampling "
    "nn.upsampling3d image.resize2d".split()
)
# Operators along one axis of their first operand.
_AXIS = frozenset(
    "nn.softmax nn.log_softmax nn.bias_add nn.lrn nn.prelu qnn.quantize qnn.dequantize "
    "qnn.requantize".split()
)
_REDUCED = frozenset("sum mean max min prod all any".split())


@dataclass(frozen=True)
class Layout:
    """Change of a value's layout: ``was`` in the original program, ``now`` in the new one."""

    was: str
    now: str

    def axis(self, old: int) -> int:
        """Return the new index of an axis."""
        return self.now.index(self.was[old % len(self.was)])

    def permuted(self, items: Sequence[object]) -> tuple[object, ...]:
        """Return one item per axis, in the new order."""
        return tuple(items[self.was.index(letter)] for letter in self.now)


class LayoutConfig:
    """Context manager that excludes convolutions by number: ``with
    LayoutConfig(skip_layers=[0]):``.

    Raises:
        BadNode: ``skip_layers`` is not a list of integers.
    """

    current: ClassVar[list[LayoutConfig]] = []

    def __init__(self, skip_layers: Sequence[int] | None = None) -> None:
        layers = () if skip_layers is None else skip_layers
        if not isinstance(layers, (list, tuple)) or not all(type(n) is int for n in layers):
            raise BadNode(f"LayoutConfig: skip_layers: expected integers, found {shown(layers)}")
        self.skip_layers = list(layers)

    def __enter__(self) -> LayoutConfig:
        self.current.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self.current.pop()


def check_layouts(desired: object) -> dict[str, tuple[str, ...]]:
    """Return the requested layouts of data and weights by operator, checked.

    Raises:
        BadNode: an operator without a layout, or a layout that does not consist of its axes.
    """
    if not isinstance(desired, Mapping):
        raise BadNode(
            f"ConvertLayout: expected a mapping from operators to layouts, found {shown(desired)}"
        )
    found: dict[str, tuple[str, ...]] = {}
    for name, given in desired.items():
        if name not in _CONVERTED:
            known = ", ".join(_CONVERTED)
            raise BadNode(f"ConvertLayout: expected operators among {known}; found {shown(name)}")
        if not isinstance(given, (str, list, tuple)):
            raise BadNode(f"ConvertLayout: {name}: expected layouts, found {shown(given)}")
        layouts = (given,) if isinstance(given, str) else tuple(given)
        spatial, weighted = _CONVERTED[name]
        sets = ["NC" + spatial, "OI" + spatial][: 1 + weighted]
        for layout, letters in zip(layouts, sets, strict=False):
            if layout != "default" and (not isinstance(layout, str) or set(layout) != set(letters)):
                raise BadNode(
                    f"ConvertLayout: {name}: expected an order of the axes {letters}, or "
                    f"'default', found {shown(layout)}"
                )
        if not 1 <= len(layouts) <= max(2, len(sets)):
            raise BadNode(f"ConvertLayout: {name}: expected {len(sets)} layouts, found {layouts}")
        found[name] = layouts
    return found


class _Converter:
    """Conversion of one function."""

    def __init__(self, func: Function, desired: Mapping[str, tuple[str, ...]]) -> None:
        self.func, self.desired = func, desired
        self.types = KnownTypes(func)
        # node -> (value in its new layout, that layout)
        self.laid: dict[Expr, tuple[Expr, Layout]] = {}
        self.plain: dict[Expr, Expr] = {}  # node -> value in the program's layout
        self.turned: dict[tuple[Expr, Layout], Expr] = {}
        self.number = 0

    def run(self) -> Expr:
        """Return the function with layouts converted."""
        return rewrite_post_order(self.func, self._leave, done=self.plain)

    def _leave(self, before: Expr, made: Expr) -> Expr:
        """Return a node's value in the program's layout; record its value in a new layout, if
        any.
        """
        if isinstance(before, TupleGetItem) and isinstance(made, TupleGetItem):
            whole = self.laid.get(before.tuple_value)
            if whole is None or before.index != 0:
                return made
            return self._keep(before, TupleGetItem(whole[0], 0), whole[1])
        if not isinstance(before, Call) or not isinstance(made, Call) or row_of(before) is None:
            return made
        name = op_name(before)
        if name in self.desired:
            return self._converted(before, made)
        rule = next((rule for names, rule in _RULES if name in names), None)
        found = rule(self, before, made) if rule is not None else self._elementwise(before, made)
        if found is None:
            return made
        call, layout = found
        if layout is None:
            return call
        if name == "nn.batch_norm":  # a tuple whose first item is an image
            self.laid[before] = (call, layout)
            return call
        return self._keep(before, call, layout)

    def _keep(self, node: Expr, made: Expr, layout: Layout) -> Expr:
        self.laid[node] = (made, layout)
        return op_call("layout_transform", made, src_layout=layout.now, dst_layout=layout.was)

    def _in(self, node: Expr, layout: Layout) -> Expr:
        """Return an operand in a layout."""
        if layout.was == layout.now:
            return self.plain[node]
        made, found = self.laid.get(node, (None, None))
        if made is not None and found == layout:
            return made
        key = (self.plain[node], layout)
        if key not in self.turned:
            ends = {"src_layout": layout.was, "dst_layout": layout.now}
            self.turned[key] = op_call("layout_transform", key[0], **ends)
        return self.turned[key]

    def _of(self, node: Expr) -> Layout | None:
        return self.laid[node][1] if node in self.laid else None

    # -- converted operators

    def _converted(self, before: Call, made: Call) -> Expr:
        name, attrs = op_name(before), attrs_of(before)
        weighted = _CONVERTED[name][1]
        if weighted and self._is_skipped():
            return made
        key = "data_layout" if weighted else "layout"
        was, wanted = attrs[key], self.desired[name][0]
        now = was if wanted == "default" else wanted
        if not was.isupper() or attrs.get("out_layout", "") not in ("", was):
            return made
        layout = Layout(was, now)
        args = [self._in(before.args[0], layout), *made.args[1:]]
        attrs.update({key: now}, **({"out_layout": ""} if "out_layout" in attrs else {}))
        if weighted:
            at = 2 if name == "nn.deformable_conv2d" else 1
            if at == 2:
                args[1] = self._in(before.args[1], layout)
            kernel = Layout(attrs["kernel_layout"], self._kernel(before, now))
            args[at] = self._in(before.args[at], kernel)
            attrs["kernel_layout"] = kernel.now
        call = Call(before.op, args, attrs, (), before.span)
        return call if was == now else self._keep(before, call, layout)

    def _is_skipped(self) -> bool:
        self.number += 1
        stack = LayoutConfig.current
        return bool(stack) and self.number - 1 in stack[-1].skip_layers

    def _kernel(self, call: Call, data: str) -> str:
        """Return the layout of the weights."""
        name = op_name(call)
        told = self.desired[name]
        if len(told) > 1 and told[1] != "default":
            return told[1]
        spatial = _CONVERTED[name][0]
        first = "IO" if name.endswith("_transpose") else "OI"
        if data.endswith("C"):
            groups, image = attrs_of(call)["groups"], self.types.tensor(call.args[0])
            layout = attrs_of(call)["data_layout"]
            channels = None if image is None else image.shape[layout.index("C")]
            depthwise = groups > 1 and groups == channels
            return spatial + ("OI" if depthwise else "IO" if first == "OI" else "OI")
        return first + spatial

    # -- operators after them

    def _elementwise(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        """Return an element-wise operator with all operands in the layout of the first converted
        operand, and this layout; None if the operator cannot be converted.
        """
        row = row_of(before)
        layout = next((found for a in before.args if (found := self._of(a))), None)
        if row is None or layout is None or row.pattern > FusionClass.BROADCAST:
            return None
        if row.attrs.keys() & {"axis", "axes", "layout"} or row.name.startswith("qnn."):
            return None
        ranks = [self.types.rank(a) for a in before.args]
        if any(r is None or r > len(layout.was) for r in ranks):
            return None
        args = [self._broadcast(a, r or 0, layout) for a, r in zip(before.args, ranks, strict=True)]
        return Call(before.op, args, before.attrs, (), before.span), layout

    def _broadcast(self, arg: Expr, rank: int, layout: Layout) -> Expr:
        missing = len(layout.was) - rank
        if rank == 0:
            return self.plain[arg]
        if missing == 0:
            return self._in(arg, layout)
        wide = op_call("expand_dims", self.plain[arg], axis=0, num_newaxis=missing)
        return op_call("layout_transform", wide, src_layout=layout.was, dst_layout=layout.now)

    def _first(self, before: Call, **attrs: Any) -> tuple[Call, Layout] | None:
        """Return the call with its converted first operand and changed attributes, and the layout
        of the result.
        """
        made, layout = self.laid[before.args[0]]
        args = [made, *(self.plain[a] for a in before.args[1:])]
        return Call(before.op, args, {**attrs_of(before), **attrs}, (), before.span), layout

    def _with_layout(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        layout, attrs = self._of(before.args[0]), attrs_of(before)
        if layout is None or attrs["layout"] != layout.was or attrs.get("out_layout"):
            return None
        return self._first(before, layout=layout.now)

    def _with_axis(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        layout = self._of(before.args[0])
        axis = attrs_of(before)["axis"]
        return None if layout is None else self._first(before, axis=layout.axis(axis))

    def _reduced(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        layout, attrs = self._of(before.args[0]), attrs_of(before)
        if layout is None or attrs["axis"] is None:
            return None
        given = attrs["axis"] if isinstance(attrs["axis"], tuple | list) else (attrs["axis"],)
        axes = tuple(sorted(layout.axis(a) for a in given))
        found = self._first(before, axis=axes)
        gone = {layout.now[a] for a in axes} ^ (set(layout.now) if attrs["exclude"] else set())
        left = [[c for c in order if c not in gone] for order in (layout.was, layout.now)]
        if found is None or attrs["keepdims"]:
            return found
        return (found[0], None) if left[0] == left[1] else None

    def _concatenated(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        whole = before.args[0]
        fields = whole.fields if isinstance(whole, Tuple) else ()
        layout = next((found for f in fields if (found := self._of(f))), None)
        if layout is None:
            return None
        parts = Tuple(tuple(self._in(f, layout) for f in fields))
        attrs = {**attrs_of(before), "axis": layout.axis(attrs_of(before)["axis"])}
        return Call(before.op, [parts], attrs, (), before.span), layout

    def _padded(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        layout = self._of(before.args[0])
        if layout is None:
            return None
        return self._first(before, pad_width=layout.permuted(attrs_of(before)["pad_width"]))


_Rule = Callable[[_Converter, Call, Call], "tuple[Call, Layout | None] | None"]
_RULES: tuple[tuple[frozenset[str], _Rule], ...] = (
    (_LAID, _Converter._with_layout),
    (_AXIS | {"nn.batch_norm"}, _Converter._with_axis),
    (_REDUCED, _Converter._reduced),
    (frozenset(["concatenate"]), _Converter._concatenated),
    (frozenset(["nn.pad"]), _Converter._padded),
)


def convert_layout(func: Function, desired: Mapping[str, tuple[str, ...]]) -> Expr:
    """Return ``func`` with the operators of ``desired``, and those after them, in other layouts."""
    return _Converter(func, desired).run()


__all__ = ["LayoutConfig", "check_layouts", "convert_layout"]
