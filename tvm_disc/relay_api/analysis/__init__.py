"""``relay.analysis``: analyses of Relay programs, under Relay's names."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_disc.relay.inference.matches import unmatched_cases
from tvm_disc.relay_api.analysis.call_graph import CallGraph
from tvm_disc.relay_api.analysis.counts import (
    count_layers,
    extract_intermediate_expr,
    get_total_mac_number,
    list_fake_quantized_op_freqs,
    list_op_freqs,
    search_fc_transpose,
)
from tvm_disc.relay_api.analysis.form import (
    Feature,
    check_basic_block_normal_form,
    check_constant,
    detect_feature,
    well_formed,
)
from tvm_disc.relay_api.analysis.refused import REFUSED, refused
from tvm_disc.relay_api.analysis.variables import (
    all_dtypes,
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    check_kind,
    free_type_vars,
    free_vars,
    post_order_visit,
)

extract_intermdeiate_expr = extract_intermediate_expr  # Relay's spelling

__all__ = [
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "bound_type_vars",
    "bound_vars",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "count_layers",
    "detect_feature",
    "extract_intermdeiate_expr",
    "extract_intermediate_expr",
    "free_type_vars",
    "free_vars",
    "get_total_mac_number",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order_visit",
    "search_fc_transpose",
    "unmatched_cases",
    "well_formed",
]


def __getattr__(name: str) -> Any:
    """Return a function that raises Unsupported for an analysis of Relay that is not supported."""
    if name in REFUSED:
        return partial(refused, name)
    raise AttributeError(f"no analysis {name!r}")
