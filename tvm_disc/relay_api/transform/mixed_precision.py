"""``ToMixedPrecision``: compute matmuls and the operators after them in a different float type.

Every operator is of one of three kinds, as in Relay: ALWAYS (matmuls, convolutions) runs in the
wanted type, NEVER (exponentials, large sums, norms) runs in float32, FOLLOW runs in the wanted type
if every float operand already has it, or is a variable or a constant.
"""

from __future__ import annotations

import warnings

from tvm_disc.errors import BadNode, Unsupported, shown
from tvm_disc.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    Op,
    Tuple,
    TupleGetItem,
    Var,
)
from tvm_disc.relay.types import TensorType, TupleType, Type
from tvm_disc.relay.visit import children, post_order, with_children
from tvm_disc.relay_api.dataflow_pattern.known_types import KnownTypes
from tvm_disc.relay_api.transform.rules import attrs_of, op_call, op_name, row_of

ALWAYS = frozenset(
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose "
    "nn.dense nn.batch_matmul nn.matmul".split()
)
FOLLOW = frozenset(
    "abs add argmax argmin argwhere broadcast_to broadcast_to_like cast cast_like ceil clip "
    "concatenate copy divide dyn.broadcast_to dyn.full dyn.reshape dyn.strided_slice dyn.tile "
    "equal expand_dims fast_erf fast_exp fast_tanh floor full full_like gather gather_nd greater "
    "greater_equal image.resize1d image.resize2d image.resize3d layout_transform less less_equal "
    "logical_and logical_not logical_or max maximum min minimum multiply negative "
    "nn.adaptive_max_pool1d nn.adaptive_max_pool2d nn.adaptive_max_pool3d nn.avg_pool1d "
    "nn.avg_pool2d nn.avg_pool3d nn.batch_flatten nn.batch_norm nn.batch_to_space_nd nn.bias_add "
    "nn.depth_to_space nn.dropout nn.fast_softmax nn.global_max_pool2d nn.leaky_relu "
    "nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.pad nn.prelu nn.relu nn.space_to_batch_nd "
    "nn.space_to_depth nn.upsampling not_equal ones ones_like repeat reshape reshape_like reverse "
    "round scatter scatter_elements scatter_nd sequence_mask shape_of sigmoid slice_like split "
    "sqrt squeeze stack strided_slice subtract take tanh tile transpose trunc where zeros "
    "zeros_like".split()
)
NEVER = frozenset(
    "arange argsort cos cosh cumprod cumsum erf exp log log10 log2 logsumexp mean "
    "nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.cross_entropy "
    "nn.cross_entropy_with_logits nn.global_avg_pool1d nn.global_avg_pool2d nn.global_avg_pool3d "
    "nn.group_norm nn.instance_norm nn.l2_normalize nn.layer_norm nn.log_softmax nn.lrn "
    "nn.nll_loss nn.softmax power prod rsqrt sin sinh std sum tan topk variance "
    "vision.get_valid_counts vision.non_max_suppression".split()
)
FLOATS = ("float16", "float32", "bfloat16")
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895314e38, "float64": float("inf")}


