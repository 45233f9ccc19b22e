"""Build options: one frozen dataclass, and the environment variables that set its fields.

Every option is a field of ``Options``. A field whose metadata contains ``env`` can be set by that
environment variable:

==================  ============  =====================================================
variable            field         value
==================  ============  =====================================================
``DISC_CACHE``      ``cache``     folder for compiled code, or ``off``
``DISC_DEBUG``      ``debug``     0 .. 5, the levels of ``tvm_disc.support.debug``
``DISC_DUMP``       ``dump_dir``  directory for numbered dumps of every stage
``DISC_RECORDS``    ``records``   file of measured times to choose variants by
``DISC_THREADS``    ``threads``   threads that the program is compiled for, at least 1
==================  ============  =====================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .errors import BadInput, BadOption, DiscError, shown

__all__ = ["ENVIRONMENT", "Options", "file_path", "threads_of_pool"]

MAX_DEBUG = 5
POINTS = 32  # default number of shapes that ``tune`` measures per program
MOST_THREADS = 1 << 16
MOST_GRAPHS = 1024
MOST_SECONDS = 10**6  # longer timeouts overflow on some systems


# Metadata of a field: whether it changes the generated code, and its environment variable.
_CODE: Mapping[str, Any] = {"changes_code": True}


def _env(name: str) -> Mapping[str, object]:
    return {"env": name}


@dataclass(frozen=True)
class Options:
    """Options of a build; equal options and equal input give equal code.

    Attributes:
        threads: number of threads that the program is compiled for; None takes TVM's configured
            number or the number of cores.
        dump_dir: directory for numbered text dumps of every stage; None writes none.
        fuse: fuse operators; False compiles one kernel per operator, to find a wrong kernel.
        versions: if input dims that may differ are usually equal, compile a special version for the
            equal case in addition to the general one; False compiles only the general version.
        verify: check the module for well-formedness between stages, and at the end of each call
            that all memory of loop variables and of values of data types was freed.
        records: a file of measured times written by ``tune``; variants are chosen by these times.
            None uses the analytical cost model.
        dispatch: a JSON file of decision trees, as ``Executable.dispatch`` returns them; kernels
            with the same group key use these trees unchanged.
        templates: user kernel templates, each with the kind of group that it implements, such as
            ``[("loop", mine)]``; they are tried in this order before the built-in templates
            (tutorials/09).
        winograd: output tile size of Winograd's algorithm for 3x3 convolutions, used where it is
            faster: 2 has the error of plain sums; 4 needs fewer multiplications and has about ten
            times the error; 0 disables it (docs/conv.md).
        copy_bytes: the largest size, in bytes, of a convolution's weights that the program may
            store in a second layout, so that the kernel can choose between direct sums and a pixel
            GEMM. A kernel does so only if the times in ``records`` show a gain. 0 stores one layout
            (docs/conv.md).
        state: names of inputs that hold a cache, with ``*`` and ``?`` as in ``fnmatch``; a result
            must be the concatenation of the input and new rows, or a scatter of new elements into
            it. The program writes into such caches in place; ``Executable.state`` owns them
            (docs/state.md).
        state_dtype: the type, ``"float16"``, ``"bfloat16"`` or ``"int8"``, to which the rows of
            growing float32 caches of ``state`` are rounded when they are appended; None keeps
            float32. ``"int8"`` stores a float32 scale for each row of the last axis
            (docs/state.md).
        state_window: maximum number of rows that a growing cache of ``state`` keeps after a call;
            older rows are dropped. The caller guarantees that neither these rows nor their number
            affect later results (docs/state.md). 0 keeps the rows of the model's result.
        donate: names of inputs, with ``*`` and ``?``, or positions, whose memory a call may use
            for its results; the caller does not read them afterwards. A scatter into such an
            input updates it in place, and its result is the input's memory. ``explain()`` lists
            which result takes which input (docs/state.md). GPU programs allocate their results.
        weights: quantize float32 weights of matmuls to ``"int8"`` or ``"int4"``, symmetrically, at
            build time; None keeps float32. ``explain()`` lists the error of each matrix.
            Embeddings, convolutions, and matrices of fewer than 65536 elements or 16 columns keep
            float32.
        weight_group: number of rows of quantized weights (elements along K) that share a scale, at
            least 8; 0 means one scale per column.
        int8_activations: multiply weights of 8 or 4 bits (``MatMulNBits``, dequantized literals) by
            rows rounded to int8, with a scale for each block of at most 256 elements: faster, with
            a relative error of about 0.4 % per element. False rounds nothing (docs/gemm.md).
        cuda_graphs: for a GPU program, the maximum number of CUDA graphs that it keeps, one per
            combination of input dims; each launches all kernels at once. The least recently used
            graph is evicted. 0 disables graphs.
        tf32: for a GPU program, whether matmuls may round float32 operands to TF32 (10 bits of
            mantissa) to use tensor cores; False computes in float32.
        check_indices: reject a call with an index out of bounds or an integer division by 0. None
            follows the source framework (docs/semantics.md): PyTorch programs check, ONNX programs
            only if it is True, Relay programs never; GPU programs do not, as a check would wait for
            the device. No program reads or writes outside of a tensor in any case.
        load: generate machine code within ``build`` if the target is this machine; False defers it
            to the first call, which saves time if the program is only saved.
        level: for a program with several targets, the one to run, such as ``x86-64-v2``; None takes
            the best that this processor supports.
        time_limit: seconds after which ``build`` raises ``BuildTimeout``, which names the current
            stage and the operator or kernel; None means unlimited.
        progress: show the progress of builds of more than two seconds on standard error: one line
            on a terminal, otherwise lines at growing intervals. None is like True, but writes to a
            file or pipe only after ten seconds, and shows nothing if ``debug`` is above 0. False
            shows nothing.
        cache: folder where compiled kernels, and whole programs built from files, are cached
            across processes. True means the folder ``tvm_disc`` in ``XDG_CACHE_HOME``, or in
            ``~/.cache`` if that variable is not set. False disables the cache and
            compiles the program as one unit: LLVM may then inline kernels, which saves 10 ns per
            kernel call.
        debug: amount of diagnostics on standard error, 0 .. 5.

    Raises:
        BadOption: a value is out of range.
    """

    threads: int | None = field(default=None, metadata={**_CODE, **_env("DISC_THREADS")})
    dump_dir: str | Path | None = field(default=None, metadata=_env("DISC_DUMP"))
    fuse: bool = field(default=True, metadata=_CODE)
    versions: bool = field(default=True, metadata=_CODE)
    verify: bool = False
    records: str | Path | None = field(default=None, metadata={**_CODE, **_env("DISC_RECORDS")})
    dispatch: str | Path | None = field(default=None, metadata=_CODE)
    templates: Sequence[tuple[str, Callable[..., Any]]] = field(default=(), metadata=_CODE)
    winograd: int = field(default=2, metadata=_CODE)
    copy_bytes: int = field(default=1 << 20, metadata=_CODE)
    state: Sequence[str] = field(default=(), metadata=_CODE)
    state_dtype: str | None = field(default=None, metadata=_CODE)
    state_window: int = field(default=0, metadata=_CODE)
    donate: Sequence[str | int] = field(default=(), metadata=_CODE)
    weights: str | None = field(default=None, metadata=_CODE)
    weight_group: int = field(default=32, metadata=_CODE)
    int8_activations: bool = field(default=False, metadata=_CODE)
    cuda_graphs: int = field(default=0, metadata=_CODE)
    tf32: bool = field(default=False, metadata=_CODE)
    check_indices: bool | None = field(default=None, metadata=_CODE)
    load: bool = True
    level: str | None = None
    time_limit: float | None = None
    progress: bool | None = None
    cache: bool | str | Path = field(default=True, metadata=_env("DISC_CACHE"))
    debug: int = field(default=0, metadata=_env("DISC_DEBUG"))

    def __post_init__(self) -> None:
        if self.threads is not None:
            _integer("threads", self.threads)
            _threads("threads", self.threads)
        _integer("debug", self.debug)
        if not 0 <= self.debug <= MAX_DEBUG:
            raise BadOption(f"debug: expected 0 .. {MAX_DEBUG}, found {self.debug}")
        _integer("winograd", self.winograd)
        if self.winograd not in (0, 2, 4):
            raise BadOption(f"winograd: expected 0, 2 or 4, found {self.winograd}")
        _integer("copy_bytes", self.copy_bytes)
        if self.copy_bytes < 0:
            raise BadOption(f"copy_bytes: expected at least 0, found {self.copy_bytes}")
        _integer("cuda_graphs", self.cuda_graphs)
        if not 0 <= self.cuda_graphs <= MOST_GRAPHS:
            raise BadOption(f"cuda_graphs: expected 0 .. {MOST_GRAPHS}, found {self.cuda_graphs}")
        if self.weights not in (None, "int8", "int4"):
            found = shown(self.weights)
            raise BadOption(f"weights: expected 'int8', 'int4' or None, found {found}")
        _integer("weight_group", self.weight_group)
        if self.weight_group != 0 and self.weight_group < 8:
            found = shown(self.weight_group)
            raise BadOption(f"weight_group: expected 0 or at least 8, found {found}")
        _seconds("time_limit", self.time_limit)
        object.__setattr__(self, "templates", _templates(self.templates))
        object.__setattr__(self, "state", _names("state", self.state))
        object.__setattr__(self, "donate", _inputs("donate", self.donate))
        if self.state_dtype not in (None, "float16", "bfloat16", "int8"):
            found = shown(self.state_dtype)
            raise BadOption(
                f"state_dtype: expected 'float16', 'bfloat16', 'int8' or None, found {found}"
            )
        _integer("state_window", self.state_window)
        if self.state_window < 0:
            raise BadOption(f"state_window: expected at least 0, found {self.state_window}")
        for name in ("fuse", "versions", "verify", "load", "tf32", "int8_activations"):
            if not isinstance(getattr(self, name), bool):
                found = shown(getattr(self, name))
                raise BadOption(f"{name}: expected True or False, found {found}")
        for name in ("progress", "check_indices"):
            if not isinstance(getattr(self, name), bool | None):
                found = shown(getattr(self, name))
                raise BadOption(f"{name}: expected True, False or None, found {found}")
        if not isinstance(self.cache, bool | str | os.PathLike):
            raise BadOption(f"cache: expected True, False or a folder, found {shown(self.cache)}")
        if not isinstance(self.cache, bool):
            file_path("cache", self.cache, BadOption)
        for name in ("dump_dir", "records", "dispatch"):
            path = getattr(self, name)
            if path is not None:
                file_path(name, path, BadOption)

    @classmethod
    def from_env(
        cls, base: Options | None = None, environ: Mapping[str, str] | None = None
    ) -> Options:
        """Return ``base`` with fields that have their default value set from the environment.

        A value set by the program takes precedence; an empty variable counts as unset.

        Raises:
            BadOption: a variable's value does not parse or is out of range; the message names the
                variable.
        """
        base = cls() if base is None else base
        if not isinstance(base, cls):
            raise BadOption(f"options: expected tvm_disc.Options, found {type(base).__name__}")
        environ = os.environ if environ is None else environ
        for name, (option, parse) in ENVIRONMENT.items():
            text = environ.get(name, "")
            if text and getattr(base, option) == _DEFAULTS[option]:
                try:
                    base = replace(base, **{option: parse(text)})
                except ValueError:
                    raise BadOption(f"{name}: expected an integer, found {shown(text)}") from None
                except BadOption as error:
                    raise BadOption(f"{name}: {error}") from None
        return base

    def placed(self, on_device: bool) -> Options:
        """Return the options with device defaults: on a device ``check_indices`` is off, as a check
        would wait for the device, and results take no memory of inputs.
        """
        if not on_device:
            return self
        checks = False if self.check_indices is None else self.check_indices
        return replace(self, check_indices=checks, donate=())

    def cache_key(self) -> tuple[tuple[str, object], ...]:
        """Return the options that change the generated code, as (name, value) pairs."""
        changing = (f.name for f in fields(self) if f.metadata.get("changes_code"))
        return tuple((name, getattr(self, name)) for name in changing)


def file_path(what: str, value: object, error: type[DiscError] = BadInput) -> Path:
    """Return ``value`` as a path; raise ``error`` if it is not a valid path."""
    if not isinstance(value, str | os.PathLike) or isinstance(value, bytes):
        raise error(f"{what}: expected a path, found {shown(value)}")
    try:
        path = Path(value)
        named = b"\0" not in os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        named = False
    if not named:
        raise error(f"{what}: expected a valid path, found {shown(value)}")
    return path


def _threads(name: str, count: int) -> int:
    """Return a valid number of threads; raises BadOption if it is out of range."""
    if count < 1:
        raise BadOption(f"{name}: expected at least 1, found {count}")
    if count > MOST_THREADS:
        raise BadOption(f"{name}: expected at most {MOST_THREADS}, found {count}")
    return count


def threads_of_pool(environ: Mapping[str, str] | None = None) -> int | None:
    """Return the value of ``TVM_NUM_THREADS``, None if unset; raises BadOption if it is not
    valid.
    """
    name = "TVM_NUM_THREADS"
    text = (os.environ if environ is None else environ).get(name, "")
    try:
        return _threads(name, int(text)) if text else None
    except ValueError:
        raise BadOption(f"{name}: expected an integer, found {shown(text)}") from None


def _integer(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadOption(f"{name}: expected an integer, found {shown(value)}")


def _templates(value: object) -> tuple[tuple[str, Callable[..., object]], ...]:
    def fits(pair: object) -> bool:
        kind, template = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
        return isinstance(kind, str) and callable(template)

    if isinstance(value, Sequence) and all(map(fits, value)):
        return tuple(value)
    raise BadOption(f"templates: expected pairs such as ('loop', template), found {shown(value)}")


def _names(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(x, str) for x in value):
        return tuple(value)
    raise BadOption(f"{name}: expected a list of input names, found {shown(value)}")


def _inputs(name: str, value: object) -> tuple[str | int, ...]:
    """Return names and positions of inputs."""
    if isinstance(value, list | tuple) and all(
        isinstance(x, str | int) and not isinstance(x, bool) for x in value
    ):
        return tuple(value)
    raise BadOption(f"{name}: expected a list of input names or positions, found {shown(value)}")


def _seconds(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadOption(f"{name}: expected seconds, found {shown(value)}")
    if not 0 < value <= MOST_SECONDS:
        raise BadOption(f"{name}: expected more than 0 and at most {MOST_SECONDS} s, found {value}")


def _cache(text: str) -> bool | Path:
    return False if text == "off" else Path(text)


_DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in fields(Options)}
_PARSERS: Mapping[str, Any] = {
    "threads": int,
    "cache": _cache,
    "debug": int,
    "dump_dir": Path,
    "records": Path,
}
ENVIRONMENT: Mapping[str, tuple[str, Any]] = {
    f.metadata["env"]: (f.name, _PARSERS[f.name]) for f in fields(Options) if "env" in f.metadata
}
"""Maps the name of a variable to (field of Options, parser of its text)."""
