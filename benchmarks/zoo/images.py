"""Models of images: transformers, and small convolutional networks of torchvision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from torch import nn
from torchvision import models as tv
from torchvision.models import segmentation
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.efficientnet import MBConvConfig
from torchvision.models.mobilenetv3 import InvertedResidualConfig
from torchvision.models.regnet import BlockParams

from benchmarks.export_models import Pixels
from benchmarks.zoo.encoders import Masked
from benchmarks.zoo.row import floats, ids, mask, row, spread_out

BATCH = [(1,), (2,), (3,), (5,), (7,), (11,), (0,)]
IMAGES = ((1, 64, 64), (2, 65, 97), (3, 48, 80), (1, 101, 37), (5, 64, 33), (2, 128, 96))
SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip


def fixed(name: str, make: Callable[[], nn.Module], size: int = 32) -> None:
    """Add a row for a model whose images all have one size."""
    row(name, make, {"pixels": floats(f"b 3 {size} {size}")}, "b", BATCH)


def sized(name: str, make: Callable[[], nn.Module], least: int = 32) -> None:
    """Add a row for a model of images of any size."""
    limit = (least, 1024)
    row(name, make, {"pixels": floats("b 3 h w")}, "b h w", IMAGES, h=limit, w=limit)


fixed("vit", lambda: Pixels(transformers.ViTModel(transformers.ViTConfig(**SMALL))))
sized(
    "vit_any_size",
    lambda: Pixels(
        transformers.ViTModel(transformers.ViTConfig(**SMALL)), interpolate_pos_encoding=True
    ),
)
fixed("deit", lambda: Pixels(transformers.DeiTModel(transformers.DeiTConfig(**SMALL))))
fixed(
    "swin",
    lambda: Pixels(
        transformers.SwinModel(
            transformers.SwinConfig(
                image_size=32, patch_size=2, embed_dim=32, depths=[2, 2], num_heads=[2, 4],
                window_size=4,
            )
        )
    ),
)  # fmt: skip
sized("swin_any_size", lambda: tv.SwinTransformer([4, 4], 32, [2, 2], [2, 4], [4, 4]))
fixed(
    "clip_vision",
    lambda: Pixels(transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**SMALL))),
)
row(
    "clip_text",
    lambda: Masked(
        transformers.CLIPTextModel(
            transformers.CLIPTextConfig(
                vocab_size=96, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                intermediate_size=128, max_position_embeddings=80, eos_token_id=2,
            )
        )
    ),
    {"ids": ids("b s"), "mask": mask()}, "b s",
    [(1, 1), (1, 7), (2, 13), (3, 31), (1, 64), (5, 17)], s=(1, 77),
)  # fmt: skip


class Clip(nn.Module):
    """CLIP, which scores how well texts describe images."""

    def __init__(self) -> None:
        super().__init__()
        text = {
            "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
            "intermediate_size": 128, "max_position_embeddings": 80, "eos_token_id": 2,
        }  # fmt: skip
        config = transformers.CLIPConfig(
            text_config=text, vision_config={**SMALL, "num_hidden_layers": 1}, projection_dim=32
        )
        self.model = transformers.CLIPModel(config)

    def forward(self, ids: Any, pixels: Any, mask: Any) -> Any:
        made = self.model(input_ids=ids, pixel_values=pixels, attention_mask=mask)
        return made.logits_per_image


row(
    "clip", Clip,
    {"ids": ids("t s"), "pixels": floats("b 3 32 32"), "mask": mask("t s")}, "t b s",
    [(1, 1, 1), (1, 2, 7), (2, 3, 13), (3, 2, 31), (1, 1, 64), (5, 3, 17)], s=(1, 77),
)  # fmt: skip

sized(
    "convnext",
    lambda: tv.ConvNeXt([CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)], num_classes=10),
)
Basic, Bottle = tv.resnet.BasicBlock, tv.resnet.Bottleneck
sized("resnet_basic", lambda: tv.ResNet(Basic, [1, 1, 1, 1], num_classes=10))
sized("resnet_bottleneck", lambda: tv.ResNet(Bottle, [1, 1, 1, 1], num_classes=10))
sized(
    "resnext",
    lambda: tv.ResNet(Bottle, [1, 1, 1, 1], num_classes=10, groups=4, width_per_group=8),
)
sized("mobilenet_v2", spread_out(lambda: tv.MobileNetV2(num_classes=10, width_mult=0.25)))


def mobilenet_v3() -> nn.Module:
    """Return MobileNet v3 of four blocks."""
    block = partial(InvertedResidualConfig, dilation=1, width_mult=1.0)
    blocks = [
        block(16, 3, 16, 16, True, "RE", stride=2), block(16, 3, 72, 24, False, "RE", stride=2),
        block(24, 5, 96, 40, True, "HS", stride=2), block(40, 5, 240, 40, True, "HS", stride=1),
    ]  # fmt: skip
    return tv.MobileNetV3(blocks, last_channel=64, num_classes=10)


def efficientnet() -> nn.Module:
    """Return EfficientNet of four blocks."""
    block = partial(MBConvConfig, width_mult=0.5, depth_mult=1.0)
    blocks = [
        block(1, 3, 1, 32, 16, 1), block(6, 3, 2, 16, 24, 1), block(6, 5, 2, 24, 40, 2),
    ]  # fmt: skip
    return tv.EfficientNet(blocks, dropout=0.2, num_classes=10)


def regnet() -> nn.Module:
    """Return RegNet Y of four stages, with squeeze and excitation."""
    params = BlockParams.from_init_params(
        depth=6, w_0=16, w_a=16.0, w_m=2.0, group_width=8, se_ratio=0.25
    )
    return tv.RegNet(params, num_classes=10)


sized("mobilenet_v3", spread_out(mobilenet_v3))
sized("mnasnet", lambda: tv.MNASNet(0.35, num_classes=10))
sized("efficientnet", efficientnet)
sized("densenet", lambda: tv.DenseNet(8, (2, 2, 2), 16, num_classes=10))
sized("shufflenet", lambda: tv.ShuffleNetV2([2, 2, 2], [24, 32, 48, 64, 96], num_classes=10))
sized("regnet", regnet)
sized("squeezenet", lambda: tv.SqueezeNet("1_1", num_classes=10))
sized("googlenet", lambda: tv.GoogLeNet(num_classes=10, aux_logits=False, init_weights=False))


def vgg() -> nn.Module:
    """Return VGG with batch normalization."""
    layers = tv.vgg.make_layers([16, "M", 32, "M", 64, 64, "M"], batch_norm=True)
    model = tv.VGG(layers, num_classes=10, init_weights=False)
    model.classifier = nn.Sequential(nn.Linear(64 * 49, 64), nn.ReLU(), nn.Linear(64, 10))
    return model


sized("vgg", vgg)


class DeepLab(nn.Module):
    """DeepLab v3: a small backbone, pyramid of dilated convolutions, scores at full size."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 4, 1),
            nn.ReLU(),
        )  # fmt: skip
        self.head = segmentation.deeplabv3.DeepLabHead(32, 5, (2, 4))

    def forward(self, pixels: Any) -> Any:
        scores = self.head(self.backbone(pixels))
        return nn.functional.interpolate(
            scores, size=pixels.shape[-2:], mode="bilinear", align_corners=False
        )


