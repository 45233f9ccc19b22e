"""Graphs of ``torch.compile`` of which some nodes run in PyTorch and the rest in programs."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.programs import tensors  # noqa: E402
from tvm_disc import dynamo  # noqa: E402
from tvm_disc.errors import GuardFailed, Unsupported  # noqa: E402
from tvm_disc.frontends.torch.partition import computes, count, prefix, split  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# -- the shape of a partition, on random graphs ------------------------------------------------


def drawn(rng: random.Random) -> Any:
    """Return a random graph over matrices ``[n, 4]`` with symbolic ``n``."""

    def function(x: Any, y: Any) -> Any:
        pool = [x, y]
        for _ in range(rng.randint(4, 25)):
            a, b = rng.choice(pool), rng.choice(pool)
            made = rng.choice(
                [
                    lambda a, b: a + b,
                    lambda a, b: a * 0.5 - b,
                    lambda a, b: torch.relu(a),
                    lambda a, b: torch.softmax(a, -1),
                    lambda a, b: a - b.sum(0, keepdim=True) / b.shape[0],
                    lambda a, b: a.t().contiguous().view(-1).view(4, -1).t(),
                    lambda a, b: torch.cat([a, b])[: a.shape[0]],
                    lambda a, b: a.topk(4, -1)[0] + b,
                    lambda a, b: a.unsqueeze(0).expand(2, -1, -1).sum(0),
                ]
            )(a, b)
            pool.append(made)
        return [rng.choice(pool) for _ in range(rng.randint(1, 3))] + [pool[-1]]

    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(function, tracing_mode="symbolic")(torch.ones(5, 4), torch.ones(5, 4))
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def barriers(graph: Any, refused: set[str]) -> int:
    """Return how often the worst path goes from supported nodes to refused ones and back."""
    found: dict[Any, int] = {}
    for node in graph.graph.nodes:
        before = [n for n in node.all_input_nodes if n in found]
        own = node.name in refused
        steps = [found[n] + (own and n.name not in refused and computes(n)) for n in before]
        found[node] = max(steps, default=0)
    return max(found.values(), default=0)


@pytest.mark.parametrize("seed", range(40))
def test_parts_compute_the_graph(seed: int) -> None:
    rng = random.Random(seed)
    graph = drawn(rng)
    names = [n.name for n in graph.graph.nodes if computes(n)]
    refused = set(rng.sample(names, rng.randint(1, max(1, len(names) // 4))))
    found = split(graph, refused)
    if found is None:
        assert len(names) - len(refused) < len(names)
        return
    joined = found.joined([lambda args, p=p: p.graph(*args) for p in found.parts])
    joined.graph.lint()
    for n in (5, 9):
        given = tensors((n, 4), (n, 4), seed=n)
        for got, want in zip(joined(*given), graph(*given), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    inside = {n.name for p in found.parts for n in p.graph.graph.nodes if computes(n)}
    assert not inside & refused
    assert len(found.parts) <= barriers(graph, refused) + 1


@pytest.mark.parametrize("seed", range(10))
def test_prefixes_grow_by_one_operator(seed: int) -> None:
    graph = drawn(random.Random(seed))
    operators = [n.name for n in graph.graph.nodes if computes(n)]
    for length in range(1, len(operators) + 1):
        part = prefix(graph, length)
        assert count(part.graph) == length and part.last == operators[length - 1]


def test_a_graph_that_reads_its_writes_is_not_split() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x: Any) -> Any:
        return torch.relu(x.add_(1)) * 2

    graph = make_fx(function, tracing_mode="symbolic")(torch.ones(3))
    assert split(graph, {"relu"}) is None


# -- programs and PyTorch side by side ---------------------------------------------------------


class Layers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Weights on both sides of an operator without a rule."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        return torch.softmax(self.last(torch.fft.fft(y).real), -1)


def spectrum(x: Any) -> Any:
    y = torch.softmax(x, -1)
    return torch.fft.fft(y).real + y.sum(-1, keepdim=True)


def twice(x: Any) -> Any:
    y = torch.fft.fft(torch.softmax(x, -1)).real
    return torch.fft.ifft(torch.tanh(y) + x).real * 2 + y


def transposed(x: Any) -> Any:
    """A view that PyTorch's strides allow, of a result of a program."""
    y = torch.softmax(x, -1).transpose(0, 1)
    z = torch.fft.fft(y).real
    return z.transpose(0, 1).reshape(-1) + y.transpose(0, 1).reshape(-1), y * 2


def of_both(x: Any) -> Any:
    """Sizes that only the data knows cross the border."""
    y = torch.relu(x)
    z = torch.fft.fft(y).real
    kept = torch.masked_select(z, z > 0)
    return kept * 2 + kept.sum(), kept.shape[0] * y


def fields(x: Any) -> Any:
    values, places = torch.topk(torch.fft.fft(x).real + x, 3, -1)
    a, b = torch.chunk(torch.relu(values @ values.T), 2, 0)
    return a.sum() + b.sum(), places + 1


def writes(x: Any) -> Any:
    """An input is written into, after everything has read it."""
    y = torch.fft.fft(x * 2).real
    z = torch.relu(y) + x
    x.add_(z)
    return z * 3


def of_complex(x: Any) -> Any:
    """An input that no program takes."""
    y = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.relu(y.real) * 2 + 1, (y * y).imag


