"""Networks that score a synthetic set, by name."""

from __future__ import annotations

import jax

from dpdistill.networks.network import Network
from dpdistill.recipe import networks as recipe
from dpdistill.recipe.parts import implement
from dpdistill.schema import DataError, Schema

ARCHITECTURES = {name: implement(network, Network) for name, network in recipe.ARCHITECTURES.items()}


def check_network(network: Network, schema: Schema) -> None:
    """Refuses records that a network does not accept.

    Raises:
        DataError: such records, with the network's name and its expected input.
    """
    try:
        jax.eval_shape(lambda: network.init(schema.shape, len(schema.classes)))
    except ValueError as error:
        raise DataError(f"{network.title}: {error}") from None
