"""``ToMixedPrecision``: what gains by a narrow float is computed in it, the rest stays.

Three kinds: products always are narrow, what only moves or compares numbers follows its operands,
and what loses by it (exponentials, sums, norms) never is.
"""

from __future__ import annotations

import warnings

from tvm_disc.errors import BadNode, Unsupported, shown

from ..dataflow_pattern.known_types import KnownTypes
from ..expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from ..types import TensorType, TupleType, Type
from ..visit import children, post_order, with_children
from .rules import attrs_of, op_call, op_name, row_of

ALWAYS = frozenset(
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose "
    "nn.dense nn.batch_matmul nn.matmul".split()
)
FOLLOW = frozenset(
    "abs add broadcast_to broadcast_to_like ceil clip concatenate copy divide equal expand_dims "
    "floor full full_like gather gather_nd greater greater_equal image.resize1d image.resize2d "
    "image.resize3d layout_transform less less_equal logical_and logical_not logical_or max "
    "maximum mean min minimum multiply negative nn.adaptive_avg_pool2d nn.adaptive_max_pool2d "
    "nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.batch_flatten nn.batch_to_space_nd nn.bias_add "
    "nn.depth_to_space nn.dropout nn.fast_softmax nn.global_avg_pool2d nn.global_max_pool2d "
    "nn.leaky_relu nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.pad nn.prelu nn.relu "
    "nn.space_to_batch_nd nn.space_to_depth nn.upsampling not_equal ones_like repeat reshape "
    "reshape_like reverse round scatter_elements sequence_mask sigmoid slice_like split squeeze "
    "stack strided_slice subtract take tanh tile transpose trunc where zeros_like".split()
)
NEVER = frozenset(
    "arange argmax argmin argsort cos cosh cumprod cumsum dyn.full erf exp fast_exp fast_erf log "
    "log10 log2 logsumexp nn.batch_norm nn.cross_entropy nn.group_norm nn.instance_norm "
    "nn.l2_normalize nn.layer_norm nn.log_softmax nn.lrn nn.nll_loss nn.softmax ones power prod "
    "rsqrt sin sinh sqrt std sum tan topk variance vision.get_valid_counts "
    "vision.non_max_suppression zeros".split()
)
# An accumulator of products is as wide as the result unless told: it is narrow here, as in Relay.
FLOATS = ("float16", "float32", "bfloat16")


