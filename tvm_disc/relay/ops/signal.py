"""Rows of Fourier transforms."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OpRow, Pattern, Sample

ref = References("signal")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "dft",
        ("re_data", "im_data"),
        {"inverse": False},
        Pattern.OPAQUE,
        False,
        reference=ref.dft,
        samples=(
            Sample(
                (("b", 2, "n", "float32"), ("b", 2, "n", "float32")),
                (("b", 2, "n"), ("b", 2, "n")),
                {},
                sizes=((1, 4), (2, 7), (1, 32)),
            ),
            Sample(
                (("b", "n", "float32"), ("b", "n", "float32")),
                (("b", "n"), ("b", "n")),
                {"inverse": True},
                sizes=((1, 4), (2, 7), (1, 32)),
            ),
        ),
    ),
    OpRow(
        "stft",
        ("data", "window"),
        {"n_fft": -1, "hop_length": -1, "win_length": -1, "normalized": False, "onesided": True},
        Pattern.OPAQUE,
        True,
        reference=ref.stft,
        samples=(
            Sample(
                (("b", "n", "float32"), (6, "float32")),
                ("b", 5, "(n-8)//3+1", 2),
                {"n_fft": 8, "hop_length": 3, "win_length": 6, "normalized": True},
                sizes=((1, 8), (2, 19), (3, 64)),
            ),
            Sample(
                (("b", "n", "float32"), (4, "float32")),
                ("b", 4, "(n-4)//4+1", 2),
                {"n_fft": 4, "hop_length": 4, "win_length": 4, "onesided": False},
                sizes=((1, 8), (2, 19), (3, 64)),
            ),
        ),
    ),
)