class _Caster:
    """Rewriter of one function, in post-order; ``dtypes`` has the new float type of every value."""

    def __init__(self, func: Function, dtype: str, missing: int) -> None:
        self.func, self.narrow, self.missing = func, dtype, missing
        self.floats = {*FLOATS, dtype}
        self.types = KnownTypes(func)
        self.made: dict[Expr, Expr] = {}
        self.dtypes: dict[Expr, str | None] = {}
        self.casts: dict[tuple[Expr, str], Expr] = {}
        self.inner: set[Expr] = set()  # functions whose signature must not change

    def run(self, keep_result: bool) -> Expr:
        """Return the rewritten function; with ``keep_result``, its result is cast back to its
        original type.
        """
        order = post_order(self.func)
        named: dict[Expr, list[Var]] = {}
        for node in order:
            if isinstance(node, Let):
                named.setdefault(node.value, []).append(node.var)
            if isinstance(node, Function) and (node is not self.func or keep_result):
                self.inner.add(node)
        for node in order:
            self.made[node] = self._node(node)
            for var in named.get(node, ()):
                self._name(var, node)
        return self.made[self.func]

    def _type(self, node: Expr) -> Type | None:
        """Return the type that ``node`` had before the rewrite; None if unknown."""
        return node._checked_type or self.types.of(node)

    def _name(self, var: Var, value: Expr) -> None:
        """Set the type of a let variable to its value's new type, before its uses are rewritten."""
        before, known = self.dtypes.get(var), var.type_annotation
        self.dtypes[var] = self.dtypes.get(value)
        if known is None or self.dtypes[var] in (None, before):
            return
        typed = None
        if isinstance(known, TensorType):
            typed = TensorType(known.shape, str(self.dtypes[var]))
        self.made[var] = Var(var.name_hint, typed, var.span)

    def _node(self, node: Expr) -> Expr:
        if isinstance(node, Call) and isinstance(node.op, Op) and row_of(node) is not None:
            return self._call(node)
        self.dtypes[node] = self._of(node)
        if isinstance(node, Function):
            body = self._back(node.body) if node in self.inner else self.made[node.body]
            result = node.ret_type if node in self.inner else None
            params = [p for p in map(self.made.get, node.params) if isinstance(p, Var)]
            return Function(params, body, result, node.type_params, node.attrs, node.span)
        if isinstance(node, Let | Tuple | TupleGetItem) or self._joins(node):
            return with_children(node, [self.made[c] for c in children(node)])
        return with_children(node, [self._back(c) for c in children(node)])

    def _joins(self, node: Expr) -> bool:
        """Return whether a node is an If whose branches have the same new float type, so that they
        are not cast.
        """
        if not isinstance(node, If):
            return False
        yes, no = self.dtypes[node.true_branch], self.dtypes[node.false_branch]
        return yes is not None and yes == no

    def _of(self, node: Expr) -> str | None:
        """Return the new float type of a node that is not an operator call; None if not a float."""
        if isinstance(node, Let):
            return self.dtypes[node.body]
        if isinstance(node, Tuple):
            found = {self.dtypes[f] for f in node.fields} - {None}
            return found.pop() if len(found) == 1 else None
        if isinstance(node, TupleGetItem):
            whole = node.tuple_value
            part = whole.fields[node.index] if isinstance(whole, Tuple) else whole
            return self.dtypes[part] if _is_float(self._type(node)) else None
        if isinstance(node, If):
            yes, no = self.dtypes[node.true_branch], self.dtypes[node.false_branch]
            if yes == no and _is_float(self._type(node)):
                return yes
        return _float_of(self._type(node))

    def _call(self, call: Call) -> Expr:
        name = op_name(call)
        if name == "cast":
            return self._cast(call)
        if name not in ALWAYS | FOLLOW | NEVER:
            self._unknown(name)
        attrs = attrs_of(call)
        narrow = name in ALWAYS or (name not in NEVER and all(map(self._follows, call.args)))
        narrow = narrow and (name != "clip" or self._in_range(attrs["a_min"], attrs["a_max"]))
        wanted = self.narrow if narrow else "float32"
        if narrow and str(attrs.get("out_dtype", "int")) in ("", "void", *self.floats):
            attrs["out_dtype"] = self.narrow
        if narrow and attrs.get("dtype") == "float32":
            attrs["dtype"] = self.narrow
        result = _float_of(self._type(call)) or _first_float(self._type(call))
        self.dtypes[call] = wanted if result in self.floats else result
        return Call(call.op, [self._as(a, wanted) for a in call.args], attrs, (), call.span)

    def _in_range(self, *bounds: float) -> bool:
        """Return whether the wanted type holds all of ``bounds``."""
        return all(abs(b) <= _LARGEST[self.narrow] for b in bounds)

    def _cast(self, call: Call) -> Expr:
        dtype = attrs_of(call)["dtype"]
        self.dtypes[call] = dtype if dtype.startswith(("float", "bfloat")) else None
        data = self.made[call.args[0]]
        return data if self.dtypes[call.args[0]] == dtype else with_children(call, (call.op, data))

    def _follows(self, arg: Expr) -> bool:
        """Return whether a FOLLOW operator can run in the wanted type with this operand."""
        made = self.made[arg]
        if isinstance(arg, Tuple):
            return all(self._floats_narrow(f) for f in arg.fields)
        return isinstance(made, Var | Constant) or self._floats_narrow(arg)

    def _floats_narrow(self, arg: Expr) -> bool:
        if isinstance(arg, Tuple):
            return all(map(self._floats_narrow, arg.fields))
        return self.dtypes[arg] in (None, self.narrow)

    def _as(self, arg: Expr, dtype: str) -> Expr:
        """Return an operand with its floats cast to ``dtype``."""
        made, found = self.made[arg], self.dtypes[arg]
        if isinstance(arg, Tuple) and isinstance(made, Tuple):
            return with_children(made, [self._as(f, dtype) for f in arg.fields])
        if found == dtype or found not in self.floats:
            return made
        before = self._type(arg)
        if isinstance(before, TupleType):
            items = [TupleGetItem(made, i) for i in range(len(before.fields))]
            return Tuple(
                tuple(
                    self._cached(item, found, dtype) if _is_float(t) else item
                    for item, t in zip(items, before.fields, strict=True)
                )
            )
        return self._cached(made, found, dtype)

    def _cached(self, made: Expr, found: str, dtype: str) -> Expr:
        """Return ``made`` cast to ``dtype``, one cast per value and type.

        A cast back to ``found``, the type of ``made``, returns ``made``.
        """
        if (made, dtype) not in self.casts:
            cast = self.casts[made, dtype] = op_call("cast", made, dtype=dtype)
            self.casts[cast, found] = made
        return self.casts[made, dtype]

    def _back(self, node: Expr) -> Expr:
        """Return the new value cast to its original type, for functions, data types and
        references.
        """
        before = self._type(node)
        if isinstance(node, Tuple) and isinstance(self.made[node], Tuple):
            return with_children(self.made[node], [self._back(f) for f in node.fields])
        wanted = _float_of(before) or _first_float(before)
        return self.made[node] if wanted is None else self._as(node, wanted)

    def _unknown(self, name: str) -> None:
        told = f"ToMixedPrecision: no rule says in which type '{name}' is computed"
        if self.missing == 0:
            raise Unsupported(
                f"{told}; to use the type of its operands, pass missing_op_mode=1 (with a "
                "warning) or 2 (without)"
            )
        if self.missing == 1:
            warnings.warn(f"{told}; the type of its operands is used", stacklevel=2)


