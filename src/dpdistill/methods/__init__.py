"""The distillers, one a file; all of them post-process releases. METHODS is the one place that lists them."""

from dpdistill.method import Method
from dpdistill.methods.decoupled_kip import DecoupledKIP
from dpdistill.methods.dm import DM
from dpdistill.methods.dos import DOS
from dpdistill.methods.dos_kip import DOSKIP
from dpdistill.methods.dp_hp import DPHP
from dpdistill.methods.dp_kip import DPKIP
from dpdistill.methods.dp_merf import DPMERF
from dpdistill.methods.dp_ntk import DPNTK
from dpdistill.methods.dp_sgd import DPSGD
from dpdistill.methods.kip import KIP
from dpdistill.methods.ldpdc import LDPDC
from dpdistill.methods.ndpdc import NDPDC
from dpdistill.methods.psg import PSG

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (DOS, DecoupledKIP, DOSKIP, DPKIP, DPMERF, DPHP, DPNTK, NDPDC, LDPDC, PSG, DPSGD, DM, KIP)
}
"""Every method by its name; the command line, the package's names and the conformance tests follow from it."""

__all__ = sorted(method.__name__ for method in METHODS.values())  # pyright: ignore[reportUnsupportedDunderAll]
