"""Description of a machine: this one, as the system reports it, or another one by name.

Measured speeds, and decisions that depend on the machine, are kept with the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_disc.target.isa import Isa, isa_of
from tvm_disc.target.known import Caches, caches_of_level, known_caches
from tvm_disc.target.report import caches_here, cores_here
from tvm_disc.typing import Target


@dataclass(frozen=True)
class Processor:
    """A machine.

    Attributes:
        name: LLVM's name of the processor or of an x86-64 level; empty if none was given.
        isa: instruction sets and vector registers.
        caches: sizes of caches and lines, and number of cores that share a cache.
        cores: number of cores that a process may run on.
    """

    name: str
    isa: Isa
    caches: Caches
    cores: int


def processor_of(target: Target, here: bool = False) -> Processor:
    """Return the machine of a TVM ``llvm`` target.

    If ``here``, caches and cores are those of this machine. Otherwise, the caches are found by the
    name of the processor, or by its vector registers if the name is unknown; the cores are then
    those that share the last-level cache. The target's ``num-cores`` overrides the number of cores.
    """
    name, isa = str(target.attrs.get("mcpu", "")), isa_of(target)
    known = known_caches(name)
    caches = known or caches_of_level(isa)
    cores = int(target.attrs.get("num-cores", 0))
    if here:
        caches = caches_here(caches, named=known is not None)
        cores = cores or cores_here()
    return Processor(name, isa, caches, cores or caches.last_cores)
