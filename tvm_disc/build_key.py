"""What a build of a file depends on, as one name: equal names are equal programs.

Everything counts that a build reads: the file and those beside it, the arguments, the target and
the machine, the versions of the packages, the compiler itself. What cannot be told so (a user's own
passes and templates, dumps, modules in memory) has no name, and is built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tvm

from tvm_disc.codegen.machine_code import context_text
from tvm_disc.codegen.target import runs_here
from tvm_disc.digests import digest_of_file, digest_of_package
from tvm_disc.frontends.detect import files_of
from tvm_disc.options import Options
from tvm_disc.target.processor import processor_of

# Of what an entry holds: programs that were kept by an older format have other names.
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
    source: Any,
    params: Any,
    targets: Sequence[Any],
    constraints: Sequence[str],
    options: Options,
    passes: Mapping[str, Any] | None,
    told: Sequence[Any],
) -> str | None:
    """The name of a build, or None if it has none.

    Args:
        targets: resolved ones.
        told: what else the build is told, as values whose text tells all of them.
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
    except (OSError, ValueError):  # a name with a zero byte; the build says which
        return None
    machines = [(str(t), repr(processor_of(t, here=runs_here(t)))) for t in targets]
    absent = [path is None for path in given]
    compiled = [(name, value) for name, value in options.cache_key() if name not in _FILES]
    parts = [_FORMAT, _versions(), digest_of_package(), context, machines, Path(files[0]).suffix]
    parts += [contents, absent, tuple(constraints), compiled, *told]
    return hashlib.blake2b(repr(parts).encode(), digest_size=20).hexdigest()


_FILES = ("records", "dispatch")  # options that name a file, which counts by its content


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
