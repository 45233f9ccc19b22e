"""A device that runs kernels beside the processor: what a template or a launch must know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_KIB = 1 << 10


@dataclass(frozen=True)
class Device:
    """A GPU, as its vendor describes the smallest of the architectures that code is made for.

    Attributes:
        kind: which templates there are for it.
        architectures: compute capabilities, such as 80 for ``sm_80``, in rising order; machine
            code is made for each, and portable code for newer ones.
        multiprocessors: of a usual card.
        registers: 32-bit ones of a multiprocessor.
        shared_bytes: memory that the threads of a block share, without asking for more.
        warp: threads that run in step.
        block_threads: the most of a block.
        tensor_cores: whether it multiplies small matrices.
        bandwidth_gbs: of its memory, in GB/s.
        f32_gflops: multiply-adds of float32, two operations each.
    """

    kind: str
    architectures: tuple[int, ...]
    multiprocessors: int
    registers: int
    shared_bytes: int
    warp: int
    block_threads: int
    tensor_cores: bool
    bandwidth_gbs: float
    f32_gflops: float

    @property
    def name(self) -> str:
        """As targets are written."""
        return " ".join([self.kind, *(f"sm_{a}" for a in self.architectures)])


# (multiprocessors, GB/s, GFLOP/s) of a usual card, from the vendor's data sheets.
CUDA: dict[int, tuple[int, float, float]] = {
    70: (80, 900.0, 15700.0),
    75: (40, 320.0, 8100.0),
    80: (108, 1555.0, 19500.0),
    86: (84, 936.0, 29800.0),
    87: (16, 205.0, 5300.0),
    89: (128, 1008.0, 82600.0),
    90: (132, 3350.0, 67000.0),
    100: (148, 8000.0, 80000.0),
    120: (170, 1792.0, 104800.0),
}
DEFAULT = (80, 90)


def cuda_device(architectures: Sequence[int] = DEFAULT) -> Device:
    """NVIDIA's, for architectures that ``CUDA`` has."""
    ordered = tuple(sorted(set(architectures)))
    first = ordered[0]
    cores, bandwidth, flops = CUDA[first]
    return Device(
        kind="cuda",
        architectures=ordered,
        multiprocessors=cores,
        registers=65536,
        shared_bytes=48 * _KIB,
        warp=32,
        block_threads=1024,
        tensor_cores=True,
        bandwidth_gbs=bandwidth,
        f32_gflops=flops,
    )


__all__ = ["CUDA", "DEFAULT", "Device", "cuda_device"]
