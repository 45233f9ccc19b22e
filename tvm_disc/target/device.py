"""Descriptions of GPUs, for kernel templates, the cost model and launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

_KIB = 1 << 10


@dataclass(frozen=True)
class Costs:
    """Constants of the cost model for a GPU architecture; times are in nanoseconds.

    ``MEASURED`` holds the constants of an H100, from ``benchmarks/cuda_products.py``,
    ``cuda_bandwidth.py`` and ``cuda_launch.py``. ``_scaled`` estimates those of other architectures
    from their GFLOP/s per multiprocessor.

    Latencies:
        launch: a launch of a kernel that follows another kernel.
        step: an instruction that depends on the previous one and accesses no memory.
        barrier: a barrier of a thread block.
        wait: a load from global memory.

    Throughput, as the time for which one operation of one lane occupies its multiprocessor:
        load: a load from global memory, with its index arithmetic.
        shared: a load of at most 16 bytes from shared memory.
        multiply: a multiply-add.
        tensor: a multiply-add of 16-bit operands on tensor cores.
        tensor_copy: a copy of 16 bytes of an operand for tensor cores.
        tensor_slice: fixed overhead per tile and slice of K on tensor cores.
        group: a multiply-add of 16-bit operands by warpgroup instructions (``wgmma``).
        group_slice: fixed overhead per tile and slice of K with warpgroup instructions.

    Factors and counts:
        tf32: factor on the time of a slice if operands are rounded to TF32.
        loads_at_once: loads that a thread of a reduction issues before it waits for the first.
        row_loads_at_once: loads that a thread of a row kernel issues before it waits.
        next_in_sector: factor on a load whose 32-byte sector the following loads read as well.
        spread_loads: factor on a load of attention whose warp reads several rows.
        weight_steps: multiply-adds that take as long as the exponential of one attention weight.
        threads_held: resident threads of a multiprocessor.
        each_gbs: maximum bandwidth of a multiprocessor, in GB/s.

    cuBLASLt:
        library_tile: rows and columns of a tile; a multiprocessor computes one tile at a time.
        library_step: time of a step of K of a tile.
        library_tensor_step: time of a step with 16-bit operands; TF32 takes twice as long.
        library_call: time of a library call in addition to the launch.
    """

    launch: float
    step: float
    barrier: float
    wait: float
    load: float
    shared: float
    multiply: float
    tensor: float
    tensor_copy: float
    tensor_slice: float
    group: float
    group_slice: float
    tf32: float
    loads_at_once: int
    row_loads_at_once: int
    next_in_sector: float
    spread_loads: float
    weight_steps: float
    library_tile: int
    library_step: float
    library_tensor_step: float
    library_call: float
    each_gbs: float
    threads_held: int


MEASURED = Costs(
    launch=3400.0, step=4.0, barrier=30.0, wait=580.0, load=0.035, shared=0.016,
    multiply=1 / 170, tensor=1 / 3000, tensor_copy=0.1, tensor_slice=48.0, tf32=1.3,
    group=1 / 4400, group_slice=105.0,
    loads_at_once=8, row_loads_at_once=4, next_in_sector=2.0, spread_loads=5.0, weight_steps=16.0,
    library_tile=128, library_step=90.0, library_tensor_step=5.7, library_call=2000.0,
    each_gbs=90.0, threads_held=2048,
)  # fmt: skip
_PIPES = ("load", "shared", "multiply", "tensor", "tensor_copy", "tensor_slice", "group",
          "group_slice", "library_step", "library_tensor_step")  # fmt: skip
_CLOCK_GHZ, _LANES = 1.98, 128  # clock under load and lanes per multiprocessor of the H100


@dataclass(frozen=True)
class Device:
    """A GPU, with the properties of the oldest architecture for which code is generated.

    Attributes:
        kind: the kind of device, which selects the templates.
        architectures: compute capabilities in ascending order, such as 80 for ``sm_80``. Machine
            code is generated for each, and PTX for newer architectures.
        multiprocessors: number of multiprocessors of a typical card.
        registers: 32-bit registers of a multiprocessor.
        shared_bytes: largest static shared memory of a thread block.
        warp: threads of a warp.
        block_threads: maximum threads of a block.
        tensor_cores: whether there are tensor cores.
        bandwidth_gbs: memory bandwidth in GB/s.
        f32_gflops: peak of float32 in GFLOP/s, two operations for each multiply-add.
        costs: constants of the cost model.
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
    costs: Costs = MEASURED

    @property
    def name(self) -> str:
        """Return the device as a target string, such as ``cuda sm_80 sm_90``."""
        return " ".join([self.kind, *(f"sm_{a}" for a in self.architectures)])


# (multiprocessors, GB/s, GFLOP/s) of a typical card, from the vendor's data sheets. Only the
# bandwidth of sm_90 was measured, with a copy on an H100 SXM.
CUDA: dict[int, tuple[int, float, float]] = {
    70: (80, 900.0, 15700.0),
    75: (40, 320.0, 8100.0),
    80: (108, 1555.0, 19500.0),
    86: (84, 936.0, 29800.0),
    87: (16, 205.0, 5300.0),
    89: (128, 1008.0, 82600.0),
    90: (132, 2800.0, 67000.0),
    100: (148, 8000.0, 80000.0),
    120: (170, 1792.0, 104800.0),
}
DEFAULT = (80, 90)
GROUPS = 90  # the architecture with warpgroup instructions


def cuda_device(architectures: Sequence[int] = DEFAULT) -> Device:
    """Return the NVIDIA GPU for code of ``architectures``, which must be keys of ``CUDA``."""
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
        costs=MEASURED if first == 90 else _scaled(cores, flops),
    )


def _scaled(cores: int, flops: float) -> Costs:
    """Return estimated constants of a GPU with ``cores`` multiprocessors and ``flops`` GFLOP/s.

    Throughput is scaled by GFLOP/s per multiprocessor. Latencies are assumed to be those of the
    H100.
    """
    ratio = 2 * _CLOCK_GHZ * _LANES / (flops / cores)
    scaled = {name: getattr(MEASURED, name) * ratio for name in _PIPES}
    return replace(MEASURED, **scaled)


__all__ = ["CUDA", "DEFAULT", "GROUPS", "MEASURED", "Costs", "Device", "cuda_device"]
