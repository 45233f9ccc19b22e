"""``FakeQuantizationToInteger``: rewrite regions between dequantize and quantize to integers.

A region consists of the operators between one ``qnn.quantize`` and the ``qnn.dequantize`` calls
that it depends on. It is rewritten as a whole, if each of its operators has a rule in
``fake_quantization_rules``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tvm_disc.errors import BadNode, DiscError, Unsupported, shown
from tvm_disc.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.expr_functor import rewrite_post_order
from tvm_disc.relay_api.transform.fake_quantization_rules import (
    OPTIONAL,
    RULES,
    SINGLE,
    AffineType,
    NoRule,
    QuantizedSite,
    Types,
    keeps_range,
    requantized,
)
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name


def fake_quantization_to_integer(
    func: Function, hard_fail: bool, use_qat: bool, optional: Sequence[str]
) -> Expr:
    """Return ``func`` with its fake-quantized regions rewritten to integer operators.

    Raises:
        BadNode: ``optional`` names an operator without an optional rule.
        Unsupported: ``hard_fail`` is set, and an operator of a region has no rule.
    """
    for name in optional:
        if name not in OPTIONAL:
            raise BadNode(
                f"FakeQuantizationToInteger: optional_qnn_ops: expected names among "
                f"{sorted(OPTIONAL)}, found {shown(name)}"
            )
    made = _Rewriter(func, hard_fail, optional).regions()
    if use_qat:
        assert isinstance(made, Function)
        made = _Rewriter(made, False, optional).single_operators()
    return made


class _Rewriter:
    """Rewriter of one function; ``done`` maps each expression to its replacement."""

    def __init__(self, func: Function, hard_fail: bool, optional: Collection[str]) -> None:
        self.func, self.hard_fail = func, hard_fail
        self.rules = {**RULES, **{name: OPTIONAL[name] for name in optional}}
        self.types = KnownTypes(func)
        self.done: dict[Expr, Expr] = {}

    def regions(self) -> Expr:
        """Return the function with every region that ends in a quantize rewritten."""

        def leave(before: Expr, made: Expr) -> Expr:
            if op_name(before) != "qnn.quantize" or not isinstance(before, Call):
                return made
            try:
                return self._region(before) or made
            except NoRule as error:
                if self.hard_fail:
                    raise Unsupported(f"FakeQuantizationToInteger: {error}") from None
                return made

        return rewrite_post_order(self.func, leave, done=self.done)

    def single_operators(self) -> Expr:
        """Return the function with each operator over dequantized operands rewritten separately."""

        def leave(before: Expr, made: Expr) -> Expr:
            if op_name(made) not in SINGLE or not isinstance(made, Call):
                return made
            dequantized = [f for a in made.args for f in _fields(a)]
            if not any(op_name(f) == "qnn.dequantize" for f in dequantized):
                return made
            if not all(isinstance(f, Constant) or _is_dequantize(f) for f in dequantized):
                return made
            try:
                types = KnownTypes(made)
                out, affine = self._call(made, made, self._leaves(made, types), None, False)
            except NoRule:
                return made
            if not isinstance(affine, AffineType):
                return made
            params = (affine.scale, affine.zero_point)
            return op_call("qnn.dequantize", out, *params, axis=affine.axis, out_dtype="float32")

        return rewrite_post_order(self.func, leave)

    def _leaves(self, call: Call, types: KnownTypes) -> dict[Expr, tuple[Expr, Types]]:
        """Return (integer value, quantization parameters) of every operand of one call."""
        found: dict[Expr, tuple[Expr, Types]] = {}
        for arg in call.args:
            fields = [_leaf(f, f, self._dtype(f, types)) for f in _fields(arg)]
            whole = Tuple(tuple(f for f, _ in fields)) if isinstance(arg, Tuple) else fields[0][0]
            kinds = tuple(t for _, t in fields)
            found[arg] = (whole, kinds if isinstance(arg, Tuple) else kinds[0])
        return found

    def _dtype(self, node: Expr, types: KnownTypes) -> str:
        """Return the element type that a dequantize reads; an empty string for other nodes."""
        if not isinstance(node, Call) or op_name(node) != "qnn.dequantize":
            return ""
        data = node.args[0]
        found = types.dtype(data) or getattr(data._checked_type, "dtype", None)
        if found is None:
            raise NoRule(
                "the element type that a qnn.dequantize reads is not known; run "
                "relay.transform.InferType() first"
            )
        return str(found)

    def _region(self, last: Call) -> Expr | None:
        """Return the replacement of a quantize; None if it depends on no dequantize."""
        nodes = _nodes(last.args[0])
        if nodes is None or not any(op_name(n) == "qnn.dequantize" for n in nodes):
            return None
        attrs = attrs_of(last)
        out = AffineType(last.args[1], last.args[2], attrs["out_dtype"], attrs["axis"])
        near = _reaching(last.args[0], nodes)
        values: dict[Expr, tuple[Expr, Types]] = {}
        for node in nodes:
            values[node] = self._node(node, values, out if node in near else None, last)
        value, found = values[last.args[0]]
        if not isinstance(found, AffineType):
            raise NoRule("expected a dequantized value before qnn.quantize, found a tuple")
        return requantized(value, found, out)

    def _node(
        self, node: Expr, values: dict[Expr, tuple[Expr, Types]], out: AffineType | None, last: Call
    ) -> tuple[Expr, Types]:
        if op_name(node) == "qnn.dequantize":
            return _leaf(node, self.done[node], self._dtype(node, self.types))
        if isinstance(node, Constant):
            return node, None
        if isinstance(node, Tuple):
            parts = [values[f] for f in node.fields]
            return Tuple(tuple(v for v, _ in parts)), tuple(t for _, t in parts)
        if isinstance(node, TupleGetItem):
            whole, kinds = values[node.tuple_value]
            if not isinstance(kinds, tuple):
                raise NoRule("expected a tuple of dequantized values")
            return TupleGetItem(whole, node.index), kinds[node.index]
        assert isinstance(node, Call)
        return self._call(node, node, values, out, last.args[0] is node)

    def _call(
        self,
        before: Call,
        call: Call,
        values: dict[Expr, tuple[Expr, Types]],
        out: AffineType | None,
        is_last: bool,
    ) -> tuple[Expr, Types]:
        name = op_name(call)
        if name not in self.rules:
            rules = ", ".join(sorted(self.rules))
            raise NoRule(f"{name} has no quantization rule; operators with a rule: {rules}")
        known = self.types.shape(before) or KnownTypes(before).shape(before)
        shapes = [self.types.shape(a) or KnownTypes(a).shape(a) for a in before.args]
        args = [values[a] for a in call.args]
        try:
            return self.rules[name](QuantizedSite(call, args, shapes, known, out, is_last))
        except DiscError as error:
            text = str(error)
            raise NoRule(text if text.startswith(f"{name}: ") else f"{name}: {text}") from None


def _fields(arg: Expr) -> tuple[Expr, ...]:
    return arg.fields if isinstance(arg, Tuple) else (arg,)


def _is_dequantize(node: Expr) -> bool:
    return op_name(node) == "qnn.dequantize"


def _leaf(before: Expr, made: Expr, dtype: str) -> tuple[Expr, Types]:
    """Return (integers, parameters) of a dequantize; (constant, None) for a constant."""
    if not isinstance(before, Call):
        return made, None
    assert isinstance(made, Call)
    return made.args[0], AffineType(made.args[1], made.args[2], dtype, attrs_of(made)["axis"])


def _nodes(root: Expr) -> list[Expr] | None:
    """Return the nodes of a region, operands first.

    Returns None if a node is no operator call, tuple, projection or constant.
    """
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Call) and isinstance(node.op, Op):
            inside: tuple[Expr, ...] = () if _is_dequantize(node) else node.args
        elif isinstance(node, Tuple):
            inside = node.fields
        elif isinstance(node, TupleGetItem):
            inside = (node.tuple_value,)
        elif isinstance(node, Constant):
            inside = ()
        else:
            return None
        stack.append((node, True))
        stack.extend((part, False) for part in reversed(inside))
    return order


def _reaching(root: Expr, nodes: Sequence[Expr]) -> set[Expr]:
    """Return the nodes whose values reach the quantize through operators that keep their range.

    The parameters of the quantize describe the range of these values only.
    """
    found = {root}
    for node in reversed(nodes):
        if node in found and keeps_range(op_name(node)) and isinstance(node, Call):
            found.update(f for a in node.args for f in _fields(a))
        elif node in found and isinstance(node, TupleGetItem):
            found.add(node.tuple_value)
    return found


__all__ = ["fake_quantization_to_integer"]