@pytest.mark.parametrize(
    ("function", "shapes", "most"),
    [
        (spectrum, [(5, 6), (9, 4), (3, 8)], 2),
        (twice, [(5, 6), (9, 4), (3, 8)], 6),
        (transposed, [(5, 6), (9, 4), (3, 8)], 2),
        (of_both, [(5, 6), (9, 4), (3, 8)], 2),
        (fields, [(6, 6), (8, 4), (4, 8)], 2),
        (writes, [(5, 6), (9, 4), (3, 8)], 3),
        (of_complex, [(5, 6), (9, 4), (3, 8)], 6),
        (Layers().eval(), [(5, 6), (9, 6), (3, 6)], 2),
    ],
    ids=["spectrum", "twice", "transposed", "of_both", "fields", "writes", "complex", "weights"],
)
def test_the_rest_is_compiled(
    function: Any, shapes: Sequence[Any], most: int, caplog: pytest.LogCaptureFixture
) -> None:
    """At most ``most`` operators run in PyTorch, and at least one in a program."""
    fast = torch.compile(function, backend=dynamo.backend, dynamic=True)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "tvm_disc"):
        for k, shape in enumerate(shapes):
            (x,) = tensors(shape, seed=k)
            a, b = x.clone(), x.clone()
            with dynamo.reporting() as report:
                found, wanted = fast(a), function(b)
            torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
            assert report.compiled and 0 < report.in_pytorch <= most, report
            assert not report.fallbacks
    assert "run in PyTorch" in caplog.text


def test_random_numbers_keep_their_order() -> None:
    def function(x: Any) -> Any:
        y = torch.relu(torch.softmax(x, -1)) + torch.rand_like(x)
        return y * torch.tanh(x) + torch.rand_like(x)

    fast = torch.compile(function, backend=dynamo.backend, dynamic=True)
    (x,) = tensors((5, 6))
    with torch.no_grad(), dynamo.reporting() as report:
        torch.manual_seed(3)
        found = fast(x)
        torch.manual_seed(3)
        torch.testing.assert_close(found, function(x))
    assert report.compiled


@pytest.mark.parametrize(
    ("function", "given"),
    [(lambda: (), []), (lambda x: (x,), [3]), (lambda x: (x, None), [4])],
    ids=["nothing", "input", "none"],
)
def test_graphs_without_operators(
    function: Any, given: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """PyTorch also asks to compile graphs of which nothing is left; no warning is due."""
    graph = torch.fx.symbolic_trace(function)
    with caplog.at_level(logging.WARNING, "tvm_disc"):
        assert tuple(dynamo.Compiler().runner(graph, {})(given)) == function(*given)
    assert not caplog.records


# -- failures that no node is known to cause ---------------------------------------------------


def chain(x: Any) -> Any:
    for k in range(10):
        x = torch.sigmoid(x) * (k + 1)
    x = torch.tanh(x) + 1
    for k in range(6):
        x = torch.relu(x - k)
    return x


@pytest.mark.parametrize("raised", [Unsupported("too hard"), KeyError("k"), RuntimeError("tvm")])
def test_the_node_that_breaks_a_build_is_searched(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    real: Callable[..., Any] = dynamo.build
    tried = []

    def build(module: Any) -> Any:
        tried.append(module)
        if "tanh(" in str(module):
            raise raised
        return real(module)

    monkeypatch.setattr(dynamo, "build", build)
    fast = torch.compile(chain, backend=dynamo.backend, dynamic=True)
    (x,) = tensors((5, 6))
    with torch.no_grad(), dynamo.reporting() as report:
        torch.testing.assert_close(fast(x), chain(x), rtol=2e-5, atol=2e-5)
    assert report.in_pytorch == 1 and report.compiled == 33, report
    assert len(tried) <= 9


def test_builds_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def build(module: Any) -> Any:
        tried.append(module)
        raise Unsupported("nothing at all")

    monkeypatch.setattr(dynamo, "build", build)
    monkeypatch.setattr(dynamo, "MOST_BUILDS", 5)
    fast = torch.compile(chain, backend=dynamo.backend, dynamic=True)
    (x,) = tensors((5, 6))
    with torch.no_grad(), dynamo.reporting() as report:
        torch.testing.assert_close(fast(x), chain(x))
    assert len(tried) == 5 and report.in_pytorch == 34 and not report.compiled


@pytest.mark.parametrize(
    "raised", [GuardFailed("s must be even"), ValueError("negative dimensions")]
)
def test_a_call_that_a_program_refuses_runs_in_pytorch(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    real: Callable[..., Any] = dynamo.build

    def build(module: Any) -> Any:
        program = real(module)

        def run(x: Any) -> Any:
            if x.shape[0] % 2:
                raise raised
            return program(x)

        return run

    monkeypatch.setattr(dynamo, "build", build)
    fast = torch.compile(chain, backend=dynamo.backend, dynamic=True)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "tvm_disc"):
        for n, fallbacks in ((4, 0), (5, 1), (8, 0), (7, 1)):
            (x,) = tensors((n, 3))
            caplog.clear()
            with dynamo.reporting() as report:
                torch.testing.assert_close(fast(x), chain(x), rtol=2e-5, atol=2e-5)
            assert report.fallbacks == fallbacks == len(caplog.records)
            assert (report.share == 0) == bool(fallbacks)
            assert str(raised.args[0]) in caplog.text or not fallbacks


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), TimeoutError("mine"), MemoryError()])
def test_exceptions_of_others_pass_through(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    def build(module: Any) -> Any:
        def run(x: Any) -> Any:
            raise raised

        return run

    monkeypatch.setattr(dynamo, "build", build)
    fast = torch.compile(torch.relu, backend=dynamo.backend, dynamic=True)
    with torch.no_grad(), pytest.raises(type(raised)):
        fast(*tensors((5, 6)))
