"""Encoders of text, images and sound with newer architectures, and detectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.zoo.causal import WINDOW
from benchmarks.zoo.encoders import HEADS, LAYERS, WIDTH, encoder
from benchmarks.zoo.row import first_tensors, floats, row, spread, spread_out

BATCH = [(2,), (1,), (3,), (5,), (7,), (4,)]
IMAGES = [(2, 64, 96), (1, 64, 64), (3, 32, 64), (1, 96, 32), (4, 64, 32), (2, 128, 96)]
IMAGE = {
    "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 2 * WIDTH, "image_size": 32, "patch_size": 8,
}  # fmt: skip


class Tensors(nn.Module):
    """A model of one input that returns the first tensor of its result, or several by name."""

    def __init__(self, model: nn.Module, *names: str, **given: Any) -> None:
        super().__init__()
        self.model, self.names, self.given = model, names, given

    def forward(self, x: Any) -> Any:
        made = self.model(x, **self.given)
        if self.names:
            return tuple(getattr(made, n) for n in self.names)
        return first_tensors(made)[0]


def of(model: str, config: str, *names: str, **sizes: Any) -> Callable[[], nn.Module]:
    """Return a function that makes a model of transformers with random weights."""

    def made() -> nn.Module:
        torch.manual_seed(0)
        settings = getattr(transformers, config)(**sizes)
        return Tensors(getattr(transformers, model)(settings), *names)

    return made


def images(
    name: str, make: Callable[[], nn.Module], size: int = 32, channels: int = 3, **how: bool
) -> None:
    """Add a row for a model of images of one size."""
    row(name, make, {"pixels": floats(f"b {channels} {size} {size}")}, "b", BATCH, **how)


def any_size(name: str, make: Callable[[], nn.Module]) -> None:
    """Add a row for a model of images whose height and width are multiples of 32."""
    limit = (1, 16)
    sizes = [(b, h // 32, w // 32) for b, h, w in IMAGES]
    row(name, make, {"pixels": floats("b 3 32*h 32*w")}, "b h w", sizes, h=limit, w=limit)


class Sam(nn.Module):
    """SAM: masks and their scores, for an image and points."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        vision = transformers.SamVisionConfig(
            hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=2, image_size=64,
            patch_size=8, output_channels=32, mlp_dim=64, window_size=4, num_pos_feats=16,
            global_attn_indexes=[1],
        )  # fmt: skip
        prompt = transformers.SamPromptEncoderConfig(
            hidden_size=32, image_size=64, patch_size=8, mask_input_channels=8
        )
        decoder = transformers.SamMaskDecoderConfig(
            hidden_size=32, mlp_dim=64, num_hidden_layers=2, num_attention_heads=2,
            iou_head_hidden_dim=32,
        )  # fmt: skip
        self.model = transformers.SamModel(
            transformers.SamConfig(
                vision_config=vision.to_dict(), prompt_encoder_config=prompt.to_dict(),
                mask_decoder_config=decoder.to_dict(),
            )
        )  # fmt: skip

    def forward(self, pixels: Any, points: Any) -> Any:
        made = self.model(pixel_values=pixels, input_points=points, multimask_output=True)
        return made.iou_scores, made.pred_masks


