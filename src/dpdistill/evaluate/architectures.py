"""The networks that a synthetic set can be scored with, by name."""

from __future__ import annotations

import jax

from dpdistill.encode.networks import MLP, ConvNet, LeNet, Network
from dpdistill.encode.resnet import ResNet18
from dpdistill.encode.vgg import VGG11
from dpdistill.encode.vit import ViT
from dpdistill.schema import DataError, Schema

ARCHITECTURES: dict[str, Network] = {
    "convnet": ConvNet(),
    "convnet64": ConvNet(width=64),
    "mlp": MLP(),
    "lenet": LeNet(),
    "vgg11": VGG11(),
    "resnet18": ResNet18(),
    "vit": ViT(),
}


def check_network(network: Network, schema: Schema) -> None:
    """Raise on records that a network cannot take.

    Raises:
        DataError: with the network's name and what it expects.
    """
    try:
        jax.eval_shape(lambda: network.init(schema.shape, len(schema.classes)))
    except ValueError as error:
        raise DataError(f"{network.title}: {error}") from None
