"""``ConvertLayout`` and ``AlterOpLayout``: compute on images in a different layout.

``ConvertLayout`` converts convolutions and pooling to the layouts that the caller lists by
operator. ``AlterOpLayout`` replaces calls by the results of registered functions, which may have
other layouts.

Users of a converted value read the new layout if they can. Element-wise operators do; an operator
along an axis does, with the new index of the axis. Other users read the value through a
``layout_transform`` to the original layout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm_disc.errors import BadNode, shown
from tvm_disc.relay.expr import ENTRIES, Call, Expr, Function, NamedAttrs, Tuple, TupleGetItem
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
# Operator -> positions of its images, and of its weights; other operators have one image.
_OPERANDS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    **{name: ((0,), (1,)) for name, (_, weighted) in _CONVERTED.items() if weighted},
    "nn.deformable_conv2d": ((0, 1), (2,)),
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
    """Change of a value's layout: ``was`` in the original program, ``now`` in the new one.

    ``was`` has an axis per letter. ``now`` may split axes into blocks: ``NCHW16c``.
    """

    was: str
    now: str

    @property
    def axes(self) -> list[str]:
        """Return the letters of the new axes; blocks have lower-case letters."""
        return [letter for letter in self.now if letter.isalpha()]

    @property
    def blocks(self) -> dict[str, int]:
        """Return the length of the block by the letter of its axis."""
        return {letter.upper(): int(n) for n, letter in re.findall(r"(\d+)([a-z])", self.now)}

    def axis(self, old: int) -> int | None:
        """Return the new index of an axis; None if the axis is split."""
        letter = self.was[old % len(self.was)]
        return None if letter in self.blocks else self.axes.index(letter)

    def fits(self, shape: Sequence[object] | None) -> bool:
        """Return whether blocks divide the dims of a tensor in the layout ``was``."""
        if not self.blocks:
            return True
        if shape is None or len(shape) != len(self.was):
            return False
        dims = [shape[self.was.index(letter)] for letter in self.blocks]
        pairs = zip(dims, self.blocks.values(), strict=True)
        return all(isinstance(d, int) and d % block == 0 for d, block in pairs)


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
            raise BadNode(
                f"LayoutConfig: skip_layers: expected a list of integers, found {shown(layers)}"
            )
        self.skip_layers = list(layers)

    def __enter__(self) -> LayoutConfig:
        self.current.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self.current.pop()


def check_layouts(desired: object) -> dict[str, tuple[str, ...]]:
    """Return the requested layouts of data and weights by operator, checked.

    Raises:
        BadNode: an operator has no layout, or a layout does not consist of the operator's axes.
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
            if layout != "default" and not _is_order(layout, letters):
                raise BadNode(
                    f"ConvertLayout: {name}: expected an order of the axes {letters}, which may "
                    f"have blocks such as {letters}4{letters[1].lower()}, or 'default', found "
                    f"{shown(layout)}"
                )
        if not 1 <= len(layouts) <= max(2, len(sets)):
            raise BadNode(
                f"ConvertLayout: {name}: expected one or two layouts, of the data and of the "
                f"weights, found {shown(list(layouts))}"
            )
        found[name] = layouts
    return found


def _is_order(layout: object, letters: str) -> bool:
    """Return whether a layout has each axis of ``letters`` once, then blocks of some axes."""
    found = (
        re.fullmatch(r"([A-Z]+)((?:[1-9]\d{0,3}[a-z])*)", layout)
        if isinstance(layout, str)
        else None
    )
    if found is None or sorted(found[1]) != sorted(letters):
        return False
    blocks = re.sub(r"\d", "", found[2]).upper()
    return len(set(blocks)) == len(blocks) and set(blocks) <= set(letters)


