"""``torch.compile(model, backend="tvm_disc", dynamic=True)``.

PyTorch splits a model into graphs and marks their dynamic sizes. Each graph becomes one program for
all of its sizes. Nodes that cannot be compiled run in PyTorch, between programs for the rest of the
graph. If a program refuses a call, for instance because a guard fails, the call runs in PyTorch.
The log contains the reasons.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import ModuleType

from tvm_disc.compile import build
from tvm_disc.errors import DiscError, counted
from tvm_disc.frontends.torch.graph import Refusal, TorchGraph, from_graph, graph_decompositions
from tvm_disc.frontends.torch.partition import Runner, count, prefix, split
from tvm_disc.runtime.executable import Executable
from tvm_disc.typing import FxNode, GraphModule, TorchTensor

log = logging.getLogger("tvm_disc")

# Maximum number of builds for one graph, including failed ones; its other nodes run in PyTorch.
MOST_BUILDS = 48
# Exceptions that cause a fallback: the errors of this package, and classes that a defect of the
# compiler would raise. Other classes are not caught, as a user's signal handler may raise them.
_FAILURES = (DiscError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError,
             TypeError, ValueError)  # fmt: skip


@dataclass
class Report:
    """Statistics of graphs since :func:`reporting` began.

    Attributes:
        graphs: graphs that PyTorch passed to the backend.
        programs: programs that were built for them.
        compiled: tensor operators that ran in programs, counted once for every call.
        in_pytorch: tensor operators that ran in PyTorch, counted once for every call.
        fallbacks: calls that a program refused and PyTorch ran.
        reasons: why nodes or calls ran in PyTorch.
    """

    graphs: int = 0
    programs: int = 0
    compiled: int = 0
    in_pytorch: int = 0
    fallbacks: int = 0
    reasons: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The fraction of executed tensor operators that ran in programs."""
        return self.compiled / max(self.compiled + self.in_pytorch, 1)


_reports: list[Report] = []


@contextmanager
def reporting() -> Iterator[Report]:
    """Yield a report of the graphs that are compiled and run, in any thread, inside the block."""
    report = Report()
    _reports.append(report)
    try:
        yield report
    finally:
        _reports[:] = [r for r in _reports if r is not report]


def _add(**counts: int) -> None:
    for report in _reports:
        for name, number in counts.items():
            setattr(report, name, getattr(report, name) + number)


def _warn(text: str, *args: object) -> None:
    log.warning(f"torch.compile: {text}", *args)
    for report in _reports:
        report.reasons.append(text % args)


def _running(nodes: int) -> str:
    """Return a string like ``1 node runs`` or ``3 nodes run``."""
    return "1 node runs" if nodes == 1 else f"{nodes} nodes run"


def backend(
    module: GraphModule, example_inputs: Sequence[object], **options: object
) -> Callable[..., object]:
    """Return the compiled form of a graph; ``torch.compile`` calls this for every graph.

    Parameters and buffers are constants of the program, which is rebuilt if one changes. Graphs
    that need gradients or are not on the CPU run in PyTorch.
    """
    import torch
    from torch._dynamo.backends.common import aot_autograd

    _add(graphs=1)
    own = [*dict(module.named_parameters(remove_duplicate=False)).values()]
    own += [*dict(module.named_buffers(remove_duplicate=False)).values()]
    inputs = [*own, *example_inputs]
    reason = _why_not(torch, inputs)
    if reason:
        size = sum(n.op.startswith("call") for n in module.graph.nodes)
        _warn("%s in PyTorch: %s", _running(size), reason)
        return _counted(module.forward, size)
    fixed = {id(t) for t in own}
    frozen = {k: t for k, t in enumerate(inputs) if id(t) in fixed or _is_weight(torch, t)}

    def compiler(graph: GraphModule, examples: Sequence[object]) -> Callable[..., object]:
        whole = len(examples) == len(inputs)
        return _boxed(Compiler().runner(graph, frozen if whole else {}))

    compiled: Callable[..., object] = aot_autograd(
        fw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=dict(graph_decompositions()),
    )(module, example_inputs)
    return compiled


