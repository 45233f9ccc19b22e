"""Properties of the target machine that templates and the selection of variants read."""

from __future__ import annotations

from pathlib import Path

from tvm_disc.codegen.target import has_threads, runs_here
from tvm_disc.options import Options, threads_of_pool
from tvm_disc.schedules.dispatch.records import (
    Context,
    Records,
    records_path,
    warned_records,
)
from tvm_disc.schedules.dispatch.shipped import files_for, memory_for, model_for
from tvm_disc.schedules.dispatch.signature import template_hash
from tvm_disc.schedules.dispatch.tree import read_trees
from tvm_disc.schedules.kernel import Machine
from tvm_disc.schedules.select import own_templates
from tvm_disc.support.processor import cores, cpu_name
from tvm_disc.target.device import Device
from tvm_disc.target.isa import Isa
from tvm_disc.target.processor import processor_of
from tvm_disc.typing import Target

VERSION = "0.1.0"


def machine_of(target: Target, options: Options) -> Machine:
    """Return the target properties that templates and the choice of variants depend on."""
    records = None
    mcpu = str(target.attrs.get("mcpu", ""))
    if options.records is not None:
        path = records_path(options.records)
        # Records that were measured on a remote machine carry its ``mcpu`` instead of a CPU name.
        records = warned_records(path, context_of(target), context_of(target, mcpu))
    trees = {} if options.dispatch is None else read_trees(Path(options.dispatch))
    threads = options.threads or default_threads()
    processor = processor_of(target, here=runs_here(target))
    return Machine(
        processor.isa,
        threads,
        model_for(processor),
        records=records,
        trees=trees,
        own_threads=has_threads(target),
        memory=memory_for(processor),
        templates=own_templates(options.templates),
        winograd=options.winograd,
        copy_bytes=options.copy_bytes,
        constants=files_for(processor),
    )


def device_machine(device: Device, options: Options) -> Machine:
    """Return the properties of a GPU for templates; the ISA describes one GPU thread."""
    trees = {} if options.dispatch is None else read_trees(Path(options.dispatch))
    records = _device_records(device, options)
    isa = Isa(lanes_f32=1, registers=255, fma=True, device=True)
    templates = own_templates(options.templates)
    return Machine(
        isa, 1, records=records, trees=trees, templates=templates, device=device, tf32=options.tf32
    )


def _device_records(device: Device, options: Options) -> Records | None:
    """Return the records of one GPU that runs code for this device; None if no file of records is
    given.
    """
    if options.records is None:
        return None
    from tvm_disc.codegen.cuda.card import card_of_records

    path = records_path(options.records)
    return warned_records(path, card_context(card_of_records(path, device)))


def card_context(key: str) -> Context:
    """Return the context that records measured on a GPU must match; ``key`` identifies the GPU."""
    return Context(key, VERSION, template_hash())


def context_of(target: Target, cpu: str | None = None) -> Context:
    """Return the context that a record must match to be used by a build.

    For a remote machine, ``cpu`` is LLVM's name of its processor. Builds for this target use these
    records on any machine.
    """
    mcpu = str(target.attrs.get("mcpu", ""))
    return Context(f"{cpu or cpu_name()}; {mcpu}", VERSION, template_hash())


def default_threads() -> int:
    """Return TVM's configured number of pool threads, or the number of cores of this process."""
    return threads_of_pool() or cores()


__all__ = [
    "VERSION",
    "card_context",
    "context_of",
    "default_threads",
    "device_machine",
    "machine_of",
]
