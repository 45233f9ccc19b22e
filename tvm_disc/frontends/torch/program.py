"""Conversion of ``torch.export`` programs to Relay modules."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Any

from tvm_disc.errors import DiscError, TypeMismatch, Unsupported
from tvm_disc.frontends.extras import require
from tvm_disc.frontends.torch.checks import checked, symbol_number
from tvm_disc.frontends.torch.conditions import EXPORTED, Keys, Recorded, recorded_guards
from tvm_disc.frontends.torch.dropout import without_idle_dropouts
from tvm_disc.frontends.torch.export import Exported, oblivious
from tvm_disc.frontends.torch.inputs import ExportedInputs, UnknownNumber
from tvm_disc.frontends.torch.paths import input_paths
from tvm_disc.frontends.torch.structure import structure_of
from tvm_disc.frontends.torch.symbols import Number
from tvm_disc.frontends.torch.table import ROWS, TAKEN_APART, row_name
from tvm_disc.frontends.torch.values import Value, dims_of
from tvm_disc.frontends.torch.walk import FALLBACK, GraphConversion, described
from tvm_disc.frontends.torch.whole import is_whole
from tvm_disc.relay.expr import Expr, Function, Tuple
from tvm_disc.relay.module import IRModule
from tvm_disc.typing import ExportedProgram, FxNode

# Kinds of results of an exported graph that are new values of written buffers, parameters and
# inputs. The exported function does not return these values.
_WRITTEN = ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION")


def from_pytorch(program: ExportedProgram) -> IRModule:
    """Return the Relay module of a ``torch.export.ExportedProgram``; its weights are constants.

    Inputs have the names of the exported function's parameters; tensors inside tuples and mappings
    have PyTorch's flat names (``past_key_values_0_0``). Numbers and ``None`` that were arguments of
    the export are constants of the program. Named dims keep their names and ranges. Results are
    flat, without ``None``. New values of written buffers and inputs follow the results, in the
    order of the graph signature. A written buffer is also an input, after those of the function.

    Raises:
        Unsupported: PyTorch is not installed, or nodes cannot be converted; the message lists all
            of them with their source locations.
        TypeMismatch: ``program`` is not an exported program.
    """
    require("torch", "torch", "from_pytorch")
    import torch

    own = program if isinstance(program, Exported) else None
    program = program if own is None else own.program
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeMismatch(
            f"expected a torch.export.ExportedProgram, found {type(program).__name__}; "
            "create one with torch.export.export, or call build(module, example_inputs=...)"
        )
    # Read the guards first: a decomposed program no longer has the guards of a loaded one.
    recorded = ExportRecord(tuple(program._guards_code), tuple(recorded_guards(program)), own)
    program = without_idle_dropouts(program)
    if is_whole(program):
        with suppress(Unsupported):  # a decomposition may have no unsupported operator
            return ExportedConversion(program, recorded).module()
    with oblivious(own is not None and own.oblivious):
        program = decomposed(program)
    return ExportedConversion(program, recorded).module()


def decompositions() -> object:
    """Return PyTorch's decompositions of the operators that have no converter."""
    from torch.export import default_decompositions

    table = default_decompositions()
    for op in list(table.keys()):
        name = row_name(op)
        if name in ROWS and name not in TAKEN_APART:
            table.pop(op)
    return table