def _boxed(run: Runner) -> Callable[..., object]:
    """Return a function that empties its argument list, so that PyTorch can free the arguments."""

    def boxed(args: list[TorchTensor]) -> Sequence[TorchTensor]:
        given = list(args)
        args.clear()
        return run(given)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def _counted(function: Callable[..., object], size: int) -> Callable[..., object]:
    """Return a PyTorch function whose calls are reported as ``size`` operators."""

    def run(*args: object) -> object:
        _add(in_pytorch=size)
        return function(*args)

    return run


def _is_weight(torch: ModuleType, tensor: object) -> bool:
    marked = getattr(tensor, "_dynamo_static_input_type", None) is not None
    return isinstance(tensor, torch.nn.Parameter) or marked


def _why_not(torch: ModuleType, inputs: Sequence[object]) -> str:
    """Return the reason why a graph with these inputs cannot be compiled, or an empty string."""
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "gradients are needed; call the model inside torch.no_grad() to compile it"
    away = {str(t.device) for t in tensors if t.device.type != "cpu"}
    return f"its tensors are on {', '.join(sorted(away))}" if away else ""


class Compiler:
    """Compiles one graph, in parts if necessary."""

    def __init__(self) -> None:
        self._left = MOST_BUILDS

    def runner(self, graph: GraphModule, frozen: Mapping[int, TorchTensor]) -> Runner:
        """Return a function that runs a graph.

        The function is one program if the whole graph can be compiled. Otherwise it runs a program
        for each part that can be compiled, and the other nodes in PyTorch.

        Args:
            frozen: inputs that become constants of a program, by position.
        """
        size = count(graph)
        if not size:  # the graph only computes sizes, or returns its inputs
            return _boxed_graph(graph, size)
        made = self._made(graph, frozen)
        if not isinstance(made, Refusal):
            return GraphProgram(graph, frozen, *made)
        names = made.nodes or self._culprit(graph, frozen)
        found = split(graph, names) if names else None
        if found is None:
            _warn("%s in PyTorch: %s", _running(size), made.reason)
            return _boxed_graph(graph, size)
        inside = sum(count(p.graph) for p in found.parts)
        outside = size - inside
        runs = "runs" if outside == 1 else "run"
        _warn("%s of %s nodes %s in PyTorch: %s", outside, size, runs, made.reason)
        places = {n: k for k, n in enumerate(_holes(graph))}
        runners = []
        for part in found.parts:
            own = {k: frozen[places[n]] for k, n in enumerate(part.inputs)
                   if places.get(n) in frozen}  # fmt: skip
            runners.append(self.runner(part.graph, own))
        return _boxed_graph(found.joined(runners), size - inside)

    def _made(
        self, graph: GraphModule, frozen: Mapping[int, TorchTensor]
    ) -> tuple[TorchGraph, Executable] | Refusal:
        """Return the program of a graph; or, if the build fails, the reason and the nodes that
        caused it.
        """
        if self._left <= 0:
            return Refusal(
                frozenset(), f"the limit of {MOST_BUILDS} builds for one graph is reached"
            )
        try:
            # PyTorch's fake mode is active here, but weights are real tensors
            with _real_tensors():
                found = from_graph(graph, frozen)
            if isinstance(found, Refusal):
                return found
            self._left -= 1
            program = build(found.module)
        except _FAILURES as error:
            return Refusal(_named(graph, str(error)), _said(error))
        _add(programs=1)
        return found, program

    def _culprit(self, graph: GraphModule, frozen: Mapping[int, TorchTensor]) -> frozenset[str]:
        """Return the last node of the shortest prefix of the graph that cannot be built, by
        bisection; no node if the limit of builds is reached.
        """
        places = {n: k for k, n in enumerate(_holes(graph))}
        good, bad = 0, count(graph)
        while bad - good > 1:
            middle = (good + bad) // 2
            part = prefix(graph, middle)
            own = {k: frozen[places[n]] for k, n in enumerate(part.inputs) if places[n] in frozen}
            refused = isinstance(self._made(part.graph, own), Refusal)
            good, bad = (good, middle) if refused else (middle, bad)
            if self._left <= 0:
                return frozenset()
        return frozenset([prefix(graph, bad).last])


