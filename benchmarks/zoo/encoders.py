"""Encoders of text."""

from __future__ import annotations

from typing import Any

import transformers
from torch import nn

from benchmarks.zoo.row import VOCABULARY, ids, mask, row

TEXT = ((1, 1), (1, 7), (2, 13), (3, 31), (1, 64), (5, 17), (0, 5))
WIDTH, HEADS, LAYERS, POSITIONS = 64, 4, 2, 128
COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": POSITIONS,
}  # fmt: skip


class Masked(nn.Module):
    """A model that takes token ids and a mask, and returns its first result."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, mask: Any) -> Any:
        return self.model(ids, attention_mask=mask)[0]


def encoder(name: str, model: str, config: str, **sizes: Any) -> None:
    """Add a row for an encoder of transformers."""

    def make() -> nn.Module:
        settings = getattr(transformers, config)(**{**COMMON, **sizes})
        return Masked(getattr(transformers, model)(settings))

    row(name, make, {"ids": ids("b s"), "mask": mask()}, "b s", TEXT, s=(1, 126))


encoder("bert", "BertModel", "BertConfig")
encoder("bert_classifier", "BertForSequenceClassification", "BertConfig")
encoder("bert_answers", "BertForQuestionAnswering", "BertConfig")
encoder("bert_mlm", "BertForMaskedLM", "BertConfig")
encoder(
    "distilbert", "DistilBertModel", "DistilBertConfig",
    dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, hidden_dim=2 * WIDTH,
)  # fmt: skip
encoder("albert", "AlbertModel", "AlbertConfig", embedding_size=32)
encoder("roberta", "RobertaModel", "RobertaConfig", max_position_embeddings=POSITIONS + 2)
encoder("xlm_roberta", "XLMRobertaModel", "XLMRobertaConfig", max_position_embeddings=POSITIONS + 2)
encoder(
    "deberta_v2", "DebertaV2Model", "DebertaV2Config",
    relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16,
    norm_rel_ebd="layer_norm", share_att_key=True,
)  # fmt: skip
encoder("electra", "ElectraModel", "ElectraConfig", embedding_size=32)
encoder("mpnet", "MPNetModel", "MPNetConfig", max_position_embeddings=POSITIONS + 2)
encoder("squeezebert", "SqueezeBertModel", "SqueezeBertConfig", embedding_size=WIDTH)