def decomposed(program: ExportedProgram) -> object:
    """Return the program without writes, with its operators decomposed by :func:`decompositions`.

    Raises:
        Unsupported: PyTorch cannot decompose the program.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _lifted_constants(program) as own:
                return own.run_decompositions(decompositions())
    except DiscError:
        raise
    except Exception as error:  # PyTorch traces the program again, which may raise any exception
        text = str(error).strip().splitlines()
        raise Unsupported(
            f"PyTorch cannot decompose this program: {type(error).__name__}: "
            f"{text[0] if text else ''}"
        ) from error


_LIFTING = Lock()


@contextmanager
def _lifted_constants(program: ExportedProgram) -> Iterator[ExportedProgram]:
    """Yield a program that keeps constants which decompositions create.

    PyTorch before 2.14 adds such a constant as an input, but drops its value. For these versions a
    copy of the program is yielded; its decomposition adds the values to the copy's constants.
    """
    import torch
    from torch.export import _trace

    if torch.__version__ >= (2, 14):
        yield program
        return
    copied = copy(program)
    copied._constants = dict(program.constants)
    with _LIFTING:
        trace = _trace._export_to_aten_ir

        def kept(*args: object, **options: object) -> object:
            found = trace(*args, **options)
            for name, value in found.constants.items():
                copied._constants.setdefault(name, value)
            return found

        _trace._export_to_aten_ir = kept
        try:
            yield copied
        finally:
            _trace._export_to_aten_ir = trace


@dataclass(frozen=True)
class _Hole:
    """A placeholder of the graph; ``literal`` is a tuple with its value if that is a constant."""

    node: Any
    kind: str
    target: str | None
    name: str
    literal: Any = None


@dataclass(frozen=True)
class ExportRecord:
    """The conditions that the exporter recorded, before any decomposition.

    Attributes:
        texts: the guards as Python text; a saved program keeps them.
        guards: the guards as expressions; a loaded program has none.
        own: the result of ``export.exported``, or None if the user exported the program.
    """

    texts: tuple[str, ...]
    guards: tuple[Recorded, ...]
    own: Exported | None = None

    @property
    def settled(self) -> Mapping[str, str]:
        """Return the unnecessary guards, see ``Exported.settled``."""
        return {} if self.own is None else self.own.settled

    def layout(self) -> list[Recorded]:
        """Return the guards that the program need not check, as they do not affect its results."""
        return [g for g in self.guards if g.tests_only_one or g.code in self.settled]


class ExportedConversion:
    """Conversion of one exported program to Relay."""

    def __init__(self, program: ExportedProgram, recorded: ExportRecord) -> None:
        self.program, self.recorded = program, recorded
        self.signature = program.graph_signature
        self.walk = GraphConversion()
        outputs = self.signature.output_specs
        changed = {spec.target for spec in outputs if spec.kind.name == "BUFFER_MUTATION"}
        nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        pairs = zip(nodes, self.signature.input_specs, strict=True)
        self.holes = [self._hole(node, spec) for node, spec in pairs]
        users = [h for h in self.holes if h.kind == "USER_INPUT" and h.literal is None]
        states = [h for h in self.holes if h.kind == "BUFFER" and h.target in changed]
        self.inputs = [*users, *states]

    def _hole(self, node: FxNode, spec: Any) -> _Hole:
        kind, literal = spec.kind.name, None
        name = str(spec.target).replace(".", "_") if kind == "BUFFER" else node.name
        val = node.meta.get("val")
        if type(spec.arg).__name__ == "ConstantArgument" or isinstance(
            val, int | float | bool | str
        ):
            literal = (getattr(spec.arg, "value", val),)
        return _Hole(node, kind, spec.target, name, literal)

    def module(self) -> IRModule:
        """Return the Relay module."""
        named = [(h.name, h.node.meta["val"]) for h in self.inputs]
        inputs = ExportedInputs(self.walk.symbols, named)
        inputs.know_ranges(self.program.range_constraints, self.recorded.layout())
        given = {h.node.name: self._given(h, inputs.variables) for h in self.holes}
        made = self.walk.graph(self.program.graph_module, given)
        if self.walk.problems:
            raise Unsupported(f"{described(self.walk.problems)}\n{FALLBACK}")
        self._conditions(inputs)
        body = checked(self._body(made), inputs.computed, partial(self._number, inputs))
        attrs = {
            "constraints": tuple(inputs.constraints),
            "origins": tuple(inputs.origins),
            "unchecked": tuple(inputs.dropped),
            "structure": self._structure(),
            "notes": () if self.recorded.own is None else self.recorded.own.notes,
        }
        params = [inputs.variables[h.name].expr for h in self.inputs]
        attrs = {name: found for name, found in attrs.items() if found}
        return IRModule.from_expr(Function(params, body, attrs=attrs))

    def _structure(self) -> str:
        users = [h for h in self.holes if h.kind == "USER_INPUT"]
        states = [h.name for h in self.inputs if h.kind != "USER_INPUT"]
        return structure_of(self.program, [h.literal for h in users], states)

    def _conditions(self, inputs: ExportedInputs) -> None:
        """Add to ``inputs`` all conditions that the exporter has recorded."""
        of_layout = {guard.code: guard for guard in self.recorded.layout()}
        origins = {guard.code: guard.origin for guard in self.recorded.guards}
        settled, place = self.recorded.settled, partial(self._place, inputs)
        for text in self.recorded.texts:
            origin = origins.get(text, EXPORTED)
            if text in settled:
                reason = "if the size is 1, the module computes the same program"
                inputs.drop(text, reason, place)
                if settled[text]:
                    inputs.require(settled[text], place, origin)
            elif text in of_layout:
                inputs.drop_layout(text, of_layout[text].place, place)
            else:
                inputs.require(text, place, origin)
        inputs.know(self.walk.facts)
        # Guards of the export have been added already; any other guard is from the decomposition.
        inputs.know_recorded(recorded_guards(self.program), set(self.recorded.texts))

    @cached_property
    def _paths(self) -> dict[Keys, _Hole]:
        """Return the inputs by their paths of keys."""
        holes = [h for h in self.holes if h.kind == "USER_INPUT"]
        return {
            keys: hole
            for hole, found in zip(holes, input_paths(self.program, len(holes)), strict=True)
            for keys in found
        }

    def _place(self, inputs: ExportedInputs, keys: Keys, axis: int | None) -> str:
        """Return the text of a size in the constraint language; see :data:`conditions.Place`."""
        hole = self._paths.get(keys)
        if hole is None:
            raise Unsupported(f"{''.join(f'[{k!r}]' for k in keys)} is not an input")
        if axis is None:
            if hole.literal is None:
                raise UnknownNumber(hole.name)
            return repr(hole.literal[0])
        dim = dims_of(hole.node.meta["val"])[axis]
        return str(dim) if isinstance(dim, int) else inputs.names.get(dim, f"{hole.name}.{axis}")

    def _number(self, inputs: ExportedInputs, keys: Keys, axis: int | None) -> Number:
        """Return a number in a condition as a Relay expression; see ``checks.Read``."""
        symbols = self.walk.symbols
        hole = self._paths.get(keys)
        if hole is None:
            return symbol_number(symbols, keys, axis)
        if axis is not None:
            return symbols.number(dims_of(hole.node.meta["val"])[axis])
        found = hole.node.meta["val"] if hole.literal is None else hole.literal[0]
        return symbols.number(found.node.expr if hasattr(found, "node") else found)

    def _given(self, hole: _Hole, variables: Mapping[str, Value]) -> object:
        if hole.literal is not None:
            return hole.literal[0]
        if any(hole is h for h in self.inputs):
            val = hole.node.meta["val"]
            return variables[hole.name] if hasattr(val, "shape") else val.node.expr
        if hole.kind in ("PARAMETER", "BUFFER"):
            # Buffers that are not saved are among the constants.
            tensors = ChainMap(self.program.state_dict, self.program.constants)
            return self.walk.constant(tensors[hole.target])
        if hole.kind == "CONSTANT_TENSOR":
            return self.walk.constant(self.program.constants[hole.target])
        return None

    def _body(self, made: Sequence[object]) -> Expr:
        """Return the body of ``main``: the user's results, then new values of written tensors."""
        pairs = list(zip(self.signature.output_specs, made, strict=True))
        first = [v for s, v in pairs if s.kind.name == "USER_OUTPUT"]
        last = [v for s, v in pairs if s.kind.name in _WRITTEN]
        found = [self.walk.maker.tensor(v).expr for v in (*first, *last) if v is not None]
        if not found:
            raise Unsupported("the program has no results")
        return found[0] if len(found) == 1 else Tuple(tuple(found))
