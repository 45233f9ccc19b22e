"""Table entries of Fourier transforms."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import OPAQUE, OpRow, op

ref = References("signal")

ROWS: tuple[OpRow, ...] = (
    op("dft", "re_data im_data", OPAQUE, ref.dft, {"inverse": False}),
    op(
        "stft",
        "data window",
        OPAQUE,
        ref.stft,
        {"n_fft": -1, "hop_length": -1, "win_length": -1, "normalized": False, "onesided": True},
    ),
)
