"""Counts over a program: calls, layers, multiplications."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tvm_disc.errors import BadNode, TypeMismatch, counted, parts_of, shown
from tvm_disc.relay.expr import Call, Constant, Expr, Op, as_expr
from tvm_disc.relay.module import IRModule
from tvm_disc.relay.types import TensorType
from tvm_disc.relay.visit import children, post_order


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return the number of calls of each operator."""
    found: dict[str, int] = {}
    for call in _calls(mod):
        found[_name(call)] = found.get(_name(call), 0) + 1
    return found


def list_fake_quantized_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return the number of calls of each operator between ``qnn.dequantize`` and
    ``qnn.quantize``.
    """
    found: dict[str, int] = {}
    done: set[int] = set()
    for end in _calls(mod):
        stack = [end.args[0]] if _name(end) == "qnn.quantize" else []
        region: list[Call] = []
        while stack:
            top = stack.pop()
            if id(top) in done:
                continue
            done.add(id(top))
            if isinstance(top, Call) and isinstance(top.op, Op):
                if _name(top) == "qnn.dequantize":
                    continue
                region.append(top)
                stack.extend(top.args)
            else:
                stack.extend(children(top))
        for call in region:
            found[_name(call)] = found.get(_name(call), 0) + 1
    return found


def count_layers(expr: Expr | IRModule, valid_ops: Sequence[str]) -> int:
    """Return the number of ``valid_ops`` calls on the longest path of an expression or of
    ``main``.
    """
    expr = expr["main"] if isinstance(expr, IRModule) else expr
    valid_ops = parts_of("count_layers: valid_ops", valid_ops)
    depth: dict[int, int] = {}
    last = 0
    for node in post_order(as_expr(expr)):
        below = max((depth[id(c)] for c in children(node)), default=0)
        own = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in valid_ops
        last = depth[id(node)] = below + own
    return last


def get_total_mac_number(expr: Expr) -> int:
    """Return the number of multiplications in the convolutions and matmuls of an
    expression.

    Raises:
        TypeMismatch: the types have not been inferred, or a dim is unknown.
    """
    total = 0
    for node in post_order(as_expr(expr)):
        if isinstance(node, Call) and _is_operator(node):
            total += _MACS.get(_name(node), _no_macs)(node)
    return total


def extract_intermediate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """Return a module whose ``main`` computes call number ``expr_id``, counted from 0 in
    post-order.

    Raises:
        TypeMismatch: there is no such call.
    """
    _check_module(mod)
    if not isinstance(expr_id, int):
        raise BadNode(f"expr_id: expected the number of a call, found {shown(expr_id)}")
    calls = [e for e in post_order(mod["main"].body) if isinstance(e, Call)]
    if not 0 <= expr_id < len(calls):
        raise TypeMismatch(
            f"expr_id: there is no call {expr_id} (counted from 0) in @main, which has "
            f"{counted(len(calls), 'call')}"
        )
    made = mod.copy()
    made["main"] = IRModule.from_expr(calls[expr_id])["main"]
    return made


def search_fc_transpose(expr: Expr) -> list[str]:
    """Return the names of weights that an ``nn.dense`` reads through a transpose."""
    found: list[str] = []
    for node in post_order(as_expr(expr)):
        if isinstance(node, Call) and _is_operator(node) and _name(node) == "nn.dense":
            weight = node.args[1]
            if isinstance(weight, Call) and _is_operator(weight) and _name(weight) == "transpose":
                name = getattr(weight.args[0], "name_hint", None)
                if name is not None:
                    found.append(name)
    return list(dict.fromkeys(found))


def _calls(mod: IRModule) -> list[Call]:
    _check_module(mod)
    order = post_order(*mod.functions.values())
    return [e for e in order if isinstance(e, Call) and _is_operator(e)]


def _check_module(mod: object) -> None:
    if not isinstance(mod, IRModule):
        raise BadNode(f"mod: expected a relay.IRModule, found {shown(mod)}")


def _is_operator(call: Call) -> bool:
    return isinstance(call.op, Op)


def _name(call: Call) -> str:
    assert isinstance(call.op, Op)
    return call.op.name


def _shape(expr: Expr, call: Call) -> tuple[int, ...]:
    if isinstance(expr, Constant):
        return expr.data.shape
    found = expr._checked_type
    if not isinstance(found, TensorType):
        raise TypeMismatch(
            f"{_name(call)}: the type of an operand is not known; run "
            "relay.transform.InferType() over the module first"
        )
    return found.concrete_shape


def _no_macs(call: Call) -> int:
    return 0


def _conv_macs(call: Call) -> int:
    """Return the number of multiplications of a convolution: the elements of the result times the
    kernel elements of one output channel.
    """
    layout, kernel = call.attrs["kernel_layout"], _shape(call.args[1], call)
    per_output = math.prod(n for c, n in zip(layout, kernel, strict=True) if c != "O")
    return math.prod(_shape(call, call)) * per_output


def _conv_transpose_macs(call: Call) -> int:
    data = _shape(call.args[0], call)
    channels = data[str(call.attrs["data_layout"]).index("C")]
    layout, kernel = call.attrs["kernel_layout"], _shape(call.args[1], call)
    window = math.prod(n for c, n in zip(layout, kernel, strict=True) if c not in "IO")
    groups = int(call.attrs["groups"])
    return math.prod(_shape(call, call)) * (channels // groups) * window


def _product_macs(call: Call) -> int:
    data = _shape(call.args[0], call)
    inner = data[-2 if call.attrs.get("transpose_a") else -1]
    return math.prod(_shape(call, call)) * inner


_MACS: Mapping[str, Callable[[Call], int]] = {
    "nn.conv2d": _conv_macs,
    "nn.conv2d_transpose": _conv_transpose_macs,
    "nn.dense": _product_macs,
    "nn.batch_matmul": _product_macs,
}

__all__ = [
    "count_layers",
    "extract_intermediate_expr",
    "get_total_mac_number",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "search_fc_transpose",
]
