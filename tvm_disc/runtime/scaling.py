"""Predicted speed-up of a program on several numbers of threads, as text."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.abi.manifest import Manifest
from tvm_disc.errors import counted

SHOWN = (2, 4, 16, 64)  # thread counts of the table
UNEVEN = 1.1  # ratio of the largest part to the mean part from which parts are called uneven
KERNELS = 12  # largest number of kernels in the table


def scaling_lines(manifest: Manifest) -> list[str]:
    """Return a table of predicted speed-ups: the program, then the kernels that take most time.

    The kernels are in descending order of their time on the most threads, and each is shown with
    the property that limits it. The list is empty for GPUs and for programs of earlier versions.
    """
    found = manifest.get("scaling")
    if not found or not found["kernels"]:
        return []
    threads: list[int] = found["threads"]
    columns = [threads.index(n) for n in SHOWN]
    kernels: dict[str, Manifest] = found["kernels"]
    total = [sum(k["ns"][c] for k in kernels.values()) for c in range(len(threads))]
    sizes = ", ".join(f"{name}={size}" for name, size in found["dims"].items())
    order = sorted(kernels, key=lambda name: -kernels[name]["ns"][-1])
    shown = order[:KERNELS]
    width = max(map(len, ("the program", *shown)))
    head = " ".join(f"{n:>6}" for n in SHOWN)
    lines = [
        f"predicted speed-up over one thread{f' for {sizes}' if sizes else ''}, by the cost model",
        f"  {'threads':<{width}} {head}   share of the time on {SHOWN[-1]}",
        f"  {'the program':<{width}} {_ratios(total, columns)}",
    ]
    for name in shown:
        kernel = kernels[name]
        share = f"{kernel['ns'][-1] / max(total[-1], 1):6.1%}"
        why = limit(kernel, SHOWN[-1], found["wake_ns"])
        line = f"  {name:<{width}} {_ratios(kernel['ns'], columns)}   {share}  {why}"
        lines.append(line.rstrip())
    if len(order) > len(shown):
        rest = sum(kernels[name]["ns"][-1] for name in order[len(shown) :])
        others = counted(len(order) - len(shown), "other kernel")
        lines.append(f"  {others}: {rest / max(total[-1], 1):.1%} of the time on {SHOWN[-1]}")
    return lines


def limit(kernel: Manifest, threads: int, wake_ns: float) -> str:
    """Return what limits a kernel on ``threads`` threads: too few tasks, uneven parts, or waking
    the other threads; an empty string if none of these does.
    """
    ns, tasks = kernel["ns"], kernel["tasks"]
    if ns[-1] >= ns[0]:
        one = max(tasks) <= 1
        return "one task" if one else "serial: waking threads would cost more than they save"
    fewest = min(tasks)
    if fewest < threads:
        return f"{counted(fewest, 'task')} for {threads} threads"
    if wake_ns * kernel["calls"] >= ns[-1] / 2:
        return "waking threads takes most of the time"
    largest = max(-(-n // threads) * threads / n for n in tasks)
    if largest >= UNEVEN:
        return f"uneven parts: the largest has {largest:.2f} times the mean number of tasks"
    return ""


def _ratios(ns: Sequence[float], columns: Sequence[int]) -> str:
    return " ".join(f"{ns[0] / max(ns[c], 1):6.2f}" for c in columns)


__all__ = ["limit", "scaling_lines"]
