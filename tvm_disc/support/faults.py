"""Conversion of resource shortages during a build into errors of this package.

Python, NumPy, TVM and the system report the same shortage in different ways: ``MemoryError``,
``std::bad_alloc`` as a ``RuntimeError``, ``can't start new thread``, and ``OSError`` with several
numbers. A build raises ``OutOfMemory`` or ``OutOfResources`` for all of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from tvm_disc.errors import DiscError, OutOfMemory, OutOfResources
from tvm_disc.support.limits import HEADROOM_BYTES, LLVM_BYTES_PER_BYTE

__all__ = [
    "check_memory",
    "disk_full",
    "file_limit",
    "is_full",
    "machine_faults",
    "mapped",
    "memory_left",
    "no_thread",
]

A = TypeVar("A")
B = TypeVar("B")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FILES = (errno.EMFILE, errno.ENFILE)
_BAD_ALLOC = "std::bad_alloc"
_NO_MEMORY = (
    "the build: out of memory; raise the memory limit of this process (ulimit -v, or memory.max of "
    "the control group), end other programs, or build on a larger machine and save the program"
)
_NO_THREAD = "can't start new thread"  # Python's message of a RuntimeError


@contextmanager
def machine_faults() -> Iterator[None]:
    """Raise a shortage of memory, threads, file descriptors or disk as an error of this package.

    Raises:
        OutOfMemory, OutOfResources: the code in this context exhausted a resource of the machine or
            reached a limit of the process.
    """
    left = memory_left()
    if left is not None and left < HEADROOM_BYTES:
        raise OutOfMemory(_memory_text(f"a build needs at least {HEADROOM_BYTES} bytes"))
    try:
        yield
    except DiscError:
        raise
    except Exception as error:
        try:
            found = _described(error)
        except MemoryError:
            found = OutOfMemory(_NO_MEMORY)
        if found is None:
            raise
        raise found from error


def _described(error: Exception) -> OutOfResources | None:
    """Return the error of this package for a shortage; None for any other error."""
    if _is_of_memory(error):
        return OutOfMemory(_memory_text(str(error)))
    if no_thread(error):
        return OutOfResources(
            f"the build: the system cannot start more threads ({error}); raise the limit on "
            "processes (ulimit -u, or pids.max of the control group), or end other programs"
        )
    if isinstance(error, OSError) and error.errno in _FILES:
        return OutOfResources(
            f"the build: the process has no file descriptor left ({error.strerror}); close files, "
            "or raise the limit (ulimit -n)"
        )
    if isinstance(error, OSError) and (is_full(error) or error.errno == errno.ENOENT):
        return _disk_text(error)
    return None


def _is_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory is exhausted; this includes failures to map a
    library.
    """
    if isinstance(error, MemoryError) or _BAD_ALLOC in str(error):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, OSError | ImportError) and "failed to map segment" in str(error)


def _memory_text(said: str) -> str:
    left = memory_left()
    told = "" if left is None else f" (the limit on address space, ulimit -v, leaves {left} bytes)"
    detail = f": {said}" if said and _BAD_ALLOC not in said else ""
    return f"{_NO_MEMORY}{told}{detail}"


def _disk_text(error: OSError) -> OutOfResources | None:
    """Return the error for a full disk, or for a full folder of temporary files; None for other
    errors.
    """
    if is_full(error):
        return disk_full(str(error.filename or "a temporary file"), None, error)
    if "temporary directory" not in str(error):
        return None
    return OutOfResources(
        f"the build: expected a folder for temporary files with some space, found none ({error}); "
        "free space, or name another folder with the environment variable TMPDIR"
    )


def no_thread(error: BaseException) -> bool:
    """Return whether Python could not start a thread."""
    return isinstance(error, RuntimeError) and _NO_THREAD in str(error)


def is_full(error: OSError) -> bool:
    """Return whether a write failed because of a full disk, a quota or a limit on file sizes."""
    return error.errno in _FULL


def disk_full(path: str, needed: int | None, error: OSError) -> OutOfResources:
    """Return the error for a file that has no space.

    Args:
        needed: bytes of the file, None if that is unknown.
    """
    size = "" if needed is None else f" of {needed} bytes"
    free = _free_bytes(path)
    told = "" if free is None else f" ({free} bytes are free)"
    return OutOfResources(
        f"{path}: a file{size} cannot be written: {error.strerror or error}{told}; free space, "
        "raise the limit on file sizes (ulimit -f), or name another folder (for temporary files "
        "with the environment variable TMPDIR)"
    )


def _free_bytes(path: str) -> int | None:
    """Return the free bytes of the file system of a path; None if the system does not report
    them.
    """
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    try:
        found = os.statvfs(folder)
    except (AttributeError, OSError, ValueError):
        return None
    return found.f_bavail * found.f_frsize


def file_limit() -> int | None:
    """Return the maximum bytes of a file that this process may write; None if unlimited."""
    return _limit("RLIMIT_FSIZE")


def _limit(name: str) -> int | None:
    try:
        import resource
    except ImportError:  # a system other than POSIX
        return None
    if not hasattr(resource, name):
        return None
    soft = resource.getrlimit(getattr(resource, name))[0]
    return None if soft == resource.RLIM_INFINITY else soft


def memory_left() -> int | None:
    """Return the bytes of address space that this process may still map; None without a limit."""
    most = _limit("RLIMIT_AS")
    if most is None:
        return None
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return max(0, most - pages * os.sysconf("SC_PAGE_SIZE"))


def check_memory(size: Callable[[], int]) -> None:
    """Raise OutOfMemory if LLVM may need more memory than is available, because LLVM would call
    ``abort``.

    Args:
        size: returns the bytes of the code's TIR as JSON; called only if memory is limited.

    Raises:
        OutOfMemory: the process may map less than LLVM may need.
    """
    left = memory_left()
    if left is None:
        return
    needed = HEADROOM_BYTES + LLVM_BYTES_PER_BYTE * size()
    if left < needed:
        raise OutOfMemory(
            f"machine code: LLVM may need {needed} bytes, and the limit on address space "
            f"(ulimit -v) leaves {left}; raise the limit, or build the program elsewhere and save "
            "it"
        )


def mapped(function: Callable[[A], B], items: Iterable[A], threads: int) -> list[B]:
    """Return ``function(item)`` for every item, computed by ``threads`` threads, or by the calling
    thread if no thread can be started.
    """
    items = list(items)
    if min(threads, len(items)) > 1:
        try:
            with ThreadPoolExecutor(threads) as workers:
                return list(workers.map(function, items))
        except RuntimeError as error:
            if not no_thread(error):
                raise
    return [function(item) for item in items]
