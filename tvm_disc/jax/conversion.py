"""Conversions of JAX arrays to tensors of programs, and of results to JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm_disc.typing import SupportsDLPack

Viewer: TypeAlias = Callable[[Sequence[object]], list[object]]


def wrapper(
    avals: Sequence[Any], results: Sequence[SupportsDLPack]
) -> Callable[[SupportsDLPack], object]:
    """Return the function that converts a result, a TVM tensor, to a JAX array.

    On the CPU this is the native part of ``jax.dlpack.from_dlpack``, because the checks of that
    function in Python take 30 microseconds. The whole function is returned if this version of JAX
    has no such native part, or for 64-bit types, which JAX may convert to 32 bits.
    """
    import jax

    whole: Callable[[SupportsDLPack], object] = jax.dlpack.from_dlpack
    if any(a.dtype.itemsize == 8 for a in avals):  # JAX converts these if not jax_enable_x64
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
    """A JAX array on the CPU whose ``__dlpack__`` has no checks in Python."""

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


def as_array(value: object, dtype: object, donated: bool = False) -> Any:
    """Return a leaf as a JAX array; a Python number becomes an array of ``dtype``.

    A donated leaf is copied, because the JAX array could otherwise alias the caller's NumPy array.
    """
    import jax

    if isinstance(value, jax.Array):
        return value
    return jax.numpy.array(value, dtype=dtype, copy=True if donated else None)
