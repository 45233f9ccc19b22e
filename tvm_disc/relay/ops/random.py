"""Rows of random numbers."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample

ref = References("random")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "random.threefry_generate",
        ("key",),
        {"out_shape": REQUIRED},
        Pattern.OPAQUE,
        False,
        reference=ref.threefry_generate,
        samples=(
            Sample(
                ((10, "uint64"),), ((10,), (3, 7)), {"out_shape": (3, 7)}, ranges={0: (0, 2**62)}
            ),
            *(
                Sample(((10, "uint64"),), ((10,), s), {"out_shape": s}, ranges={0: (0, 2**62)})
                for s in ((8,), (1,), (0, 4), (5, 1, 3))
            ),
        ),
    ),
    OpRow(
        "random.threefry_split",
        ("key",),
        {},
        Pattern.OPAQUE,
        False,
        reference=ref.threefry_split,
        samples=(
            Sample(((10, "uint64"),), ((10,), (10,)), {}, ranges={0: (0, 3)}),
            Sample(((10, "uint64"),), ((10,), (10,)), {}, ranges={0: (0, 1)}),
            Sample(((10, "uint64"),), ((10,), (10,)), {}, ranges={0: (0, 2**62)}),
        ),
    ),
    OpRow(
        "random.uniform",
        ("key", "low", "high"),
        {"out_shape": REQUIRED, "out_dtype": ""},
        Pattern.OPAQUE,
        False,
        reference=ref.uniform,
        samples=(
            Sample(
                ((10, "uint64"), ("float32",), ("float32",)),
                ((10,), (5, 3)),
                {"out_shape": (5, 3), "out_dtype": "float32"},
                ranges={0: (0, 2**62)},
            ),
            *(
                Sample(
                    ((10, "uint64"), ("float64",), ("float64",)),
                    ((10,), s),
                    {"out_shape": s, "out_dtype": "float64"},
                    ranges={0: (0, 2**62)},
                )
                for s in ((4,), (1,), (0, 4), (5, 1, 3))
            ),
            Sample(
                ((10, "uint64"), ("int32",), ("int32",)),
                ((10,), (7,)),
                {"out_shape": (7,), "out_dtype": "float64"},
                ranges={0: (0, 2**62)},
            ),
        ),
    ),
    OpRow(
        "random.normal",
        ("key", "mean", "scale"),
        {"out_shape": REQUIRED, "out_dtype": ""},
        Pattern.OPAQUE,
        False,
        reference=ref.normal,
        samples=(
            *(
                Sample(
                    ((10, "uint64"), ("float32",), ("float32",)),
                    ((10,), s),
                    {"out_shape": s, "out_dtype": "float32"},
                    ranges={0: (0, 2**62)},
                )
                for s in ((5, 3), (1,), (0, 4), (5, 1, 3), (7,))
            ),
        ),
    ),
    OpRow(
        "random.multinomial",
        ("key", "probs"),
        {"num_samples": 1},
        Pattern.OPAQUE,
        False,
        reference=ref.multinomial,
        samples=(
            Sample(
                ((10, "uint64"), ("n", "m", "float32")),
                ((10,), ("n", 6)),
                {"num_samples": 6},
                sizes=((1, 2), (3, 5), (17, 33)),
                ranges={0: (0, 2**62), 1: (-0.2, 1)},
            ),
        ),
    ),
)