sized("deeplab", DeepLab)


class UNet(nn.Module):
    """A U-Net of two levels; ``up`` is the kind of upsampling."""

    def __init__(self, up: str) -> None:
        super().__init__()
        self.up = up
        block = lambda i, o: nn.Sequential(  # noqa: E731
            nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU()
        )
        self.down = nn.ModuleList([block(3, 16), block(16, 32), block(32, 64)])
        self.lift = nn.ModuleList(
            [nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)]
            if up == "transposed"
            else [nn.Conv2d(64, 32, 1), nn.Conv2d(32, 16, 1)]
        )
        self.join = nn.ModuleList([block(64, 32), block(32, 16)])
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, pixels: Any) -> Any:
        a = self.down[0](pixels)
        b = self.down[1](nn.functional.max_pool2d(a, 2))
        x = self.down[2](nn.functional.max_pool2d(b, 2))
        for k, skip in enumerate((b, a)):
            x = self.lift[k](x)
            if self.up != "transposed":
                named = {} if self.up == "nearest" else {"align_corners": False}
                x = nn.functional.interpolate(x, size=skip.shape[-2:], mode=self.up, **named)
            x = self.join[k](torch.cat([x, skip], 1))
        return self.head(x)


row(
    "unet_transposed", lambda: UNet("transposed"), {"pixels": floats("b 3 4*h 4*w")}, "b h w",
    [(1, 4, 4), (2, 7, 5), (3, 8, 13), (1, 1, 2), (1, 16, 11), (0, 2, 3)],
    h=(1, 256), w=(1, 256),
)  # fmt: skip
sized("unet_nearest", lambda: UNet("nearest"), least=8)
sized("unet_bilinear", lambda: UNet("bilinear"), least=8)
