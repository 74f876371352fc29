"""dpdistill: private labelled data to a tiny synthetic set that may be shared, under differential privacy."""

from dpdistill.data import Records, load
from dpdistill.methods import DM, DOS, DPKIP, KIP, LDPDC, NDPDC, DecoupledKIP
from dpdistill.private.accounting import Budget
from dpdistill.private.verify import verify
from dpdistill.run import Result, distill, distill_without_privacy, finish_again
from dpdistill.schema import DataError, Schema

__version__ = "0.1.0"

__all__ = [
    "DM",
    "DOS",
    "DPKIP",
    "KIP",
    "LDPDC",
    "NDPDC",
    "Budget",
    "DataError",
    "DecoupledKIP",
    "Records",
    "Result",
    "Schema",
    "distill",
    "distill_without_privacy",
    "finish_again",
    "load",
    "verify",
]
