"""Edge cases of indices, integers and sizes."""

from __future__ import annotations

from tests.semantics.corner import Corner

_INDICES = "tests/frontends/torch/test_indices.py"
_TORCH = "tests/semantics/test_edges_torch.py"
_ONNX = "tests/semantics/test_edges_onnx.py"
_RELAY = "tests/semantics/test_edges_relay.py"

ROWS: tuple[Corner, ...] = (
    Corner(
        "embedding, index_select, gather, index, take, scatter, index_add, index_put, one_hot, "
        "nll_loss; Gather*, Scatter*; take, gather, gather_nd, scatter_elements, scatter_nd",
        "an index out of range",
        "PyTorch: `IndexOutside`, unless `check_indices=False`. ONNX: the same with "
        "`check_indices=True`, except GatherND and ScatterND. Otherwise, and in Relay, a read uses "
        "an index in range, a write is skipped. Memory outside the tensor is never accessed",
        (f"{_INDICES}::test_an_index_is_refused_where_eager_refuses_it",
         f"{_INDICES}::test_unchecked_indices_stay_inside_memory",
         f"{_ONNX}::test_indices_outside", f"{_ONNX}::test_indices_outside_are_refused_on_request",
         f"{_RELAY}::test_indices_outside"),
        pytorch="raises",
        onnx="an error; ONNX Runtime raises",
        relay="take: clip, wrap, or undefined (fast); others undefined",
    ),
    Corner(
        "as above",
        "a negative index",
        "as in the source framework; gather_nd and scatters of Relay count from the end",
        (f"{_INDICES}::test_an_index_is_refused_where_eager_refuses_it",
         f"{_ONNX}::test_negative_indices", f"{_RELAY}::test_indices_outside"),
        pytorch="index, index_put, index_fill, take, put, take_along_dim count from the end, "
        "others raise",
        onnx="counts from the end",
        relay="take: depends on its mode",
    ),
    Corner(
        "floor_divide, remainder, fmod, div with rounding; Div, Mod; divide, floor_divide, mod",
        "an integer divided by 0",
        "PyTorch: `DivisionByZero`, unless `check_indices=False`. ONNX: the same with "
        "`check_indices=True`, otherwise 0. Relay: 0",
        (f"{_INDICES}::test_integers_divided_by_zero", f"{_ONNX}::test_integers_by_zero",
         f"{_ONNX}::test_integers_by_zero_are_refused_on_request",
         f"{_RELAY}::test_integers_by_zero"),
        pytorch="raises",
        onnx="undefined; ONNX Runtime ends the process",
        relay="undefined",
    ),
    Corner(
        "floor_divide, div, remainder, fmod; Div, Mod",
        "the minimum of the type divided by -1",
        "wraps; the remainder is 0",
        (f"{_INDICES}::test_the_least_integer_divided_by_minus_one",
         f"{_RELAY}::test_integers_by_zero"),
        pytorch="wraps; fmod and div by truncation end the process",
        onnx="unspecified",
        relay="undefined",
    ),
    Corner(
        "abs, neg, add, sub, mul, sum, cumsum, pow",
        "overflow of integers, abs of the minimum of the type",
        "wraps",
        (f"{_TORCH}::test_integers_at_their_ends", "tests/semantics/test_onnx.py::test_integers"),
        pytorch="wraps",
        onnx="unspecified; ONNX Runtime wraps",
        relay="unspecified; wraps",
    ),
    Corner(
        "pow of integers",
        "a negative exponent",
        "bases 1 and -1 are exact; all others give 0",
        (f"{_TORCH}::test_integers_at_their_ends",),
        pytorch="as tvm_disc for tensors; raises for a literal exponent",
        onnx="unspecified",
        relay="power is defined for floats only",
    ),
    Corner(
        "shifts",
        "by at least the width of the type, or by a negative count",
        "left: 0; right: 0, or -1 for a negative number",
        (f"{_TORCH}::test_integers_at_their_ends",),
        pytorch="left: 0; right: 0 or -1",
        onnx="undefined",
        relay="undefined",
    ),
    Corner(
        "casts of floats to integers",
        "NaN, infinities, values out of the type's range",
        "an arbitrary value of the type; no trap",
        (f"{_TORCH}::test_casts_of_numbers_beyond", f"{_TORCH}::test_casts_of_numbers_inside"),
        pytorch="undefined, depends on the processor",
        onnx="undefined",
        relay="unspecified",
    ),
    Corner(
        "amax, amin, max, min, argmax, argmin; ReduceMax, ReduceMin, ArgMax; max, min, argmax",
        "an empty axis",
        "PyTorch: refused. ONNX, Relay: max is -inf or the minimum of the type, min is inf or "
        "the maximum, positions are 0",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_ONNX}::test_empty_axes",
         f"{_RELAY}::test_empty_axes"),
        pytorch="raises",
        onnx="ReduceMax: -inf or the type's minimum; ReduceMin: the opposite; ArgMax: unspecified",
        relay="unspecified",
    ),
    Corner(
        "sum, prod, any, all, mean, var, logsumexp, norm",
        "an empty axis",
        "0, 1, False, True, NaN, NaN, -inf, 0",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_ONNX}::test_empty_axes",
         f"{_RELAY}::test_empty_axes"),
        pytorch="0, 1, False, True, NaN, NaN, -inf, 0",
        onnx="ReduceSum 0, ReduceProd 1, ReduceLogSumExp -inf, ReduceL2 0; ReduceMean undefined",
        relay="unspecified",
    ),
    Corner(
        "softmax, log_softmax, cumsum, sort, layer_norm",
        "an empty axis",
        "an empty result",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_RELAY}::test_empty_axes"),
        pytorch="an empty result",
        onnx="an empty result",
        relay="unspecified",
    ),
    Corner(
        "cat, stack; Concat; concatenate",
        "empty operands",
        "contribute nothing",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_ONNX}::test_empty_axes",
         f"{_RELAY}::test_empty_axes"),
        pytorch="contribute nothing",
        onnx="contribute nothing",
        relay="contribute nothing",
    ),
    Corner(
        "argmax, argmin, max along an axis, positions of max_pool",
        "equal elements",
        "the first; ArgMax with select_last_index=1: the last",
        (f"{_TORCH}::test_ties", f"{_ONNX}::test_ties", f"{_RELAY}::test_ties"),
        pytorch="the first",
        onnx="the first, or the last, by attribute",
        relay="the first, or the last, by attribute",
    ),
    Corner(
        "sort, argsort, topk",
        "equal elements",
        "keep their order; topk selects the first ones",
        (f"{_TORCH}::test_ties", f"{_ONNX}::test_ties", f"{_RELAY}::test_ties"),
        pytorch="keep their order with stable=True; topk: unspecified",
        onnx="TopK: the lower index first",
        relay="argsort is stable; topk: unspecified",
    ),
    Corner(
        "pad; Pad; nn.pad",
        "negative widths",
        "elements are removed",
        (f"{_TORCH}::test_sizes_down_to_nothing",),
        pytorch="elements are removed",
        onnx="elements are removed",
        relay="refused by Relay's own type relation",
    ),
    Corner(
        "topk, kthvalue, narrow, select, unfold, split, chunk, repeat_interleave, arange, pooling, "
        "convolution",
        "more elements than the axis has, sizes with a wrong sum, a step of 0, a window that does "
        "not fit",
        "PyTorch: refused, by the build if the sizes are known, otherwise by the call",
        (f"{_TORCH}::test_what_is_never_right_is_refused",
         f"{_TORCH}::test_sizes_down_to_nothing"),
        pytorch="raises",
        onnx="an error",
        relay="a compile error",
    ),
)  # fmt: skip
