"""The distillers, one a file; all of them post-process releases."""

from dpdistill.methods.decoupled_kip import DecoupledKIP
from dpdistill.methods.dm import DM
from dpdistill.methods.dos import DOS
from dpdistill.methods.dp_hp import DPHP
from dpdistill.methods.dp_kip import DPKIP
from dpdistill.methods.dp_merf import DPMERF
from dpdistill.methods.kip import KIP
from dpdistill.methods.ldpdc import LDPDC
from dpdistill.methods.ndpdc import NDPDC

__all__ = ["DM", "DOS", "DPHP", "DPKIP", "DPMERF", "KIP", "LDPDC", "NDPDC", "DecoupledKIP"]
