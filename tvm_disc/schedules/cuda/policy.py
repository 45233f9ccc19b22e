"""Which template takes a group on a GPU: as ``schedules/select.py`` has it for the processor."""

from __future__ import annotations

from tvm_disc.schedules.cuda.attention import plan_query
from tvm_disc.schedules.cuda.elements import plan_elements
from tvm_disc.schedules.cuda.product import plan_product
from tvm_disc.schedules.cuda.reduce import plan_contraction
from tvm_disc.schedules.cuda.rows import plan_row
from tvm_disc.schedules.cuda.serial import Template, in_order
from tvm_disc.schedules.loops.fallback import plan_reduce
from tvm_disc.schedules.opaque.scatter import plan_scatter
from tvm_disc.schedules.opaque.sorting import plan_search, plan_sort
from tvm_disc.schedules.opaque.table import plan_special
from tvm_disc.schedules.rows.template import plan_rows

CUDA: dict[str, tuple[tuple[str, Template], ...]] = {
    "loop": (("elements", plan_elements),),
    "row": (("row", plan_row), ("row in order", in_order(plan_rows))),
    "dot": (("product", plan_product), ("contraction", plan_contraction)),
    "attention": (("attention", plan_query),),
    "conv": (("contraction", plan_contraction),),
    "vendor": (),
    "reduce": (
        ("contraction", plan_contraction),
        ("extremes", in_order(plan_reduce)),
    ),
    "opaque": (
        ("scatter", in_order(plan_scatter)),
        ("sort", in_order(plan_sort)),
        ("search", in_order(plan_search)),
        ("special", in_order(plan_special)),
    ),
}
