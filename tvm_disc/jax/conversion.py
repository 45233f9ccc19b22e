"""Conversions of JAX arrays to tensors of programs, and of results to JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm_disc.typing import SupportsDLPack

Viewer: TypeAlias = Callable[[Sequence[object]], list[object]]


def wrapper(
    avals: Sequence[Any], results: Sequence[SupportsDLPack]
) -> Callable[[SupportsDLPack], object]:
    """Return the conversion of TVM tensors to JAX arrays.

    On the CPU it is the native part of ``jax.dlpack.from_dlpack``, whose checks in Python take 30
    microseconds. An unknown version of JAX, or a type that JAX may convert, gets the whole.
    """
    import jax

    whole: Callable[[SupportsDLPack], object] = jax.dlpack.from_dlpack
    if any(a.dtype.itemsize == 8 for a in avals):  # narrowed, unless jax_enable_x64 is set
        return whole
    if any(x.__dlpack_device__()[0] != 1 for x in results):
        return whole
    try:
        from jax._src.lib import _jax

        native, device = _jax.dlpack_managed_tensor_to_buffer, jax.devices("cpu")[0]
        for x in results:
            native(x.__dlpack__(), device, None, None, 1)
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return whole
    return lambda x: native(x.__dlpack__(), device, None, None, 1)


class _View:
    """A JAX array on the CPU, exported without checks in Python."""

    __slots__ = ("array", "export")

    def __init__(self, array: object, export: Callable[[object], object]) -> None:
        self.array, self.export = array, export

    def __dlpack__(self, **_: object) -> object:
        return self.export(self.array)


def viewer(leaves: Sequence[SupportsDLPack], donated: Sequence[int] = ()) -> Viewer:
    """Return the conversion of a call's arrays to the form in which they are passed to programs.

    Args:
        donated: the positions of arrays whose memory results may take.
    """
    try:
        from jax._src.lib import _jax

        export = _jax.buffer_to_dlpack_managed_tensor
        for x in leaves:
            export(x)
    except (ImportError, AttributeError, TypeError, RuntimeError):
        return list
    if any(x.__dlpack_device__()[0] != 1 for x in leaves):
        return list
    if not donated:
        return lambda arrays: [_View(x, export) for x in arrays]

    def views(arrays: Sequence[Any]) -> list[object]:
        # Deleting an array that is exported itself aborts the process; a second array of the same
        # buffer remains, as for `jax.Array.__dlpack__`.
        parts = [x.addressable_data(0) if k in donated else x for k, x in enumerate(arrays)]
        return [_View(x, export) for x in parts]

    return views


def as_array(value: object, dtype: object) -> Any:
    """Return a leaf as an array; Python numbers get the type of the exported function."""
    import jax

    return value if isinstance(value, jax.Array) else jax.numpy.asarray(value, dtype=dtype)
