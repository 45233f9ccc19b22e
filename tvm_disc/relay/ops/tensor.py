"""Rows of element-wise operators of one operand."""

from __future__ import annotations

import numpy as np

from tvm_disc.relay.ops.references import elementwise as ref

from .row import REQUIRED, OpRow, Pattern, Sample

_UNARY = (Sample((("n", 3, "float32"),), ("n", 3)),)
_UNIT = (Sample((("n", 3, "float32"),), ("n", 3), ranges={0: (-0.9, 0.9)}),)
_POSITIVE = (Sample((("n", 3, "float32"),), ("n", 3), ranges={0: (0.1, 4.0)}),)
_ABOVE_ONE = (Sample((("n", 3, "float32"),), ("n", 3), ranges={0: (1.1, 4.0)}),)
_INT1 = (Sample((("n", 3, "int32"),), ("n", 3)),)
_BOOL1 = (Sample((("n", 3, "bool"),), ("n", 3)),)

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "abs", ("data",), {}, Pattern.ELEMWISE, False, reference=ref.unary(np.abs), samples=_UNARY
    ),
    OpRow(
        "acos",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.arccos),
        samples=_UNIT,
    ),
    OpRow(
        "acosh",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.arccosh),
        samples=_ABOVE_ONE,
    ),
    OpRow(
        "asin",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.arcsin),
        samples=_UNIT,
    ),
    OpRow(
        "asinh",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.arcsinh),
        samples=_UNARY,
    ),
    OpRow(
        "atan",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.arctan),
        samples=_UNARY,
    ),
    OpRow(
        "atanh",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.arctanh),
        samples=_UNIT,
    ),
    OpRow(
        "bitwise_not",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.invert),
        samples=_INT1,
    ),
    OpRow(
        "ceil", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.unary(np.ceil), samples=_UNARY
    ),
    OpRow(
        "clip",
        ("a",),
        {"a_min": REQUIRED, "a_max": REQUIRED},
        Pattern.ELEMWISE,
        True,
        reference=ref.clip,
        samples=(Sample((("n", 3, "float32"),), ("n", 3), {"a_min": -0.5, "a_max": 0.5}),),
    ),
    OpRow(
        "copy", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.unary(np.copy), samples=_UNARY
    ),
    OpRow(
        "cos", ("data",), {}, Pattern.ELEMWISE, False, reference=ref.unary(np.cos), samples=_UNARY
    ),
    OpRow(
        "cosh", ("data",), {}, Pattern.ELEMWISE, False, reference=ref.unary(np.cosh), samples=_UNARY
    ),
    OpRow("erf", ("data",), {}, Pattern.ELEMWISE, False, reference=ref.erf, samples=_UNARY),
    OpRow(
        "exp", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.unary(np.exp), samples=_UNARY
    ),
    OpRow("fast_erf", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.erf, samples=_UNARY),
    OpRow(
        "fast_exp",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.exp),
        samples=_UNARY,
    ),
    OpRow(
        "fast_tanh",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.tanh),
        samples=_UNARY,
    ),
    OpRow(
        "floor",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.floor),
        samples=_UNARY,
    ),
    OpRow(
        "isfinite",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.predicate(np.isfinite),
        samples=_UNARY,
    ),
    OpRow(
        "isinf",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.predicate(np.isinf),
        samples=_UNARY,
    ),
    OpRow(
        "isnan",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.predicate(np.isnan),
        samples=_UNARY,
    ),
    OpRow(
        "log", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.unary(np.log), samples=_POSITIVE
    ),
    OpRow(
        "log10",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.log10),
        samples=_POSITIVE,
    ),
    OpRow(
        "log2",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.log2),
        samples=_POSITIVE,
    ),
    OpRow(
        "logical_not",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.logical_not),
        samples=_BOOL1,
    ),
    OpRow(
        "ndarray_size",
        ("data",),
        {"dtype": ""},
        Pattern.INJECTIVE,
        False,
        reference=ref.ndarray_size,
        samples=(Sample((("n", 3, "float32"),), (), {"dtype": "int64"}),),
    ),
    OpRow(
        "negative",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.negative),
        samples=_UNARY,
    ),
    OpRow(
        "ones_like",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.ones_like),
        samples=_UNARY,
    ),
    OpRow(
        "round",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.round_half_away,
        samples=_UNARY,
    ),
    OpRow(
        "rsqrt",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(lambda x: 1 / np.sqrt(x)),
        samples=_POSITIVE,
    ),
    OpRow(
        "shape_of",
        ("data",),
        {"dtype": ""},
        Pattern.OPAQUE,
        False,
        reference=ref.shape_of,
        samples=(Sample((("n", 3, "float32"),), (2,), {"dtype": "int64"}),),
    ),
    OpRow("sigmoid", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.sigmoid, samples=_UNARY),
    OpRow(
        "sign", ("data",), {}, Pattern.ELEMWISE, False, reference=ref.unary(np.sign), samples=_UNARY
    ),
    OpRow(
        "sin", ("data",), {}, Pattern.ELEMWISE, False, reference=ref.unary(np.sin), samples=_UNARY
    ),
    OpRow(
        "sinh", ("data",), {}, Pattern.ELEMWISE, False, reference=ref.unary(np.sinh), samples=_UNARY
    ),
    OpRow(
        "sqrt",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.sqrt),
        samples=_POSITIVE,
    ),
    OpRow(
        "tan", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.unary(np.tan), samples=_UNARY
    ),
    OpRow(
        "tanh", ("data",), {}, Pattern.ELEMWISE, True, reference=ref.unary(np.tanh), samples=_UNARY
    ),
    OpRow(
        "trunc",
        ("data",),
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.unary(np.trunc),
        samples=_UNARY,
    ),
    OpRow(
        "zeros_like",
        ("data",),
        {},
        Pattern.ELEMWISE,
        True,
        reference=ref.unary(np.zeros_like),
        samples=_UNARY,
    ),
)
