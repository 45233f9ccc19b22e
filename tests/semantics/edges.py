"""Corners of indices, integers and sizes."""

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
        "an index outside of its axis",
        "PyTorch: `IndexOutside`, unless `check_indices=False`. ONNX, Relay: a read takes the "
        "element of an index inside, a write is left out. No memory outside of a tensor is touched",
        (f"{_INDICES}::test_an_index_is_refused_where_eager_refuses_it",
         f"{_INDICES}::test_unchecked_indices_stay_inside_memory",
         f"{_ONNX}::test_indices_outside", f"{_RELAY}::test_indices_outside"),
        pytorch="raises",
        onnx="an error; ONNX Runtime raises",
        relay="take: clip, wrap, or undefined (fast); others undefined",
    ),
    Corner(
        "as above",
        "a negative index",
        "as each source; gather_nd and scatters of Relay count from the end",
        (f"{_INDICES}::test_an_index_is_refused_where_eager_refuses_it",
         f"{_ONNX}::test_negative_indices", f"{_RELAY}::test_indices_outside"),
        pytorch="index, index_put, index_fill, take, put, take_along_dim count from the end, "
        "others raise",
        onnx="counts from the end",
        relay="take: by its mode",
    ),
    Corner(
        "floor_divide, remainder, fmod, div with rounding; Div, Mod; divide, floor_divide, mod",
        "an integer divided by 0",
        "PyTorch: `DivisionByZero`, unless `check_indices=False`. ONNX, Relay: 0",
        (f"{_INDICES}::test_integers_divided_by_zero", f"{_ONNX}::test_integers_by_zero",
         f"{_RELAY}::test_integers_by_zero"),
        pytorch="raises",
        onnx="undefined; ONNX Runtime ends the process",
        relay="undefined",
    ),
    Corner(
        "floor_divide, div, remainder, fmod; Div, Mod",
        "the least integer divided by -1",
        "wraps; the remainder is 0",
        (f"{_INDICES}::test_the_least_integer_divided_by_minus_one",
         f"{_RELAY}::test_integers_by_zero"),
        pytorch="wraps; fmod and div by truncation end the process",
        onnx="not said",
        relay="undefined",
    ),
    Corner(
        "abs, neg, add, sub, mul, sum, cumsum, pow",
        "overflow of integers, abs of the least",
        "wraps",
        (f"{_TORCH}::test_integers_at_their_ends", "tests/semantics/test_onnx.py::test_integers"),
        pytorch="wraps",
        onnx="not said; ONNX Runtime wraps",
        relay="not said; wraps",
    ),
    Corner(
        "pow of integers",
        "a negative exponent",
        "1 and -1 to it; of all other numbers 0",
        (f"{_TORCH}::test_integers_at_their_ends",),
        pytorch="the same for tensors; raises for a literal exponent",
        onnx="not said",
        relay="power is one of floats",
    ),
    Corner(
        "shifts",
        "by the width and more, or by less than 0",
        "left: 0. right: 0, or -1 of a negative number",
        (f"{_TORCH}::test_integers_at_their_ends",),
        pytorch="left: 0. right: 0, or -1",
        onnx="undefined",
        relay="undefined",
    ),
    Corner(
        "casts of floats to integers",
        "NaN, infinities, numbers beyond the type",
        "any number of the type; the process goes on",
        (f"{_TORCH}::test_casts_of_numbers_beyond", f"{_TORCH}::test_casts_of_numbers_inside"),
        pytorch="undefined, differs by processor",
        onnx="undefined",
        relay="not said",
    ),
    Corner(
        "amax, amin, max, min, argmax, argmin; ReduceMax, ReduceMin, ArgMax; max, min, argmax",
        "an axis without elements",
        "PyTorch: refused. ONNX, Relay: max is -inf or the least number, min the opposite, "
        "the position 0",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_ONNX}::test_empty_axes",
         f"{_RELAY}::test_empty_axes"),
        pytorch="raises",
        onnx="-inf or the least number (ReduceMax), the opposite (ReduceMin); ArgMax not said",
        relay="not said",
    ),
    Corner(
        "sum, prod, any, all, mean, var, logsumexp, norm",
        "an axis without elements",
        "0, 1, False, True, NaN, NaN, -inf, 0",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_ONNX}::test_empty_axes",
         f"{_RELAY}::test_empty_axes"),
        pytorch="0, 1, False, True, NaN, NaN, -inf, 0",
        onnx="ReduceSum 0, ReduceProd 1, ReduceLogSumExp -inf, ReduceL2 0; ReduceMean undefined",
        relay="not said",
    ),
    Corner(
        "softmax, log_softmax, cumsum, sort, layer_norm",
        "an axis without elements",
        "an empty result",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_RELAY}::test_empty_axes"),
        pytorch="an empty result",
        onnx="an empty result",
        relay="not said",
    ),
    Corner(
        "cat, stack; Concat; concatenate",
        "operands without elements",
        "they add nothing",
        (f"{_TORCH}::test_sizes_down_to_nothing", f"{_ONNX}::test_empty_axes",
         f"{_RELAY}::test_empty_axes"),
        pytorch="they add nothing",
        onnx="they add nothing",
        relay="they add nothing",
    ),
    Corner(
        "argmax, argmin, max along an axis, max_pool's positions",
        "equal elements",
        "the first; ArgMax with select_last_index=1: the last",
        (f"{_TORCH}::test_ties", f"{_ONNX}::test_ties", f"{_RELAY}::test_ties"),
        pytorch="the first",
        onnx="the first, or the last by an attribute",
        relay="the first, or the last by an attribute",
    ),
    Corner(
        "sort, argsort, topk",
        "equal elements",
        "keep their order; topk takes the first ones",
        (f"{_TORCH}::test_ties", f"{_ONNX}::test_ties", f"{_RELAY}::test_ties"),
        pytorch="keep their order with stable=True; topk: not said",
        onnx="TopK: the lower index first",
        relay="argsort is stable; topk: not said",
    ),
    Corner(
        "pad; Pad; nn.pad",
        "negative widths",
        "elements are cut off",
        (f"{_TORCH}::test_sizes_down_to_nothing",),
        pytorch="elements are cut off",
        onnx="elements are cut off",
        relay="refused by Relay's own type relation",
    ),
    Corner(
        "topk, kthvalue, narrow, select, unfold, split, chunk, repeat_interleave, arange, pooling, "
        "convolution",
        "more than the axis has, sizes that do not add up, a step of 0, a window that does not fit",
        "PyTorch: refused, by the build where it is known, else by the call",
        (f"{_TORCH}::test_what_is_never_right_is_refused",
         f"{_TORCH}::test_sizes_down_to_nothing"),
        pytorch="raises",
        onnx="an error",
        relay="a compile error",
    ),
)  # fmt: skip
