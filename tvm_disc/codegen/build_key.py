"""Cache key of a build from a file: builds with equal keys produce equal programs.

The key covers all inputs of a build: the file and its external data, arguments, target and machine,
versions of packages, and the compiler's own source. A build has no key, and is not cached, if an
input cannot be hashed (user passes, templates or instruments; modules in memory), or if the build
must run (dumps, debug output, verification).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tvm

from tvm_disc.codegen.machine_code import context_text
from tvm_disc.codegen.target import runs_here
from tvm_disc.frontends.detect import files_of
from tvm_disc.options import Options
from tvm_disc.support.digests import digest_of_file, digest_of_package
from tvm_disc.target.processor import processor_of
from tvm_disc.typing import Target, UserPasses

# version of the format of cache entries, which is a part of their keys
_FORMAT = 1
_PACKAGES = (
    "apache-tvm",
    "apache-tvm-ffi",
    "numpy",
    "onnx",
    "torch",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvrtc-cu13",
)


def build_key(
    source: object,
    params: object,
    targets: Sequence[Target],
    constraints: Sequence[str],
    options: Options,
    passes: UserPasses | None,
    extra: Sequence[object],
) -> str | None:
    """Return the cache key of a build, or None if the build cannot be cached.

    Args:
        targets: resolved targets.
        extra: extra inputs of the build; their ``repr`` must be complete.
    """
    context = context_text()
    unnamed = passes or options.templates or options.debug or options.verify
    if unnamed or options.dump_dir is not None or context is None or _instruments():
        return None
    files = files_of(source)
    if files is None or not (params is None or isinstance(params, str | Path)):
        return None
    given = [params, options.records, options.dispatch]
    files = [*files, *(Path(path) for path in given if path is not None)]
    try:
        contents = [digest_of_file(path).hex() for path in files]
    except (OSError, ValueError):  # a name with a zero byte; the build reports it
        return None
    machines = [(str(t), repr(processor_of(t, here=runs_here(t)))) for t in targets]
    absent = [path is None for path in given]
    compiled = [(name, value) for name, value in options.cache_key() if name not in _FILES]
    parts = [_FORMAT, _versions(), digest_of_package(), context, machines, Path(files[0]).suffix]
    parts += [contents, absent, tuple(constraints), compiled, *extra]
    return hashlib.blake2b(repr(parts).encode(), digest_size=20).hexdigest()


# options that name a file; the file's content is hashed instead of its name
_FILES = ("records", "dispatch")


def _instruments() -> bool:
    return bool(tvm.transform.PassContext.current().instruments)


@cache
def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


__all__ = ["build_key"]
