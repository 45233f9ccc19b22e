"""Assignment of GPU templates to kinds of groups; the CPU's are in ``schedules/select.py``."""

from __future__ import annotations

from tvm_disc.schedules.cuda.attention.template import plan_attention
from tvm_disc.schedules.cuda.elements import plan_elements
from tvm_disc.schedules.cuda.extremes import plan_extremes
from tvm_disc.schedules.cuda.positions import plan_compact_rows
from tvm_disc.schedules.cuda.product import plan_convolution, plan_product
from tvm_disc.schedules.cuda.reduce import plan_contraction
from tvm_disc.schedules.cuda.rows.template import plan_row
from tvm_disc.schedules.cuda.scan import plan_scan
from tvm_disc.schedules.cuda.scatter import plan_updates
from tvm_disc.schedules.cuda.serial import Template, in_order
from tvm_disc.schedules.cuda.sorting import plan_sorted
from tvm_disc.schedules.cuda.transpose import plan_tiles
from tvm_disc.schedules.cuda.window import plan_window
from tvm_disc.schedules.opaque.sorting import plan_search
from tvm_disc.schedules.opaque.table import plan_special

CUDA: dict[str, tuple[tuple[str, Template], ...]] = {
    "loop": (("transpose", plan_tiles), ("elements", plan_elements)),
    "row": (("row", plan_row),),
    "dot": (("product", plan_product), ("contraction", plan_contraction)),
    "attention": (("attention", plan_attention),),
    "conv": (
        ("window", plan_window),
        ("convolution", plan_convolution),
        ("contraction", plan_contraction),
    ),
    "vendor": (),
    "reduce": (
        ("contraction", plan_contraction),
        ("extremes", plan_extremes),
    ),
    "opaque": (
        ("scatter", plan_updates),
        ("scan", plan_scan),
        ("sort", plan_sorted),
        ("search", in_order(plan_search)),
        ("compact", plan_compact_rows),
        ("special", in_order(plan_special)),
    ),
}
