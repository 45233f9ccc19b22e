"""``torch.compile(model, backend="tvm_disc", dynamic=True)``.

PyTorch cuts a model into graphs and says which of their sizes may change; each graph becomes one
program, for all of its sizes. What cannot be compiled runs in PyTorch, and the log says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from tvm_disc.compile import build
from tvm_disc.errors import DiscError
from tvm_disc.frontends.torch.graph import Graph, from_graph, graph_decompositions
from tvm_disc.runtime.executable import Executable

log = logging.getLogger("tvm_disc")


def backend(module: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """What ``torch.compile`` calls for every graph.

    Parameters and buffers are constants of the program; it is made anew where one has changed.
    Graphs that need gradients, that are not on the CPU, or that have nodes without a rule run in
    PyTorch.
    """
    import torch
    from torch._dynamo.backends.common import aot_autograd

    own = [*dict(module.named_parameters(remove_duplicate=False)).values()]
    own += [*dict(module.named_buffers(remove_duplicate=False)).values()]
    inputs = [*own, *example_inputs]
    reason = _why_not(torch, inputs)
    if reason:
        log.warning("torch.compile: %s nodes run in PyTorch: %s", _size(module), reason)
        return module.forward  # type: ignore[no-any-return]
    fixed = {id(t) for t in own}
    frozen = {k: t for k, t in enumerate(inputs) if id(t) in fixed or _is_weight(torch, t)}

    def compiler(graph: Any, examples: Sequence[Any]) -> Callable[..., Any]:
        whole = len(examples) == len(inputs)
        return _boxed(Part(graph, frozen if whole else {}))

    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=dict(graph_decompositions()),
    )(module, example_inputs)
    return compiled


def _boxed(part: Part) -> Callable[..., Any]:
    """PyTorch gives the arguments as a list, which may be emptied."""

    def run(args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        return part(given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _size(module: Any) -> int:
    return sum(n.op.startswith("call") for n in module.graph.nodes)


def _is_weight(torch: Any, tensor: Any) -> bool:
    marked = getattr(tensor, "_dynamo_static_input_type", None) is not None
    return isinstance(tensor, torch.nn.Parameter) or marked


def _why_not(torch: Any, inputs: Sequence[Any]) -> str:
    """Why a graph cannot be compiled whatever it computes; empty where it can."""
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "gradients are needed; call the model inside torch.no_grad() to compile it"
    away = {str(t.device) for t in tensors if t.device.type != "cpu"}
    return f"its tensors are on {', '.join(sorted(away))}" if away else ""


class Part:
    """One graph of a model: a program, or the graph itself where that cannot be made."""

    def __init__(self, graph: Any, frozen: dict[int, Any]) -> None:
        self._graph = graph
        self._frozen = dict(frozen)
        self._versions: dict[int, int] = {}
        self._program: tuple[Graph, Executable] | None = None
        self._make()

    def _make(self) -> None:
        self._versions = {k: _version(t) for k, t in self._frozen.items()}
        try:
            # PyTorch compiles while its tensors have no data; weights have some.
            with _real_tensors():
                graph = from_graph(self._graph, self._frozen)
            self._program = graph, build(graph.module)
        except DiscError as error:
            count = _size(self._graph)
            log.warning("torch.compile: %s nodes run in PyTorch: %s", count, error)
            self._program = None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """The results of the graph."""
        if self._program is None:
            return list(self._graph(*args))
        changed = [
            k
            for k, t in self._frozen.items()
            if (args[k] is not t and not _same(args[k], t)) or _version(t) != self._versions[k]
        ]
        if changed:
            # What has changed once is an input from now on.
            log.info(
                "torch.compile: %s weights have changed, which makes them inputs", len(changed)
            )
            for k in changed:
                del self._frozen[k]
            self._make()
            return self(args)
        return self._run(args, *self._program)

    def _run(self, args: Sequence[Any], graph: Graph, program: Executable) -> list[Any]:
        import torch

        given = [torch.tensor(args[k]) if k in graph.numbers else args[k] for k in graph.inputs]
        found = program(*given)
        results = list(found) if isinstance(found, tuple | list) else [found]
        tensors = [r if isinstance(r, torch.Tensor) else torch.from_dlpack(r) for r in results]
        values = {"tensor": lambda v: tensors[v], "number": lambda v: tensors[v].item()}
        return [values[kind](v) if kind in values else v for kind, v in graph.outputs]


def _real_tensors() -> Any:
    """A context in which operators of PyTorch compute."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    return unset_fake_temporarily()


def _same(a: Any, b: Any) -> bool:
    """Whether two tensors are the same memory."""
    return bool(a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride())


def _version(tensor: Any) -> int:
    """How often a tensor was written into; those of inference mode do not count it."""
    return 0 if tensor.is_inference() else int(tensor._version)