class _Converter:
    """Conversion of one function.

    ``key`` names the operator attribute that holds registered functions; empty if none are used.
    """

    def __init__(
        self, func: Function, desired: Mapping[str, tuple[str, ...]], key: str = ""
    ) -> None:
        self.func, self.desired, self.key = func, desired, key
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
        altered = self._altered(before, made) if self.key else None
        if altered is not None:
            return altered
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
        """Return the value of ``node`` in a layout."""
        if layout.was == layout.now:
            return self.plain[node]
        made, found = self.laid.get(node, (None, None))
        if made is not None and found == layout:
            return made
        key = (self.plain[node], layout)
        if key not in self.turned:
            self.turned[key] = _turned(key[0], layout)
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
        attrs.update({key: now}, **({"out_layout": ""} if "out_layout" in attrs else {}))
        if weighted:
            attrs["kernel_layout"] = self._kernel(before, now)
        return self._relaid(before, made, Call(before.op, made.args, attrs, (), before.span))

    def _altered(self, before: Call, made: Call) -> Expr | None:
        """Return the result of the operator's registered function; None to keep the call."""
        rule = ENTRIES[0](op_name(before)).get_attr(self.key)
        if rule is None:
            return None
        types = [self.types.of(a) for a in before.args]
        attrs = NamedAttrs(attrs_of(before))
        new = rule(attrs, list(made.args), types, self.types.of(before))
        if new is None:
            return None
        if not isinstance(new, Call):
            raise BadNode(
                f"{op_name(before)}: {self.key}: expected a call or None from the registered "
                f"function, found {shown(new)}"
            )
        return self._relaid(before, made, new)

    def _relaid(self, before: Call, made: Call, new: Call) -> Expr:
        """Return ``new``, which replaces ``made``, with operands in the layouts that it reads.

        The result has the layout of the original program. Returns ``made`` if blocks of a layout do
        not divide the dims.
        """
        old, attrs = attrs_of(before), attrs_of(new)
        key = "data_layout" if "data_layout" in old else "layout"
        if key not in old or key not in attrs:
            return new
        data = Layout(old[key], attrs[key])
        out = Layout(old.get("out_layout") or old[key], attrs.get("out_layout") or attrs[key])
        images, weights = _OPERANDS.get(op_name(before), ((0,), ()))
        places = dict.fromkeys(images, data)
        if weights:
            places |= dict.fromkeys(weights, Layout(old["kernel_layout"], attrs["kernel_layout"]))
        shapes = {k: self.types.tensor(before.args[k]) for k in places}
        fit = all(p.fits(None if (t := shapes[k]) is None else t.shape) for k, p in places.items())
        result = self.types.tensor(before)
        if not fit or not out.fits(None if result is None else result.shape):
            return made
        args = list(new.args)
        for k, place in places.items():
            same = args[k] is made.args[k]
            args[k] = self._in(before.args[k], place) if same else _turned(args[k], place)
        call = Call(new.op, args, attrs, (), before.span)
        return call if out.was == out.now else self._keep(before, call, out)

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

    # -- operators after converted ones

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
        whole = self.types.tensor(before)
        if not layout.fits(None if whole is None else whole.shape):
            return None
        args: list[Expr] = []
        for arg, rank in zip(before.args, ranks, strict=True):
            wide = self._broadcast(arg, rank or 0, layout)
            if wide is None:
                return None
            args.append(wide)
        return Call(before.op, args, before.attrs, (), before.span), layout

    def _broadcast(self, arg: Expr, rank: int, layout: Layout) -> Expr | None:
        """Return an operand in a layout, with leading axes of length 1 up to the layout's rank.

        Returns None if its dims are not multiples of the blocks.
        """
        missing = len(layout.was) - rank
        if rank == 0:
            return self.plain[arg]
        found = self.types.tensor(arg)
        dims = () if found is None else (*(1,) * missing, *found.shape)
        ones = {c for c in layout.blocks if dims and dims[layout.was.index(c)] == 1}
        if ones:  # an axis of length 1 has a block of one element
            blocks = "".join(
                f"{1 if c in ones else n}{c.lower()}" for c, n in layout.blocks.items()
            )
            layout = Layout(layout.was, re.sub(r"\d.*", "", layout.now) + blocks)
        if not layout.fits(dims):
            return None
        if missing == 0:
            return self._in(arg, layout)
        wide = op_call("expand_dims", self.plain[arg], axis=0, num_newaxis=missing)
        return _turned(wide, layout)

    def _first(self, before: Call, **attrs: object) -> tuple[Call, Layout] | None:
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
        axis = None if layout is None else layout.axis(attrs_of(before)["axis"])
        return None if axis is None else self._first(before, axis=axis)

    def _reduced(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        layout, attrs = self._of(before.args[0]), attrs_of(before)
        if layout is None or attrs["axis"] is None:
            return None
        given = attrs["axis"] if isinstance(attrs["axis"], tuple | list) else (attrs["axis"],)
        moved = [layout.axis(a) for a in given]
        axes = sorted(a for a in moved if a is not None)
        split = len(axes) < len(moved)
        if split or (layout.blocks and (attrs["exclude"] or not attrs["keepdims"])):
            return None
        found = self._first(before, axis=tuple(axes))
        gone = {layout.axes[a] for a in axes} ^ (set(layout.now) if attrs["exclude"] else set())
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
        types = [self.types.tensor(f) for f in fields]
        if not all(layout.fits(None if t is None else t.shape) for t in types):
            return None
        parts = Tuple(tuple(self._in(f, layout) for f in fields))
        letter = layout.was[attrs_of(before)["axis"] % len(layout.was)]
        attrs = {**attrs_of(before), "axis": layout.axes.index(letter)}
        return Call(before.op, [parts], attrs, (), before.span), layout

    def _padded(self, before: Call, made: Call) -> tuple[Call, Layout | None] | None:
        layout = self._of(before.args[0])
        widths = attrs_of(before)["pad_width"]
        if layout is None or any(any(widths[layout.was.index(c)]) for c in layout.blocks):
            return None
        by_letter = dict(zip(layout.was, widths, strict=True))
        return self._first(before, pad_width=[by_letter.get(c, (0, 0)) for c in layout.axes])


_Rule = Callable[[_Converter, Call, Call], "tuple[Call, Layout | None] | None"]
_RULES: tuple[tuple[frozenset[str], _Rule], ...] = (
    (_LAID, _Converter._with_layout),
    (_AXIS | {"nn.batch_norm"}, _Converter._with_axis),
    (_REDUCED, _Converter._reduced),
    (frozenset(["concatenate"]), _Converter._concatenated),
    (frozenset(["nn.pad"]), _Converter._padded),
)


def _turned(expr: Expr, layout: Layout) -> Expr:
    """Return ``expr``, which has the layout of the program, in a new layout."""
    if layout.was == layout.now:
        return expr
    return op_call("layout_transform", expr, src_layout=layout.was, dst_layout=layout.now)


def alter_op_layout(func: Function) -> Expr:
    """Return ``func`` with calls replaced by results of the functions registered for operators."""
    return _Converter(func, {}, "FTVMAlterOpLayout").run()


def convert_layout(func: Function, desired: Mapping[str, tuple[str, ...]]) -> Expr:
    """Return ``func`` with the operators of ``desired``, and their users, in other layouts."""
    return _Converter(func, desired).run()


__all__ = ["LayoutConfig", "alter_op_layout", "check_layouts", "convert_layout"]