def _is_float(found: Type | None) -> bool:
    return isinstance(found, TensorType) and found.dtype.startswith(("float", "bfloat"))


def _float_of(found: Type | None) -> str | None:
    return found.dtype if isinstance(found, TensorType) and _is_float(found) else None


def _first_float(found: Type | None) -> str | None:
    if not isinstance(found, TupleType):
        return None
    return next((f for f in map(_float_of, found.fields) if f is not None), None)


def to_mixed_precision(
    func: Function, dtype: str, missing: int, keep_result: bool = False
) -> Function:
    """Return ``func`` with matmuls, convolutions and the operators after them in ``dtype``.

    ``keep_result`` keeps the type of the result by a cast at the end.

    Raises:
        BadNode: ``dtype`` or ``missing`` is not an accepted value.
        Unsupported: ``missing`` is 0, and an operator has no kind.
    """
    if dtype not in _LARGEST:
        raise BadNode(
            f"ToMixedPrecision: expected float16, bfloat16 or float64, found {shown(dtype)}"
        )
    if missing not in (0, 1, 2):
        raise BadNode(
            f"ToMixedPrecision: expected a missing_op_mode of 0, 1 or 2, found {shown(missing)}"
        )
    made = _Caster(func, dtype, missing).run(keep_result)
    assert isinstance(made, Function)
    return made


__all__ = ["to_mixed_precision"]
