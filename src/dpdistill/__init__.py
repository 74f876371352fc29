"""dpdistill: private labelled data to a tiny synthetic set that may be shared, under differential privacy."""

from typing import TYPE_CHECKING

from dpdistill.accounting.schedule import Budget
from dpdistill.data import Records, load
from dpdistill.methods import *  # noqa: F403 - the methods of the one table
from dpdistill.methods import __all__ as _methods
from dpdistill.run.driver import Result, distill, distill_without_privacy, finish_again
from dpdistill.schema import Column, DataError, Schema, TableSchema
from dpdistill.verification import verify

if TYPE_CHECKING:
    from dpdistill.table_distiller import TableDistiller

__version__ = "0.1.0"

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "Budget",
    "Column",
    "DataError",
    "Records",
    "Result",
    "Schema",
    "TableDistiller",
    "TableSchema",
    "distill",
    "distill_without_privacy",
    "finish_again",
    "load",
    "verify",
    *_methods,
]


def __getattr__(name: str) -> object:
    # scikit-learn, pandas and PyArrow are an extra: they are imported by those who work with tables.
    if name == "TableDistiller":
        from dpdistill.table_distiller import TableDistiller

        return TableDistiller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