class RtDetr(nn.Module):
    """A detector without non-maximum suppression, which returns scores and boxes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        backbone = transformers.RTDetrResNetConfig(
            embedding_size=16, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1],
            layer_type="basic", out_features=["stage2", "stage3", "stage4"],
        )  # fmt: skip
        config = transformers.RTDetrConfig(
            backbone_config=backbone, encoder_hidden_dim=32, encoder_in_channels=[24, 32, 40],
            encoder_ffn_dim=64, encoder_layers=1, encoder_attention_heads=4, d_model=32,
            decoder_in_channels=[32, 32, 32], decoder_ffn_dim=64, decoder_layers=2,
            decoder_attention_heads=4, num_queries=12, num_labels=5, num_denoising=0,
            anchor_image_size=None, disable_custom_kernels=True,
        )  # fmt: skip
        self.model = transformers.RTDetrForObjectDetection(config)
        spread(self.model)

    def forward(self, pixels: Any) -> Any:
        made = self.model(pixels)
        return made.logits, made.pred_boxes


encoder(
    "modernbert", "ModernBertModel", "ModernBertConfig", local_attention=2 * WINDOW,
    global_attn_every_n_layers=2, pad_token_id=0, reference_compile=False,
)  # fmt: skip
encoder("roformer", "RoFormerModel", "RoFormerConfig", embedding_size=WIDTH)
encoder("convbert", "ConvBertModel", "ConvBertConfig", embedding_size=WIDTH, head_ratio=2)
encoder(
    "mobilebert", "MobileBertModel", "MobileBertConfig", embedding_size=32,
    intra_bottleneck_size=32, true_hidden_size=32,
)  # fmt: skip
encoder("esm", "EsmModel", "EsmConfig", pad_token_id=1, mask_token_id=2)
row(
    "sam", Sam, {"pixels": floats("b 3 64 64"), "points": floats("b k n 2")}, "b k n",
    [(2, 3, 4), (1, 1, 1), (1, 4, 2), (3, 2, 1), (2, 1, 5), (5, 2, 3)],
)  # fmt: skip
any_size("rt_detr", RtDetr)
images("dinov2", of("Dinov2Model", "Dinov2Config", **IMAGE))
images("siglip", of("SiglipVisionModel", "SiglipVisionConfig", **IMAGE))
images("beit", of("BeitModel", "BeitConfig", **IMAGE, use_relative_position_bias=True))
images("yolos", of("YolosForObjectDetection", "YolosConfig", "logits", "pred_boxes",
                   **{**IMAGE, "image_size": [32, 32]}, num_detection_tokens=6))  # fmt: skip
any_size(
    "segformer",
    of(
        "SegformerForSemanticSegmentation", "SegformerConfig", hidden_sizes=[16, 16, 32, 32],
        depths=[1, 1, 1, 1], decoder_hidden_size=32, num_attention_heads=[1, 1, 2, 2], num_labels=4,
    ),
)  # fmt: skip
any_size(
    "resnet",
    of("ResNetModel", "ResNetConfig", embedding_size=16, hidden_sizes=[16, 24, 32, 40],
       depths=[1, 1, 1, 1], layer_type="basic"),
)  # fmt: skip
any_size(
    "poolformer",
    of("PoolFormerModel", "PoolFormerConfig", hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1]),
)
images(
    "mobilevit",
    spread_out(
        of("MobileViTModel", "MobileViTConfig", hidden_sizes=[16, 24, 32],
           neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 40], image_size=64, num_attention_heads=2)
    ),
    64, static=True,
)  # fmt: skip
images(
    "swinv2",
    of("Swinv2Model", "Swinv2Config", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
       num_heads=[2, 4], window_size=4),
    static=True,
)  # fmt: skip
row(
    "hubert",
    of("HubertModel", "HubertConfig", hidden_size=WIDTH, num_hidden_layers=LAYERS,
       num_attention_heads=HEADS, intermediate_size=128, conv_dim=(32, 32, 32),
       conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16,
       num_conv_pos_embedding_groups=4),
    {"sound": floats("b t")}, "b t",
    [(1, 400), (2, 801), (3, 1601), (1, 1999), (5, 997), (2, 640)], t=(400, 100000),
)  # fmt: skip
row(
    "patchtst",
    of("PatchTSTModel", "PatchTSTConfig", num_input_channels=3, context_length=32, patch_length=8,
       patch_stride=8, d_model=32, num_hidden_layers=LAYERS, num_attention_heads=4, ffn_dim=64),
    {"series": floats("b 32 3")}, "b", BATCH,
)  # fmt: skip