def _holes(graph: GraphModule) -> list[FxNode]:
    return [n for n in graph.graph.nodes if n.op == "placeholder"]


def _named(graph: GraphModule, message: str) -> frozenset[str]:
    """Return the nodes that an error message names as its location."""
    names = {n.name for n in graph.graph.nodes if n.op == "call_function"}
    return frozenset(re.findall(r"\bat (\w+)", message)) & names


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, DiscError) else f"{type(error).__name__}: {error}"


def _boxed_graph(graph: GraphModule, size: int) -> Runner:
    """Return a function that runs a graph in PyTorch and reports its ``size`` operators."""

    def run(args: list[TorchTensor]) -> Sequence[TorchTensor]:
        if _reports:
            _add(in_pytorch=size)
        return list(graph(*args))

    return run


class GraphProgram:
    """One graph of a model as a program, which is rebuilt if a weight changes."""

    def __init__(
        self,
        graph: GraphModule,
        frozen: Mapping[int, TorchTensor],
        found: TorchGraph,
        program: Executable,
    ) -> None:
        self._graph = graph
        self._size = count(graph)
        self._frozen = dict(frozen)
        self._versions = {k: _version(t) for k, t in frozen.items()}
        self._found, self._program = found, program
        self._other: Runner | None = None

    def __call__(self, args: list[TorchTensor]) -> Sequence[TorchTensor]:
        """Return the results of the graph."""
        if self._other is not None:
            return self._other(args)
        changed = [
            k
            for k, t in self._frozen.items()
            if (args[k] is not t and not _same(args[k], t)) or _version(t) != self._versions[k]
        ]
        if changed:
            # Weights that changed become inputs of the next program.
            log.info(
                "torch.compile: changed since the build and now inputs: %s",
                counted(len(changed), "weight"),
            )
            kept = {k: t for k, t in self._frozen.items() if k not in changed}
            self._other = Compiler().runner(self._graph, kept)
            return self._other(args)
        try:
            results = self._run(args)
        except _FAILURES as error:
            _warn("a call of %s runs in PyTorch: %s", counted(self._size, "node"), _said(error))
            _add(fallbacks=1, in_pytorch=self._size)
            return list(self._graph(*args))
        if _reports:
            _add(compiled=self._size)
        return results

    def _run(self, args: Sequence[TorchTensor]) -> list[TorchTensor]:
        import torch

        graph = self._found
        given = [torch.tensor(args[k]) if k in graph.numbers else args[k] for k in graph.inputs]
        found = self._program(*given)
        results = list(found) if isinstance(found, tuple | list) else [found]
        tensors = [r if isinstance(r, torch.Tensor) else torch.from_dlpack(r) for r in results]
        values = {"tensor": lambda v: tensors[v], "number": lambda v: tensors[v].item()}
        return [values[kind](v) if kind in values else v for kind, v in graph.outputs]


def _real_tensors() -> AbstractContextManager[None]:
    """Return a context in which PyTorch's operators compute on real tensors."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    context: AbstractContextManager[None] = unset_fake_temporarily()
    return context


def _same(a: TorchTensor, b: TorchTensor) -> bool:
    """Return whether two tensors share the same memory."""
    return bool(a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride())


def _version(tensor: TorchTensor) -> int:
    """Return a tensor's version counter; 0 for tensors of inference mode, which have none."""
    return 0 if tensor.is_inference() else int(tensor._version)


__all__ = ["Report", "backend", "reporting"]
