"""The networks that a synthetic set can be scored with, by name."""

from __future__ import annotations

import jax

from dpdistill.encode.networks import MLP, ConvNet, LeNet, Network
from dpdistill.encode.resnet import ResNet18
from dpdistill.encode.vgg import VGG11
from dpdistill.encode.vit import ViT
from dpdistill.schema import DataError, Schema

_NETWORKS: tuple[Network, ...] = (ConvNet(), MLP(), LeNet(), VGG11(), ResNet18(), ViT())
ARCHITECTURES = {network.title.lower().replace("-", ""): network for network in _NETWORKS}


def check_network(network: Network, schema: Schema) -> None:
    """Raise on records that a network cannot take.

    Raises:
        DataError: with the network's name and what it expects.
    """
    try:
        jax.eval_shape(lambda: network.init(schema.shape, len(schema.classes)))
    except ValueError as error:
        raise DataError(f"{network.title}: {error}") from None