class _Caster:
    """One function, rewritten operands first; the new type of every value is kept."""

    def __init__(self, func: Function, dtype: str, missing: int) -> None:
        self.func, self.narrow, self.missing = func, dtype, missing
        self.types = KnownTypes(func)
        self.made: dict[Expr, Expr] = {}
        self.dtypes: dict[Expr, str | None] = {}
        self.casts: dict[tuple[Expr, str], Expr] = {}

    def run(self) -> Expr:
        """The rewritten function."""
        order = post_order(self.func)
        named: dict[Expr, list[Var]] = {}
        for let in order:
            if isinstance(let, Let):
                named.setdefault(let.value, []).append(let.var)
        for node in order:
            if isinstance(node, Let):
                self._let(node)
                continue
            parts = tuple(self.made[c] for c in children(node))
            self.made[node] = self._node(node, parts)
            for var in named.get(node, ()):
                self._name(var, node)
        return self.made[self.func]

    def _name(self, var: Var, value: Expr) -> None:
        """A variable has the type of its value now, before its uses are looked at."""
        self.dtypes[var], known = self.dtypes.get(value), var.type_annotation
        if isinstance(known, TensorType) and self.dtypes[var] not in (None, known.dtype):
            typed = TensorType(known.shape, str(self.dtypes[var]))
            self.made[var] = Var(var.name_hint, typed, var.span)

    def _let(self, let: Let) -> None:
        value = self.made[let.value]
        var = self.made[let.var]
        assert isinstance(var, Var)
        self.made[let] = Let(var, value, self.made[let.body], let.span)
        self.dtypes[let] = self.dtypes.get(let.body)

    def _node(self, node: Expr, parts: tuple[Expr, ...]) -> Expr:
        if isinstance(node, Call) and row_of(node) is not None:
            return self._call(node)
        self.dtypes[node] = self._of(node)
        return with_children(node, parts) if parts else node

    def _of(self, node: Expr) -> str | None:
        """The float that a value is now, if it is one; a tuple has that of all its fields."""
        if isinstance(node, Tuple):
            found = {self.dtypes[f] for f in node.fields} - {None}
            return found.pop() if len(found) == 1 else None
        if isinstance(node, TupleGetItem):
            whole = node.tuple_value
            part = whole.fields[node.index] if isinstance(whole, Tuple) else whole
            return self.dtypes[part] if _is_float(self.types.of(node)) else None
        if isinstance(node, If):
            return self.dtypes[node.true_branch]
        return _float_of(self.types.of(node))

    def _call(self, call: Call) -> Expr:
        name = op_name(call)
        if name == "cast":
            return self._cast(call)
        goes_narrow = name in ALWAYS or (name in FOLLOW and self._follows(call))
        if name not in ALWAYS | FOLLOW | NEVER:
            self._unknown(name)
        wanted = self.narrow if goes_narrow else "float32"
        args = tuple(self._as(arg, wanted) for arg in call.args)
        attrs = attrs_of(call)
        if goes_narrow and "out_dtype" in attrs:
            attrs["out_dtype"] = self.narrow
        if goes_narrow and attrs.get("dtype") == "float32":
            attrs["dtype"] = self.narrow
        result = _float_of(self.types.of(call)) or _first_float(self.types.of(call))
        self.dtypes[call] = wanted if result in FLOATS else result
        return Call(call.op, args, attrs, (), call.span)

    def _cast(self, call: Call) -> Expr:
        dtype = attrs_of(call)["dtype"]
        self.dtypes[call] = dtype if dtype.startswith(("float", "bfloat")) else None
        data = self.made[call.args[0]]
        return data if self.dtypes[call.args[0]] == dtype else with_children(call, (call.op, data))

    def _follows(self, call: Call) -> bool:
        """Whether an operand is narrow already, or all floats may be made so."""
        floats = [self.dtypes[a] for a in call.args if self.dtypes[a] is not None]
        if self.narrow in floats:
            return all(f in FLOATS for f in floats)
        return bool(floats) and all(self._may_narrow(a) for a in call.args)

    def _may_narrow(self, arg: Expr) -> bool:
        """Whether nothing computed this value in the wide float on purpose."""
        return self.dtypes[arg] in (None, *FLOATS) and op_name(arg) not in NEVER | {"cast"}

    def _as(self, arg: Expr, dtype: str) -> Expr:
        """An operand in the float that is wanted; what is no float stays."""
        made, found = self.made[arg], self.dtypes[arg]
        if isinstance(arg, Tuple):
            fields = tuple(self._as(f, dtype) for f in arg.fields)
            return with_children(arg, fields)
        if found == dtype or found not in FLOATS:
            return made
        key = (made, dtype)
        if key not in self.casts:
            self.casts[key] = op_call("cast", made, dtype=dtype)
        return self.casts[key]

    def _unknown(self, name: str) -> None:
        told = f"ToMixedPrecision: '{name}' is in no list of operators that gain or lose by it"
        if self.missing == 0:
            raise Unsupported(f"{told}; missing_op_mode=1 leaves it wide and warns, 2 is silent")
        if self.missing == 1:
            warnings.warn(f"{told}; it stays in float32", stacklevel=2)


def _is_float(found: Type | None) -> bool:
    return isinstance(found, TensorType) and found.dtype.startswith(("float", "bfloat"))


def _float_of(found: Type | None) -> str | None:
    return found.dtype if isinstance(found, TensorType) and _is_float(found) else None


def _first_float(found: Type | None) -> str | None:
    if not isinstance(found, TupleType):
        return None
    return next((f for f in map(_float_of, found.fields) if f is not None), None)


def to_mixed_precision(func: Function, dtype: str, missing: int) -> Expr:
    """Products in ``dtype``, and what follows them."""
    if dtype not in ("float16", "bfloat16"):
        raise BadNode(f"ToMixedPrecision: expected float16 or bfloat16, found {shown(dtype)}")
    if missing not in (0, 1, 2):
        raise BadNode(
            f"ToMixedPrecision: expected a missing_op_mode of 0, 1 or 2, found {shown(missing)}"
        )
    return _Caster(func, dtype, missing).run()


__all__ = ["to_mixed_precision"]
