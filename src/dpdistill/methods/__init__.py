"""The distillers, one a file; all of them post-process releases. Their recipes are in `dpdistill.recipe.methods`."""

from collections.abc import Iterator, Mapping

from dpdistill.method import Method
from dpdistill.methods.baselines.dm import DM
from dpdistill.methods.baselines.kip import KIP
from dpdistill.methods.baselines.ldpdc import LDPDC
from dpdistill.methods.baselines.ndpdc import NDPDC
from dpdistill.methods.baselines.psg import PSG
from dpdistill.methods.decoupled_kip import DecoupledKIP
from dpdistill.methods.dos import DOS
from dpdistill.methods.dos_kip import DOSKIP
from dpdistill.methods.dp_hp import DPHP
from dpdistill.methods.dp_kip import DPKIP
from dpdistill.methods.dp_merf import DPMERF
from dpdistill.methods.dp_ntk import DPNTK
from dpdistill.methods.dp_sgd import DPSGD
from dpdistill.recipe.methods import RECIPES
from dpdistill.recipe.parts import code_of


class Methods(Mapping[str, type[Method]]):
    """Every method by its name: the classes that compute for the recipes in RECIPES, in their order."""

    def __getitem__(self, name: str) -> type[Method]:
        return code_of(RECIPES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(RECIPES)

    def __len__(self) -> int:
        return len(RECIPES)


METHODS = Methods()
"""The package's names and the conformance tests follow from it."""

__all__ = [
    "DM",
    "DOS",
    "DOSKIP",
    "DPHP",
    "DPKIP",
    "DPMERF",
    "DPNTK",
    "DPSGD",
    "KIP",
    "LDPDC",
    "NDPDC",
    "PSG",
    "DecoupledKIP",
]
