"""Reductions, shapes, indices, scatters, products and norms of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import check, exported, tensors  # noqa: E402
from tvm_disc.errors import Unsupported  # noqa: E402

F = torch.nn.functional
SIZES = (5, 2, 3, 17, 257)


def test_reductions() -> None:
    def many(x: Any, i: Any) -> Any:
        return (
            x.sum(), x.sum(0), x.mean((0, -1), keepdim=True), x.amax(1), x.amin((0, 1)), i.sum(),
            i.to(torch.int32).sum(1), (x > 0).sum(0), (x > 0).any(), (x > 0).all(1), i.prod(1),
            x.std(), x.var(1), x.var((0, 2), correction=0), *torch.var_mean(x, 1), x.max(), i.min(),
            *x.max(1), *x.min(-1, keepdim=True), x.argmax(), x.argmax(1), x.argmin(2, keepdim=True),
            x.logsumexp((0, 2)), x.norm(), x.norm(1, dim=1), torch.linalg.vector_norm(x, 3, dim=2),
            torch.linalg.vector_norm(x, float("inf")), x.cumsum(0), (x * 0.1).cumprod(1),
            torch.count_nonzero(i, 1), torch.logcumsumexp(x, 0), *torch.median(x, 1),
        )  # fmt: skip

    def given(n: int) -> tuple[Any, ...]:
        x, y = tensors((n, 3, 4), (n, 3))
        return x, (y * 4).to(torch.int64)

    check(many, [given(n) for n in SIZES], "n _ _", "n _", tolerance=5e-5)


def test_shapes() -> None:
    def many(x: Any) -> Any:
        n, s = x.shape[:2]
        return (
            x.reshape(n * s, 4), x.view(n, -1), x.flatten(), x.permute(2, 0, 1), x.transpose(0, 1),
            x.unsqueeze(1).expand(-1, 3, -1, -1), x[:, :1].squeeze(1), torch.cat([x, x * 2], 1),
            torch.stack([x, -x], -1), *x.split(2, -1), *x.chunk(2, -1), *x.unbind(-1),
            x.flip(0, 2), x.roll(1, 0), x.roll((1, -2), (1, 2)), x.repeat(1, 2, 3),
            x.repeat_interleave(2, 1), x.tril(), x.triu(1), x.diagonal(0, 0, 1), x.unfold(2, 2, 1),
            x[:, 1:], x[..., 1::2], x[-1], x[:, -2:], x[:, :-1], x[..., -1], x.narrow(1, 0, 2),
            torch.tile(x, (2, 1, 1)), x.swapaxes(0, 2), torch.atleast_3d(x[0]), x.movedim(0, -1),
            torch.broadcast_to(x[:, :1], x.shape),
        )  # fmt: skip

    cases = [tensors((n, s, 4)) for n, s in ((5, 3), (2, 2), (3, 7), (17, 2), (64, 33))]
    check(many, cases, "n ? _")


def test_padding() -> None:
    def many(x: Any) -> Any:
        return (
            F.pad(x, (1, 2)), F.pad(x, (1, 2, 0, 3), value=1.5), F.pad(x, (-1, 0)),
            F.pad(x, (1, 1, 2, 2), mode="reflect"), F.pad(x, (2, 1, 1, 0), mode="replicate"),
            F.pad(x, (1, 1, 1, 1), mode="circular"), F.pad(x, (0, x.shape[-1])),
        )  # fmt: skip

    cases = [tensors((2, 3, h, w)) for h, w in ((5, 6), (3, 3), (7, 4), (33, 17), (64, 65))]
    check(many, cases, "_ _ ? ?")


def test_creation() -> None:
    def many(x: Any) -> Any:
        n = x.shape[0]
        return (
            torch.zeros(n, 2), torch.ones_like(x), torch.full((n,), 3), torch.arange(n),
            torch.arange(1, 2 * n, 2), torch.linspace(0, 1, 7), torch.eye(n), torch.eye(3, 4),
            x.new_zeros(2, n), torch.tril(torch.ones(n, n)), torch.arange(0, 1, 0.3),
            F.one_hot(torch.arange(n) % 3, 3), *torch.meshgrid(x, torch.arange(2.0), indexing="ij"),
        )  # fmt: skip

    check(many, [tensors((n,)) for n in (5, 2, 3, 17, 130)], "n")


def test_steps_that_are_sizes() -> None:
    """The bags of a matrix of indices begin every so many of them."""
    table = tensors((40, 6))[0]

    def many(x: Any) -> Any:
        b, s = x.shape
        bags = [F.embedding_bag(x, table, mode=mode) for mode in ("sum", "mean", "max")]
        return torch.arange(0, b * s, s), torch.arange(1, b * s, s), *bags

    rng = np.random.default_rng(1)
    sizes = ((3, 4), (1, 1), (1, 7), (5, 13), (31, 2), (64, 3))
    check(many, [(torch.from_numpy(rng.integers(0, 40, s)),) for s in sizes], "b s")


def test_sorting() -> None:
    def many(x: Any, edges: Any) -> Any:
        order = torch.argsort(x, dim=1, descending=True)
        return (
            *x.sort(1), *x.topk(2, 1), *x.topk(3, -1, largest=False), order,
            torch.bucketize(x, edges), torch.searchsorted(edges, x, right=True),
            *x.kthvalue(2, 1), torch.sort(x, 0).values,
        )  # fmt: skip

    edges = torch.tensor([-1.0, 0.0, 0.5, 2.0])
    check(many, [(*tensors((n, 7)), edges) for n in SIZES], "n _", "_")


def test_top_of_a_number_known_to_the_call() -> None:
    def many(x: Any, count: Any) -> Any:
        torch._check(count.shape[0] <= x.shape[0])
        return (*x.topk(count.shape[0], 0), *x.topk(count.shape[0], 0, largest=False))

    sizes = ((6, 3), (5, 0), (2, 2), (17, 1), (64, 20))
    check(many, [tensors((n, 4), (k,)) for n, k in sizes], "n _", "k")


def test_medians() -> None:
    """Of a number of elements that is known to the call, and of NaNs."""

    def many(x: Any) -> Any:
        some = torch.where(x > 1, float("nan"), x)
        whole = (x * 8).int()
        return (
            x.median(), *x.median(0), *x.median(1, keepdim=True), whole.median(0).values,
            some.median(0).values, some.median(1).values, some.median(),
        )  # fmt: skip

    check(many, [tensors((n, 5)) for n in SIZES], "n _")


def test_numbers_as_results() -> None:
    """A float of the data is one, and no integer."""

    def many(x: Any) -> Any:
        total = x.sum().item()
        return x * total, torch.full((2,), total)

    check(many, [tensors((n, 5)) for n in SIZES], "n _")
    x = tensors((3,), seed=5)[0]
    alone = tvm_disc.build(exported(lambda x: x.sum().item(), (x,), "n"))
    np.testing.assert_allclose(alone(x), x.sum(), rtol=1e-6)


def test_distinct_elements_alone() -> None:
    def many(x: Any) -> Any:
        return torch.unique(x.round()), *torch.unique(x.round(), return_counts=True)

    check(many, [tensors((n, 5)) for n in SIZES], "n _")


def test_bits_and_exponents() -> None:
    def many(x: Any) -> Any:
        whole = (x * 8).int()
        return (
            x.view(torch.int32), whole.view(torch.float32), torch.signbit(x), torch.signbit(whole),
            torch.signbit(x.double()), torch.signbit(x > 0), torch.ldexp(x, whole),
        )  # fmt: skip

    check(many, [tensors((n, 5)) for n in SIZES], "n _")
    narrow = exported(lambda x: x.view(torch.int16), tensors((2, 3)), "n _")
    with pytest.raises(
        Unsupported, match="expected a view as a type of the same size as float32, found int16"
    ):
        tvm_disc.build(narrow)


def test_repeats_by_counts() -> None:
    """The number of the result's rows is known to the data only."""
    rng = np.random.default_rng(3)
    cases = [
        (*tensors((n, 3), seed=n), torch.from_numpy(rng.integers(0, 5, n)))
        for n in (5, 1, 2, 31, 64)
    ]
    check(lambda x, counts: x.repeat_interleave(counts, 0), cases, "n _", "n")


