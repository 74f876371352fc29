"""The distillers, one a file; all of them post-process releases."""

from dpdistill.methods.dm import DM
from dpdistill.methods.dos import DOS
from dpdistill.methods.ldpdc import LDPDC
from dpdistill.methods.ndpdc import NDPDC

__all__ = ["DM", "DOS", "LDPDC", "NDPDC"]
