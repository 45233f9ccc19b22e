"""Models of recommendation, mixtures of experts, graphs and point clouds."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from benchmarks.zoo.row import VOCABULARY, floats, ids, row

WIDTH = 16
ONE = [(1,), (2,), (7,), (31,), (128,), (0,), (5,)]
TWO = ((1, 1), (1, 7), (2, 13), (3, 31), (1, 64), (5, 17))


def mlp(*widths: int) -> nn.Module:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inner, outer in itertools.pairwise(widths):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Dlrm(nn.Module):
    """DLRM: dense features, embeddings of sparse features, all their dot products, and a score."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom, self.top = mlp(13, 64, WIDTH), mlp(WIDTH + 10, 64, 1)
        self.tables = nn.ModuleList([nn.Embedding(VOCABULARY, WIDTH) for _ in range(4)])

    def forward(self, dense: Any, sparse: Any) -> Any:
        x = self.bottom(dense)
        found = torch.stack([x] + [t(sparse[:, k]) for k, t in enumerate(self.tables)], 1)
        products = found @ found.transpose(1, 2)
        rows, columns = torch.tril_indices(5, 5, -1)
        return self.top(torch.cat([x, products[:, rows, columns]], 1)).sigmoid()


class DeepFm(nn.Module):
    """DeepFM: a factorization machine and a deep network over the same embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.table = nn.Embedding(VOCABULARY, 1), nn.Embedding(VOCABULARY, WIDTH)
        self.deep = mlp(6 * WIDTH, 64, 1)

    def forward(self, features: Any) -> Any:
        e = self.table(features)
        pairs = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1, keepdim=True)
        return (self.linear(features).sum(1) + pairs + self.deep(e.flatten(1))).sigmoid()


class Dense(nn.Module):
    """A mixture of experts in which every expert computes every token, weighted by the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.first = nn.Parameter(torch.randn(4, WIDTH, 32) / 4)
        self.second = nn.Parameter(torch.randn(4, 32, WIDTH) / 4)

    def forward(self, x: Any) -> Any:
        gate = self.gate(x).softmax(-1)
        inner = torch.einsum("bsd,edf->ebsf", x, self.first).relu()
        made = torch.einsum("ebsf,efd->ebsd", inner, self.second)
        return torch.einsum("ebsd,bse->bsd", made, gate)


class TopK(Dense):
    """A mixture of experts in which only the two best experts of a token have nonzero weights."""

    def forward(self, x: Any) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        gate = torch.zeros_like(self.gate(x)).scatter(-1, chosen, weights)
        gate = gate / gate.sum(-1, keepdim=True)
        inner = torch.einsum("bsd,edf->ebsf", x, self.first).relu()
        made = torch.einsum("ebsf,efd->ebsd", inner, self.second)
        return torch.einsum("ebsd,bse->bsd", made, gate)


class Sparse(Dense):
    """A mixture of experts in which each expert computes only its tokens, a data-dependent
    number.
    """

    def forward(self, x: Any) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        made = torch.zeros_like(x)
        for k in range(4):
            token, slot = torch.where(chosen == k)
            inner = (x[token] @ self.first[k]).relu() @ self.second[k]
            made = made.index_add(0, token, inner * weights[token, slot, None])
        return made


def sums(values: Any, target: Any, count: int) -> Any:
    """Return for each target the sum of its values."""
    index = target.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return torch.zeros(count, *values.shape[1:]).scatter_add(0, index, values)


class Gcn(nn.Module):
    """A graph network of two layers; degrees and sums over edges are computed by scatter."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, WIDTH), nn.Linear(WIDTH, 4)])

    def forward(self, x: Any, edges: Any) -> Any:
        source, target = edges[0], edges[1]
        degree = 1 + sums(torch.ones(target.shape[0]), target, x.shape[0])
        scale = degree.rsqrt()
        for k, layer in enumerate(self.layers):
            y = layer(x) * scale[:, None]
            x = (y + sums(y[source], target, x.shape[0])) * scale[:, None]
            x = x.relu() if k == 0 else x
        return x


class GraphAttention(nn.Module):
    """Attention over the edges of each node; maxima and sums are computed by scatter."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.ends = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x: Any, edges: Any) -> Any:
        source, target = edges[0], edges[1]
        y = self.layer(x)
        ends = self.ends(y)
        score = nn.functional.leaky_relu(ends[source, 0] + ends[target, 1])
        most = torch.full((x.shape[0],), -1e9).scatter_reduce(0, target, score, "amax")
        weight = (score - most[target]).exp()
        total = sums(weight, target, x.shape[0])
        weight = weight / total[target]
        return sums(y[source] * weight[:, None], target, x.shape[0])


class PointNet(nn.Module):
    """PointNet: an alignment of the points, shared layers, and the maximum over all points."""

    def __init__(self) -> None:
        super().__init__()
        self.align, self.matrix = self.shared(3, 32), mlp(32, 16, 9)
        self.points, self.head = self.shared(3, 32, 64), mlp(64, 32, 10)

    def shared(self, *widths: int) -> nn.Module:
        """Return layers that are applied to every point."""
        parts = [
            nn.Sequential(nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU())
            for i, o in itertools.pairwise(widths)
        ]
        return nn.Sequential(*parts)

    def forward(self, points: Any) -> Any:
        matrix = self.matrix(self.align(points).amax(2)).view(-1, 3, 3) + torch.eye(3)
        points = torch.bmm(matrix, points)
        return self.head(self.points(points).max(2).values).log_softmax(1)


class Bag(nn.Module):
    """An embedding bag; all bags have one length."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(VOCABULARY, WIDTH, mode=mode), nn.Linear(WIDTH, 3)

    def forward(self, ids: Any) -> Any:
        return self.head(self.bag(ids))


class Ragged(Bag):
    """An embedding bag with bags of different lengths, given by the offset of each bag."""

    def forward(self, ids: Any, offsets: Any) -> Any:  # type: ignore[override]
        return self.head(self.bag(ids, offsets.cumsum(0) - offsets[0]))


row("dlrm", Dlrm, {"dense": floats("b 13"), "sparse": ids("b 4")}, "b", ONE)
row("deepfm", DeepFm, {"features": ids("b 6")}, "b", ONE)
row("experts_dense", Dense, {"x": floats("b s 16")}, "b s", TWO)
row("experts_top2", TopK, {"x": floats("b s 16")}, "b s", TWO)
row("experts_sparse", Sparse, {"x": floats("n 16")}, "n", ONE)
EDGES = {"x": floats("n 8"), "edges": ids("2 e", low=0, high=5)}
GRAPHS = ((5, 1), (7, 2), (5, 7), (13, 31), (64, 101), (31, 2), (7, 0))
row("gcn", Gcn, EDGES, "n e", GRAPHS, n=(5, None))
row("graph_attention", GraphAttention, EDGES, "n e", GRAPHS, n=(5, None))
row("pointnet", PointNet, {"points": floats("b 3 n")}, "b n", TWO)
row("embedding_bag_sum", lambda: Bag("sum"), {"ids": ids("b s")}, "b s", TWO)
row("embedding_bag_mean", lambda: Bag("mean"), {"ids": ids("b s")}, "b s", TWO)
row("embedding_bag_max", lambda: Bag("max"), {"ids": ids("b s")}, "b s", TWO)
row(
    "embedding_bag_ragged", lambda: Ragged("sum"),
    {"ids": ids("n"), "offsets": ids("b", high=3, low=1)}, "n b",
    [(16, 2), (31, 3), (64, 7), (64, 1), (97, 13), (5, 1)],
)  # fmt: skip