@pytest.mark.parametrize("invert", [False, True])
def test_membership_in_tests_of_any_number(invert: bool) -> None:
    few, none = torch.tensor([[1, 7], [3, 40]]), torch.empty(0, dtype=torch.int64)

    def member(x: Any) -> Any:
        others = [none, few, x]
        found = [torch.isin(a, b, invert=invert) for a in (few, x) for b in others]
        return [*found, torch.isin(x, 2), torch.isin(3, x), torch.isin(few.double(), x / 2)]

    check(member, [(torch.arange(n) * 3 % 17,) for n in (9, 0, 1, 2, 33)], "n")


def test_repeats_by_a_size() -> None:
    class Repeated(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.repeat_interleave(y.shape[0], 0), x.repeat_interleave(y.shape[0], -1)

    module = Repeated()
    exe = tvm_disc.build(module, example_inputs=tensors((3, 4), (5, 2), seed=0))
    for n, m in ((3, 5), (1, 1), (2, 7), (0, 3), (17, 4)):
        x, y = tensors((n, 4), (m, 2), seed=n)
        for got, want in zip(exe(x, y), module(x, y), strict=True):
            assert torch.equal(got, want)


def test_scatters() -> None:
    def many(x: Any, i: Any, v: Any) -> Any:
        y, z = x.clone(), x.clone()
        y[:, 1] = v[:, 0]
        z[1:, ::2] = 3.0
        return (
            x.gather(1, i), x.scatter(1, i, v), x.scatter(1, i, 2.5), x.scatter_add(1, i, v),
            x.scatter_reduce(1, i, v, "amax"), x.scatter_reduce(1, i, v, "prod"),
            x.scatter_reduce(1, i, v, "mean", include_self=False),
            x.index_add(1, i[0], v), x.index_fill(1, i[0], 1.0),
            x.index_copy(1, i[0, :1], v[:, :1]), y, z, x.masked_fill(x > 0, 0.0),
            x.masked_scatter(x > 0, v.repeat(1, 3)), x.select_scatter(v[:, 0], 1, -1),
            x.slice_scatter(v, 1, 2, 4), torch.diagonal_scatter(x[:2, :2], v[0]),
        )  # fmt: skip

    def given(n: int) -> tuple[Any, ...]:
        x, v = tensors((n, 6), (n, 2))
        places = torch.tensor([[0, 5], [3, 1]]).repeat(n, 1)[:n]
        return x, places, v

    check(many, [given(n) for n in SIZES], "? _", "? _", "? _")


def test_scatters_of_truth_values_and_of_what_is_no_number() -> None:
    def many(x: Any, i: Any, v: Any) -> Any:
        truth, nan = x > 0, torch.where(v > 1, torch.nan, v)
        return (
            truth.index_add(1, i[0], v > 0), truth.scatter_add(1, i, v > 0),
            truth.scatter_reduce(1, i, v > 0, "prod"), truth.scatter_reduce(1, i, v > 0, "amax"),
            x.scatter_reduce(1, i, nan, "amax"), x.scatter_reduce(1, i, nan, "amin"),
        )  # fmt: skip

    def given(n: int) -> tuple[Any, ...]:
        x, v = tensors((n, 6), (n, 2))
        return x, torch.tensor([[0, 5], [3, 1]]).repeat(n, 1)[:n], v

    check(many, [given(n) for n in SIZES], "? _", "? _", "? _")


def test_masks_that_index() -> None:
    def many(x: Any) -> Any:
        y, z = x.clone(), x.clone()
        y[x > 0] = 7.0
        z[x[:, 0] > 0] = 1.0
        return y, z, x[x > 0.5], x[x[:, 0] > 0]

    check(many, [tensors((n, 3), seed=n) for n in SIZES], "n _")


def test_products() -> None:
    def many(x: Any, y: Any, v: Any) -> Any:
        return (
            x @ y, torch.bmm(x, y), x @ y[0], x[0] @ v, v @ y[0], torch.dot(v, v),
            torch.baddbmm(x @ y, x, y, beta=0.5, alpha=2), torch.addmm(v, x[0], y[0][:, :4]),
            torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij,j->bi", x, v),
            F.linear(x, y[0].T[:3], v[:3]), torch.outer(v, v), torch.cdist(y, y), x.mT @ x,
        )  # fmt: skip

    def given(b: int, s: int) -> tuple[Any, ...]:
        return tensors((b, s, 4), (b, 4, 6), (4,))

    cases = [given(b, s) for b, s in ((3, 5), (2, 2), (1, 7), (4, 33), (2, 128))]
    check(many, cases, "b ? _", "b _ _", "_", tolerance=5e-5)


@pytest.mark.parametrize("how", ["plain", "causal", "bool", "float", "gqa"])
def test_attention(how: str) -> None:
    def attend(q: Any, k: Any, mask: Any) -> Any:
        if how == "gqa":
            return F.scaled_dot_product_attention(q, k[:, :2], k[:, :2], enable_gqa=True)
        kinds = {"bool": mask > -0.5, "float": mask}
        return F.scaled_dot_product_attention(
            q, k, k, attn_mask=kinds.get(how), is_causal=how == "causal", scale=0.3
        )

    def given(b: int, s: int) -> tuple[Any, ...]:
        q, k, mask = tensors((b, 4, s, 8), (b, 4, s, 8), (s, s))
        mask[0] = -1.0  # of this query every key is hidden
        return q, k, mask

    cases = [given(b, s) for b, s in ((2, 5), (1, 2), (3, 7), (2, 64), (1, 130))]
    check(attend, cases, "b _ s _", "b _ s _", "s s", tolerance=5e-5)


def test_norms() -> None:
    def many(x: Any, w: Any) -> Any:
        return (
            F.layer_norm(x, (6,), w, w), F.layer_norm(x, (4, 6)), F.group_norm(x, 2, w[:4], w[:4]),
            F.instance_norm(x), F.batch_norm(x, w[:4], w[:4].abs(), w[:4], w[:4]),
            F.rms_norm(x, (6,), w), F.softmax(x, 1), F.log_softmax(x, -1), F.normalize(x, dim=1),
            F.local_response_norm(x, 3), F.softmin(x, 2),
        )  # fmt: skip

    check(many, [tensors((n, 4, 6), (6,)) for n in SIZES], "n _ _", "_", tolerance=5e-5)


def test_a_median_of_unknown_many() -> None:
    def many(x: Any) -> Any:
        return (*torch.median(x, 0), *torch.nanmedian(x, 0))

    check(many, [tensors((n, 3)) for n in (5, 1, 2, 8, 33)], "n _")


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_a_border_of_dynamic_width(mode: str) -> None:
    def padded(x: Any) -> Any:
        return F.pad(x, (x.shape[-1] - 1, 0), mode=mode)

    check(padded, [tensors((2, 3, n)) for n in SIZES], "_ _ n", tolerance=0)
