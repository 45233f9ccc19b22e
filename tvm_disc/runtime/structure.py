"""Nested arguments and results of programs that were PyTorch modules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from tvm_disc.errors import BadInput, DiscError, shown
from tvm_disc.runtime.inputs import ordered
from tvm_disc.support.late import Late
from tvm_disc.typing import Argument

_ragged_calls = Late("tvm_disc.runtime.batches.ragged:RaggedCalls")


class Structure:
    """Flattens the arguments of a call, and nests its results as the PyTorch module did.

    Args:
        text: the JSON text that `frontends/torch/structure.py` writes.
        names: the program's flat inputs.
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        found = json.loads(text)
        self.names = list(names)
        self.parameters: list[str] = [*found["parameters"], *found["states"]]
        self._states: int = len(found["states"])
        self._literals: list[object] = found["literals"]
        self._outputs: list[tuple[str, object]] = found["outputs"]
        self._written: int = found["written"]
        self._texts = found["arguments"], found["result"]
        self._specs: tuple[list[object], object] | None = None

    @classmethod
    def of(cls, external: Mapping[str, Any] | None, names: Sequence[str]) -> Structure | None:
        """Return the structure that a manifest describes; None for plain tensors."""
        text = (external or {}).get("structure")
        return cls(text, names) if text else None

    def _loaded(self) -> tuple[list[Any], object]:
        """Return the tree structure of each parameter, and that of the result."""
        if self._specs is None:
            from torch.utils import _pytree as pytree

            try:
                given, result = (
                    None if text is None else pytree.treespec_loads(text) for text in self._texts
                )
            except (RuntimeError, KeyError) as error:
                raise BadInput(
                    "this program takes or returns objects of a class that is not registered with "
                    f"PyTorch in this process: {error}; import the package that registers it with "
                    "torch.utils._pytree"
                ) from None
            assert given is not None
            self._specs = [c for g in given.children() for c in g.children()], result
        return self._specs

    def call(
        self,
        run: Callable[[tuple[Any, ...]], Any],
        write: Callable[[tuple[Any, ...], Any], object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        out: Argument,
    ) -> Any:
        """Call the program; return the nested results of ``run``, or ``out`` after ``write`` has
        filled it.
        """
        if self._is_flat_call(args, kwargs):
            flat = ordered(self.names, args, kwargs)
            return self.nested(run(flat)) if out is None else write(flat, out)
        flat = self._flattened(args, kwargs)
        try:
            found = run(flat) if out is None else write(flat, out)
        except DiscError as error:
            raise type(error)(self._with_paths(str(error))) from None
        return self.nested(found) if out is None else found

    def flatten(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Any, ...]:
        """Return the flat arguments of a call that nests them as the module does.

        Flat arguments, by position or by their flat names, are returned unchanged.

        Raises:
            BadInput: an argument is missing, unknown or has the wrong structure.
        """
        if self._is_flat_call(args, kwargs):
            return ordered(self.names, args, kwargs)
        return self._flattened(args, kwargs)

    def _is_flat_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
        nested = any(a is None or isinstance(a, tuple | list | Mapping | str) for a in args)
        whole = len(args) + len(kwargs) == len(self.names)
        by_name = all(k in self.names for k in kwargs)
        values = (*args, *kwargs.values())
        return whole and by_name and not nested and all(map(_is_flat, values))

    @cached_property
    def paths(self) -> dict[str, str]:
        """The place of each flat input in the arguments, such as ``cache.key_cache[0]``."""
        trees = json.loads(self._texts[0])[1]["children_spec"]
        params = [c for group in trees for c in group["children_spec"]]
        pairs = zip(self.parameters, params, strict=False)
        found = [path for name, tree in pairs for path in _paths(name, tree)]
        literals = zip(found, self._literals, strict=True)
        kept = [path for path, literal in literals if literal is None]
        return dict(zip(self.names, kept, strict=False))

    def _with_paths(self, text: str) -> str:
        """Return a message in which the flat names of inputs are replaced by their paths in the
        arguments.
        """
        renamed = {name: path for name, path in self.paths.items() if name != path}
        if not renamed:
            return text
        names = "|".join(sorted(map(re.escape, renamed), key=len, reverse=True))
        return re.sub(rf"(?<![\w.])({names})(?=[':])", lambda m: renamed[m[1]], text)

    def _flattened(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[object, ...]:
        given = self._bound(args, kwargs)
        trees, _ = self._loaded()
        flat: list[Any] = []
        at = 0
        for name, tree in zip(self.parameters, trees, strict=False):
            literals = self._literals[at : at + tree.num_leaves]
            at += tree.num_leaves
            flat += _leaves(name, tree, literals, given)
        flat += [given[name] for name in self.parameters[len(trees) :]]
        return tuple(flat)

    def _bound(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
        expected = ", ".join(self.parameters)
        if len(args) > len(self.parameters):
            raise BadInput(f"expected inputs {expected}, found {len(args)} by position")
        given = dict(zip(self.parameters, args, strict=False))
        for name, value in kwargs.items():
            if name in given or name not in self.parameters:
                problem = "repeated" if name in given else "unknown"
                raise BadInput(f"{problem} input {name}; expected {expected}")
            given[name] = value
        for name in self.parameters[len(self.parameters) - self._states :]:
            if name not in given:
                raise BadInput(f"missing input {name}; expected {expected}")
        return given

    def nested(self, result: object) -> Any:
        """Return the results of a call, nested as the module does. The new values of tensors that
        the module writes follow them.
        """
        _, tree = self._loaded()
        if tree is None:
            return result
        flat = list(result) if isinstance(result, tuple | list) else [result]
        leaves = []
        for kind, value in self._outputs:
            # A number that was known at export is also a result of the program, but None is not.
            found = flat.pop(0) if kind != "known" or value is not None else None
            if kind == "number":
                found = _number(found)
            leaves.append(value if kind == "known" else found)
        from torch.utils import _pytree as pytree

        made = pytree.tree_unflatten(leaves, tree)
        if not flat:
            return made
        return (*made, *flat) if type(made) is tuple else (made, *flat)


@dataclass(frozen=True)
class OwnedArguments:
    """The flat arguments of a program that updates caches in place; only the state that owns the
    caches creates this object.
    """

    values: tuple[Argument, ...]


class OwnedCalls:
    """Refuses the direct calls of a program that updates caches of a fixed size in place.

    A call may have to copy an argument for a conversion; the update of the copy would be lost.
    """

    def __init__(self, names: Sequence[str], caches: Sequence[str]) -> None:
        self.names, self._caches = list(names), caches

    def call(self, *_: object) -> NoReturn:
        """Raise BadInput."""
        raise self._refusal()

    def flatten(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[Argument, ...]:
        """Return the arguments if a state passes them; otherwise raise BadInput."""
        if len(args) == 1 and type(args[0]) is OwnedArguments:
            return args[0].values
        raise self._refusal()

    def _refusal(self) -> BadInput:
        names = ", ".join(map(repr, self._caches))
        return BadInput(
            f"this program updates {names} in place and is called through a state: "
            "state = exe.state(); state(...)"
        )


def _is_flat(value: object) -> bool:
    return hasattr(value, "dtype") or isinstance(value, bool | int | float)


def _number(value: Any) -> object:
    return (value if hasattr(value, "item") else value.numpy()).item()


def _leaves(name: str, tree: Any, literals: Sequence[Any], given: Mapping[str, Any]) -> list[Any]:
    """Return the tensors of one argument; check its structure and the values fixed at export."""
    from torch.utils import _pytree as pytree

    if name not in given:
        if all(x is not None for x in literals):
            return []
        raise BadInput(f"missing input {name}")
    leaves, found = pytree.tree_flatten(given[name])
    if found != tree:
        raise BadInput(
            f"input '{name}': expected the structure of the example, {_told(tree)}, "
            f"found {shown(leaves[0]) if _is_value(found, leaves) else _told(found)}"
        )
    for leaf, literal in zip(leaves, literals, strict=True):
        if literal is not None and not (leaf is literal[0] or leaf == literal[0]):
            raise BadInput(
                f"input '{name}': the program was exported with {literal[0]!r}, "
                f"found {shown(leaf)}; export it again for this value"
            )
    return [leaf for leaf, literal in zip(leaves, literals, strict=True) if literal is None]


def _paths(name: str, tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the leaves of a tree, as PyTorch serializes its structure."""
    if tree["type"] is None:
        yield name
        return
    children, keys = tree["children_spec"], _keys(json.loads(tree["context"]))
    is_dict = str(tree["type"]).rpartition(".")[2] in ("dict", "OrderedDict", "defaultdict")
    for k, child in enumerate(children):
        if keys is None or len(keys) != len(children):
            yield from _paths(f"{name}[{k}]", child)
        else:
            yield from _paths(f"{name}[{keys[k]!r}]" if is_dict else f"{name}.{keys[k]}", child)


def _keys(context: object) -> list[object] | None:
    """Return the names in a container's context; None for tuples and lists.

    PyTorch's context of a dict is the list of its keys. The context of a dataclass is two lists:
    its fields, and the fields that are None.
    """
    if not isinstance(context, list):
        return None
    return context[0] if context and isinstance(context[0], list) else context


def _is_value(tree: Any, leaves: Sequence[object]) -> bool:
    """Return whether an argument is a single value and no tensor."""
    return bool(tree.is_leaf()) and not hasattr(leaves[0], "dtype")


def _told(tree: Any) -> str:
    if tree.is_leaf():
        return "a tensor"
    parts = [_told(c) for c in tree.children()]
    keys = _keys(tree.context)
    if keys is not None and len(keys) == len(parts):
        parts = [f"{key}: {part}" for key, part in zip(keys, parts, strict=True)]
    return f"{tree.type.__name__} ({', '.join(parts)})"


def structure_of(manifest: Mapping[str, Any], names: Sequence[str]) -> Structure | None:
    """Return the converter of a call's arguments and results; None for plain tensors."""
    if manifest.get("ragged"):
        found: Structure = _ragged_calls(manifest, names)  # same interface
        return found
    return Structure.of(manifest.get("external"), names)


__all__ = ["OwnedArguments", "OwnedCalls", "Structure", "structure_of"]
