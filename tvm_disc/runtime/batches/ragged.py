"""Ragged batches: items of different lengths, packed into one tensor with offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_disc.errors import BadInput, counted, shown
from tvm_disc.runtime.arrays import as_array, numpy_dtype
from tvm_disc.runtime.inputs import is_tensor, ordered
from tvm_disc.typing import Argument, Arguments, TorchTensor

Rows: TypeAlias = Any  # a tensor of any library
Tree: TypeAlias = "int | Sequence[Tree]"  # positions of the results, nested


@dataclass(frozen=True, eq=False)
class Ragged:
    """Items of different lengths: item i is ``values[offsets[i] : offsets[i + 1]]``.

    Attributes:
        values: the rows of all items, ``[t, ...]``, a tensor of any library.
        offsets: int64, one element more than there are items; the first is 0, the last is t.

    Examples:
        >>> batch = tvm_disc.Ragged.pack([first, second])
        >>> result = exe(ids=batch)
        >>> second_rows = result[1]
    """

    values: Rows
    offsets: np.ndarray

    def __post_init__(self) -> None:
        if not is_tensor(self.values):
            raise BadInput(f"Ragged: expected a tensor of values, found {shown(self.values)}")
        offsets = self.offsets
        if is_tensor(offsets) and not isinstance(offsets, np.ndarray):
            offsets = as_array(offsets)
        offsets = np.asarray(offsets)
        if offsets.ndim != 1 or offsets.size == 0 or offsets.dtype.kind not in "iu":
            raise BadInput(
                "Ragged: expected offsets as a list of integers, one more than items, found "
                f"{shown(self.offsets)}"
            )
        object.__setattr__(self, "offsets", np.ascontiguousarray(offsets, np.int64))

    @classmethod
    def pack(cls, items: Sequence[Argument]) -> Ragged:
        """Return the items as one batch; their shapes may differ only in axis 0.

        Raises:
            BadInput: there is no item, an item is not a tensor, or their shapes differ in other
                axes.
        """
        return _packed("Ragged.pack", items, None, None)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, item: int) -> Rows:
        index = range(len(self))[item]
        return self.values[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def __iter__(self) -> Iterator[Rows]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        kind = str(self.values.dtype).removeprefix("torch.")
        rest = "".join(f", {d}" for d in self.values.shape[1:])
        return f"Ragged({counted(len(self), 'item')}, {kind}[{int(self.offsets[-1])}{rest}])"

    @property
    def lengths(self) -> np.ndarray:
        """The number of rows of each item."""
        found: np.ndarray = np.diff(self.offsets)
        return found

    def nested(self) -> TorchTensor:
        """Return a ``torch.nested`` tensor in jagged layout that shares the values."""
        import torch

        values = self.values if isinstance(self.values, torch.Tensor) else _torch(self.values)
        return torch.nested.nested_tensor_from_jagged(values, torch.from_numpy(self.offsets))


def _torch(values: Rows) -> TorchTensor:
    import torch

    return torch.from_dlpack(values)


class RaggedCalls:
    """Packs the ragged inputs of a program, and adds offsets to its ragged results.

    Attributes:
        names: the inputs of a call, without offsets.
    """

    def __init__(self, manifest: Mapping[str, Any], names: Sequence[str]) -> None:
        self._offsets: dict[str, str] = manifest["ragged"]["inputs"]
        self._results: list[str] = manifest["ragged"]["results"]
        self._computed: list[str] = manifest["ragged"].get("computed", [])
        self._tree: Tree = manifest["outputs"]
        self._flat = list(names)
        inputs = {name: (dims, dtype) for name, dims, dtype in manifest["inputs"]}
        self._inputs = {name: inputs[name] for name in self._offsets}
        self.names = [n for n in names if n not in self._offsets.values()]

    def call(
        self,
        run: Callable[[Arguments], object],
        write: object,
        args: Arguments,
        kwargs: Mapping[str, Argument],
        out: object,
    ) -> object:
        """Call the program by ``run`` and return its results; ragged results become
        :class:`Ragged`.
        """
        if out is not None:
            raise BadInput("out: leave it out: a ragged program allocates its results")
        flat = self.flatten(args, kwargs)
        given = dict(zip(self._flat, flat, strict=True))
        made: Rows = run(flat)
        tree = self._tree
        if self._computed:
            # The last results are offsets that the program computed from those of the inputs.
            made, computed = made[: len(self._results)], made[len(self._results) :]
            given.update(zip(self._computed, computed, strict=True))
            tree = 0 if len(made) == 1 else list(range(len(made)))
            made = made[0] if len(made) == 1 else made
        return self._nested(made, tree, given)

    def _nested(self, result: Rows, tree: Tree, given: Mapping[str, Rows]) -> object:
        if isinstance(tree, int):
            name = self._results[tree]
            return Ragged(result, given[name]) if name else result
        return tuple([self._nested(r, t, given) for r, t in zip(result, tree, strict=True)])

    def flatten(self, args: Arguments, kwargs: Mapping[str, Argument]) -> Arguments:
        """Return the program's inputs: packed values and offsets.

        If values and offsets are separate arguments, they are returned unchanged.

        Raises:
            BadInput: an input is missing or unknown, or the lengths of inputs differ.
        """
        if len(args) + len(kwargs) == len(self._flat) != len(self.names):
            return ordered(self._flat, args, kwargs)
        given = dict(zip(self.names, ordered(self.names, args, kwargs), strict=True))
        found: dict[str, tuple[str, np.ndarray]] = {}
        for name, offsets in self._offsets.items():
            batch = self._batch(name, given[name])
            given[name] = batch.values
            first, known = found.setdefault(offsets, (name, batch.offsets))
            if known is not batch.offsets and not np.array_equal(known, batch.offsets):
                raise BadInput(
                    f"input '{name}': expected items of the same lengths as input '{first}', "
                    f"{_lengths(known)}, found {_lengths(batch.offsets)}"
                )
        given |= {name: offsets for name, (_, offsets) in found.items()}
        return tuple([given[name] for name in self._flat])

    def _batch(self, name: str, value: Rows) -> Ragged:
        """Return the ragged batch that an argument, in any of the accepted forms, represents."""
        dims, dtype = self._inputs[name]
        if isinstance(value, Ragged):
            return value
        if isinstance(value, list | tuple):
            return _packed(f"input '{name}'", value, dims[1:], dtype)
        if is_tensor(value) and getattr(value, "is_nested", False):
            if "jagged" not in str(value.layout):
                raise BadInput(
                    f"input '{name}': expected a nested tensor in jagged layout, found "
                    f"{value.layout}; create it with layout=torch.jagged"
                )
            return Ragged(value.values(), value.offsets())
        if is_tensor(value) and len(value.shape) == len(dims) + 1:
            items, rows, *rest = value.shape
            return Ragged(value.reshape((items * rows, *rest)), np.arange(items + 1) * rows)
        found = counted(len(value.shape), "dim") if is_tensor(value) else shown(value)
        raise BadInput(
            f"input '{name}': expected a list of tensors, a tvm_disc.Ragged, a nested tensor, or "
            f"a tensor of {len(dims) + 1} dims, found {found}"
        )


def _lengths(offsets: np.ndarray) -> str:
    text = ", ".join(map(str, np.diff(offsets)[:8]))
    return f"[{text}, ...]" if len(offsets) > 9 else f"[{text}]"


def _packed(
    where: str, items: Sequence[Argument], rest: Sequence[str] | None, dtype: str | None
) -> Ragged:
    """Return a list of tensors as a ragged batch."""
    if not items:
        known = rest is not None and all(d.isdecimal() for d in rest)
        if not known or rest is None or dtype is None:
            raise BadInput(
                f"{where}: expected at least one item, found none; an empty list is accepted only "
                "if the axes of an item after the first have static sizes"
            )
        shape = (0, *map(int, rest))
        return Ragged(np.zeros(shape, numpy_dtype(dtype)), np.zeros(1, np.int64))
    arrays: list[Rows] = list(items)
    join: Callable[..., Rows] = np.concatenate
    if all(type(x).__module__.partition(".")[0] == "torch" for x in items):
        import torch

        join = torch.cat
    else:
        arrays = [_array(where, k, x, dtype) for k, x in enumerate(items)]
    for k, array in enumerate(arrays):
        if len(array.shape) == 0:
            raise BadInput(
                f"{where}: expected items of at least one axis, item {k} is a scalar tensor"
            )
        if tuple(array.shape[1:]) != tuple(arrays[0].shape[1:]):
            raise BadInput(
                f"{where}: expected items that differ in axis 0 only; item {k} has the shape "
                f"{list(array.shape)}, item 0 {list(arrays[0].shape)}"
            )
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([array.shape[0] for array in arrays], out=offsets[1:])
    return Ragged(arrays[0] if len(arrays) == 1 else join(arrays), offsets)


def _array(where: str, item: int, value: Rows, dtype: str | None) -> np.ndarray:
    """Return an item as an array; Python lists take the dtype of the input."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, list | tuple):
        try:
            return np.asarray(value, None if dtype is None else numpy_dtype(dtype))
        except (ValueError, TypeError, OverflowError):
            pass
    elif is_tensor(value):
        return as_array(value)
    raise BadInput(f"{where}: item {item}: expected a tensor, found {shown(value)}")


__all__ = ["Ragged", "RaggedCalls"]
